"""Models to try the optimizer on: TENSAT's own, and the light ONNX models of the `onnx` package.

Every model is a `tvm.IRModule` with one Relax function ``main``, whose body is one dataflow block
and whose weights are constants, drawn from a generator seeded by ``seed``.

>>> from tvm_tensat import zoo
>>> zoo.names()
('bert', 'nasrnn', 'squeezenet', ...)
>>> module = zoo.load("nasrnn")
"""

from __future__ import annotations

from collections.abc import Callable

import tvm

from tvm_tensat.zoo import bert, inception, light, mobilenet, nasnet, nasrnn, resnext

_BUILDERS: dict[str, Callable[[int], tvm.IRModule]] = {
    "bert": bert.build,
    "nasrnn": nasrnn.build,
    "resnext50": resnext.build,
    "nasnet_a": nasnet.build,
    "inception_v3": inception.build,
    "mobilenet_v2": mobilenet.build,
}


def names() -> tuple[str, ...]:
    """Return the names that `load` takes."""
    return (*_BUILDERS, *light.FILES)


def load(name: str, seed: int = 0) -> tvm.IRModule:
    """Build a model.

    Parameters
    ----------
    name : str
        One of `names()`.
    seed : int
        Equal seeds give equal weights, whatever else is loaded before.

    Returns
    -------
    tvm.IRModule
        With the function ``main``.

    Raises
    ------
    ValueError
        When there is no model of this name.
    ImportError
        When the model comes from the `onnx` package and that is not installed.
    """
    if name in _BUILDERS:
        return _BUILDERS[name](seed)
    if name in light.FILES:
        return light.build(name, seed)
    raise ValueError(f"the zoo has no model {name!r}; it has {', '.join(names())}")


__all__ = ["load", "names"]
