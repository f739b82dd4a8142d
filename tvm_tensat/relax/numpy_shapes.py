"""Operators that move, select and spread elements, by numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_tensat.egraph.language import Refusal
from tvm_tensat.relax.numpy_base import Array, Rule, require
from tvm_tensat.relax.types import numpy_dtype

__all__ = ["SHAPES"]


def _where(operator: Any, operands: Sequence[Array]) -> Array:
    condition, yes, no = operands
    return np.where(condition, yes, no)


def _take(operator: Any, operands: Sequence[Array]) -> Array:
    array, indices = operands
    axis = operator["axis"]
    if axis is None:
        raise Refusal("relax.take: unknown axis")
    inside = (indices >= 0) & (indices < array.shape[axis])
    require(bool(np.all(inside)), operator, "an index is out of bounds")
    return np.take(array, indices, axis=axis)


def _concat(operator: Any, operands: Sequence[Any]) -> Array:
    return np.concatenate(operands[0], axis=operator["axis"])


def _stack(operator: Any, operands: Sequence[Any]) -> Array:
    return np.stack(operands[0], axis=operator["axis"])


def _split(operator: Any, operands: Sequence[Array]) -> tuple[Array, ...]:
    array, axis, indices = operands[0], operator["axis"], operator["indices_or_sections"]
    require(isinstance(indices, tuple) and isinstance(axis, int), operator, "not by indices")
    cuts = [0, *indices, array.shape[axis]]
    require(cuts == sorted(cuts), operator, f"indices {indices} are not in order")
    return tuple(np.split(array, indices, axis=axis))


def _strided_slice(operator: Any, operands: Sequence[Array]) -> Array:
    array = operands[0]
    window = [slice(None)] * array.ndim
    columns = [operator[key] for key in ("axes", "begin", "end", "strides")]
    for axis, begin, end, stride in zip(*columns, strict=True):
        forward = stride > 0 and 0 <= begin <= end <= array.shape[axis]
        require(forward, operator, f"[{begin}:{end}:{stride}] is no forward slice")
        window[axis] = slice(begin, end, stride)
    return array[tuple(window)]


def _pad(operator: Any, operands: Sequence[Array]) -> Array:
    array, widths = operands[0], operator["pad_width"]
    require(operator["pad_mode"] == "constant", operator, f"mode {operator['pad_mode']}")
    pairs = np.asarray(widths, dtype=np.int64).reshape(-1, 2)
    require(len(pairs) == array.ndim and bool((pairs >= 0).all()), operator, "widths")
    fill = np.asarray(operator["pad_value"]).astype(array.dtype)
    return np.pad(array, pairs, constant_values=fill)


def _filled(fill: int | None) -> Rule:
    def rule(operator: Any, operands: Sequence[Array]) -> Array:
        value = operands[0] if fill is None else np.asarray(fill)
        dtype = numpy_dtype(str(operator["dtype"]))
        return np.broadcast_to(value.astype(dtype), operator["shape"])

    return rule


def _shaped(function: Callable[..., Any], *attributes: str) -> Rule:
    """Return a rule that passes an array and attributes on to numpy."""

    def rule(operator: Any, operands: Sequence[Array]) -> Any:
        return function(operands[0], *(operator[name] for name in attributes))

    return rule


SHAPES: dict[str, Rule] = {
    "relax.where": _where,
    "relax.take": _take,
    "relax.concat": _concat,
    "relax.stack": _stack,
    "relax.split": _split,
    "relax.strided_slice": _strided_slice,
    "relax.nn.pad": _pad,
    "relax.full": _filled(None),
    "relax.zeros": _filled(0),
    "relax.ones": _filled(1),
    "relax.reshape": _shaped(np.reshape, "shape"),
    "relax.broadcast_to": _shaped(np.broadcast_to, "shape"),
    "relax.permute_dims": _shaped(np.transpose, "axes"),
    "relax.expand_dims": _shaped(np.expand_dims, "axis"),
    "relax.squeeze": _shaped(np.squeeze, "axis"),
    "relax.tile": _shaped(np.tile, "repeats"),
    "relax.repeat": _shaped(np.repeat, "repeats", "axis"),
    "relax.flip": _shaped(np.flip, "axis"),
}
