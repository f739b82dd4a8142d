"""What a compiled library takes and returns, carried by the library itself.

A compiled Relax module knows how many parameters ``main`` has and their names, but not their
types. So ``tvmc compile`` adds one more Relax function, ``tvmc_signature``, that returns the
signature as a JSON string. It is part of the library, so it cannot be lost or out of date.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_tensat.cli.errors import CommandError

FUNCTION = "tvmc_signature"


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that goes in or out.

    Parameters
    ----------
    name : str
        The parameter's name; ``output_0``, ``output_1``, ... for outputs.
    shape : tuple of int or str, or None
        A symbolic dimension is its expression; None when the rank is unknown.
    dtype : str or None
        None when the value is no tensor.
    """

    name: str
    shape: tuple[int | str, ...] | None
    dtype: str | None

    def __str__(self) -> str:
        shape = "unknown shape" if self.shape is None else str(list(self.shape)).replace("'", "")
        return f"{self.name}: {self.dtype or 'no tensor'} {shape}"


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of ``main``, and the kind of device it was compiled for."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    device: str


def signature_of(module: tvm.IRModule, target: tvm.target.Target) -> Signature:
    """Read the signature of ``main`` from its types."""
    main = module["main"]
    return Signature(
        inputs=tuple(_spec(str(p.name), p.ty) for p in main.params),
        outputs=tuple(_spec(f"output_{i}", ty) for i, ty in enumerate(_fields(main.ret_ty))),
        device="cuda" if target.kind.name == "cuda" else "cpu",
    )


def with_signature(module: tvm.IRModule, signature: Signature) -> tvm.IRModule:
    """Return the module with a function that returns the signature."""
    builder = relax.BlockBuilder(module)
    with builder.function(FUNCTION, []):
        builder.emit_func_output(tvm.ir.StringImm(json.dumps(asdict(signature))))
    return builder.get()


def read_signature(machine: relax.VirtualMachine, library: object) -> Signature:
    """Ask a loaded library for its signature.

    Raises
    ------
    CommandError
        When `library` was not written by ``tvmc compile``.
    """
    try:
        data: dict[str, Any] = json.loads(str(machine[FUNCTION]()))
    except (AttributeError, ValueError, RuntimeError) as error:
        raise CommandError(
            f"{library}: a TVM library without a signature; compile the model with tvmc compile"
        ) from error
    specs = {
        side: tuple(
            TensorSpec(s["name"], None if s["shape"] is None else tuple(s["shape"]), s["dtype"])
            for s in data[side]
        )
        for side in ("inputs", "outputs")
    }
    return Signature(specs["inputs"], specs["outputs"], data["device"])


def _spec(name: str, ty: Any) -> TensorSpec:
    if not isinstance(ty, relax.TensorType):
        return TensorSpec(name, None, None)
    if ty.shape is None or not isinstance(ty.shape, relax.ShapeExpr):
        return TensorSpec(name, None, str(ty.dtype))
    dims = tuple(
        int(d) if isinstance(d, int | tvm.tirx.IntImm) else str(d) for d in ty.shape.values
    )
    return TensorSpec(name, dims, str(ty.dtype))


def _fields(ty: Any) -> list[Any]:
    """Return the types of the values returned, tuples taken apart."""
    if isinstance(ty, relax.TupleType):
        return [leaf for field in ty.fields for leaf in _fields(field)]
    return [ty]
