"""A module that applies one kernel many times, with caches as cold as in a running model.

A kernel that is called again and again on the same buffers finds its weights in the cache, where a
model that has many kernels finds them in memory; timed that way, NasRNN's kernels summed to a
quarter of what they cost. Here one function applies N copies of the kernel, each with constant
weights of its own, all on the same activations: by the time a copy runs again, the weights of the
others have passed through the cache. Activations are as warm as in a model, where the kernel
before has just written them.

The copies stay apart through the whole build: each has its own dataflow block and its own
constants, and after each its result is looked at by an impure call, so that no pass can merge,
fuse or drop them. That call and the VM's own work are 0.1 us a copy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

MAX_COPIES = 64
"""Enough for products of a vector with 512x512 weights: with 32 copies their sum was 0.72 of what
a chain of 64 took, with 64 copies 0.89 (noisy). Building takes about 10 ms a copy."""
FEWEST_COPIES = 4
"""Copies of a kernel without weights, each on activations of its own, and of one whose weights are
less than a quarter of its activations, which then decide how long it takes."""
_SINK = "vm.builtin.shape_of"
_MAX_INDEX = 127


@dataclass(frozen=True)
class Rotation:
    """A module that applies a kernel `copies` times in ``main``, and once in ``single``.

    Parameters
    ----------
    module : tvm.IRModule
        Functions ``main`` and ``single`` take the same activations; ``main`` returns nothing,
        ``single`` the kernel's result.
    copies : int
        Number of times that ``main`` applies the kernel.
    activations : tuple of numpy.ndarray
        Values to call the functions with.
    """

    module: tvm.IRModule
    copies: int
    activations: tuple[NDArray[Any], ...]


def rotate(module: tvm.IRModule, weights: tuple[bool, ...], rotation_bytes: int) -> Rotation:
    """Build the rotation of a kernel.

    Parameters
    ----------
    module : tvm.IRModule
        The kernel (`tvm_tensat.cost.Kernel`).
    weights : tuple of bool
        Which of its parameters become constants.
    rotation_bytes : int
        The weights of all copies together are at least this large, unless there are `MAX_COPIES`.

    Raises
    ------
    ValueError
        If the kernel is not of the form that `Kernel` describes.
    """
    function = module["main"]
    if len(weights) != len(function.params):
        raise ValueError(f"{len(function.params)} parameters but {len(weights)} weight flags")
    shapes = [_static_shape(param) for param in function.params]
    sizes = [
        math.prod(shape) * np.dtype(_dtype(param)).itemsize
        for param, shape in zip(function.params, shapes, strict=True)
    ]
    weight_bytes = sum(size for size, w in zip(sizes, weights, strict=True) if w)
    activation_bytes = sum(sizes) - weight_bytes
    if 4 * weight_bytes < activation_bytes:
        copies = FEWEST_COPIES
    else:
        copies = min(MAX_COPIES, max(1, math.ceil(rotation_bytes / max(weight_bytes, 1))))
    if all(weights):
        copies = 1  # nothing is left to run: it is all computed while building
    highest = min([_MAX_INDEX, *(dim - 1 for shape in shapes for dim in shape)])
    source = _Values(np.random.default_rng(0), max(highest, 0))

    shared: list[relax.Var] = []
    activations: list[NDArray[Any]] = []

    def new_activations() -> list[relax.Var]:
        made = []
        for param, shape, is_weight in zip(function.params, shapes, weights, strict=True):
            if not is_weight:
                made.append(relax.Var(f"{param.name}_{len(shared)}", param.ty))
                shared.append(made[-1])
                activations.append(source.array(shape, _dtype(param)))
        return made

    arguments = []
    for copy in range(copies):
        if copy == 0 or not weight_bytes:
            current = new_activations()
        remaining = iter(current)
        arguments.append(
            [
                relax.const(source.array(shape, _dtype(param)), _dtype(param))
                if is_weight
                else next(remaining)
                for param, shape, is_weight in zip(function.params, shapes, weights, strict=True)
            ]
        )
    result = tvm.IRModule({gv: f for gv, f in module.functions.items() if gv.name_hint != "main"})
    result["main"] = _apply_each(function, arguments, shared, "main")
    single_shared = [relax.Var(var.name, var.ty) for var in shared]
    renamed = dict(zip(shared, single_shared, strict=True))
    once = [renamed.get(arg, arg) if isinstance(arg, relax.Var) else arg for arg in arguments[0]]
    result["single"] = _apply_each(function, [once], single_shared, "single", returns=True)
    # Calls that were made by hand have no types yet.
    return Rotation(relax.transform.Normalize()(result), copies, tuple(activations))


def _static_shape(param: relax.Var) -> tuple[int, ...]:
    shape = getattr(param.ty, "shape", None)
    if shape is None or not all(hasattr(dim, "value") for dim in shape):
        raise ValueError(f"parameter {param.name} is no tensor of static shape: {param.ty}")
    return tuple(int(dim) for dim in shape)


def _dtype(param: relax.Var) -> str:
    return str(param.ty.dtype.dtype)


def _apply_each(
    function: relax.Function,
    arguments: list[list[relax.Expr]],
    params: list[relax.Var],
    name: str,
    returns: bool = False,
) -> relax.Function:
    """Return a function that applies `function` to each list of arguments, one after the other.

    It returns the last result, or nothing.
    """
    blocks: list[relax.BindingBlock] = []
    for values in arguments:
        fresh = relax.utils.copy_with_new_vars(function)
        applied = fresh.bind_params(dict(zip(fresh.params, values, strict=True)))
        blocks.extend(applied.body.blocks)
        blocks.append(relax.BindingBlock(_look_at(applied.body.body)))
    result = applied.body.body if returns else relax.Tuple([])
    result_type = function.ret_ty if returns else relax.TupleType([])
    body = relax.SeqExpr(blocks, result)
    attrs = tvm.ir.make_node("ir.DictAttrs", global_symbol=name)
    return relax.Function(params, body, result_type, is_pure=False, attrs=attrs)


def _look_at(value: relax.Expr) -> list[relax.Binding]:
    """Return impure calls on every tensor in this value, so that none is dead code."""
    if isinstance(value.ty, relax.TupleType):
        bindings = []
        for index, field in enumerate(value.ty.fields):
            item = relax.Var("item", field)
            bindings.append(relax.VarBinding(item, relax.TupleGetItem(value, index)))
            bindings.extend(_look_at(item))
        return bindings
    rank = relax.ShapeType(ndim=value.ty.ndim)
    call = relax.Call(relax.ExternFunc(_SINK), [value], ty_args=[rank])
    return [relax.VarBinding(relax.Var("seen", rank), call)]


class _Values:
    """Random arrays, cheaply: one pool of random numbers, each array a stretch of it.

    Floats lie in [0.5, 1.5): no kernel meets denormal or negative values that it would not meet
    in a model. Integers may be indices, so they are below every dimension of the kernel.
    """

    def __init__(self, random: np.random.Generator, highest: int) -> None:
        self._random = random
        self._highest = highest
        self._pool = random.random(1 << 20, dtype=np.float32) + np.float32(0.5)

    def array(self, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        kind = np.dtype(dtype).kind
        if kind == "b":
            return self._random.random(shape) < 0.5
        if kind in "iu":
            return self._random.integers(0, self._highest + 1, shape).astype(dtype)
        values = np.empty(math.prod(shape), np.float32)
        start = int(self._random.integers(0, self._pool.size))
        filled = 0
        while filled < values.size:
            stretch = self._pool[start : start + values.size - filled]
            values[filled : filled + stretch.size] = stretch
            filled, start = filled + stretch.size, 0
        return values.reshape(shape).astype(dtype, copy=False)
