"""Arithmetic operators by numpy, with TVM's results: see `tvm_tensat.relax.evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tvm_tensat.relax.numpy_base import Array, Rule, is_float, require, wide
from tvm_tensat.relax.types import numpy_dtype

__all__ = ["ARITHMETIC"]


def _arithmetic(function: Callable[..., Any], floats_only: bool = False) -> Rule:
    def rule(operator: Any, operands: Sequence[Array]) -> Array:
        first = operands[0]
        require(first.dtype.kind != "b", operator, "TVM has no arithmetic on bool")
        require(all(a.dtype == first.dtype for a in operands), operator, "mixed dtypes")
        require(is_float(first) or not floats_only, operator, f"not on {first.dtype}")
        return np.asarray(function(*operands)).astype(first.dtype, copy=False)

    return rule


def _rounded_once(function: Callable[..., Any]) -> Rule:
    """Return a rule for a float function that narrow floats compute in 32 bits."""
    return _arithmetic(lambda *arrays: function(*(wide(a) for a in arrays)), floats_only=True)


def _signed(function: Callable[..., Any]) -> Rule:
    arithmetic = _arithmetic(function)

    def rule(operator: Any, operands: Sequence[Array]) -> Any:
        require(operands[0].dtype.kind != "u", operator, "TVM has no sign for unsigned integers")
        return arithmetic(operator, operands)

    return rule


def _division(of_integers: Callable[..., Any], of_floats: Callable[..., Any]) -> Rule:
    arithmetic = {
        True: _arithmetic(of_floats),
        False: _arithmetic(of_integers),
    }

    def rule(operator: Any, operands: Sequence[Array]) -> Any:
        floats = is_float(operands[0])
        require(floats or bool(np.all(operands[1] != 0)), operator, "integer divided by zero")
        return arithmetic[floats](operator, operands)

    return rule


def _truncated(a: Array, b: Array) -> Array:
    quotient = np.floor_divide(a, b)
    return np.where((np.remainder(a, b) != 0) & ((a < 0) != (b < 0)), quotient + 1, quotient)


def _comparison(function: Callable[..., Any]) -> Rule:
    def rule(operator: Any, operands: Sequence[Array]) -> Array:
        require(operands[0].dtype.kind != "b", operator, "TVM does not compare bool")
        return np.asarray(function(*operands), dtype=bool)

    return rule


def _logical(function: Callable[..., Any]) -> Rule:
    def rule(operator: Any, operands: Sequence[Array]) -> Array:
        require(all(a.dtype.kind == "b" for a in operands), operator, "only on bool")
        return np.asarray(function(*operands))

    return rule


def _astype(operator: Any, operands: Sequence[Array]) -> Array:
    source, dtype = operands[0], numpy_dtype(str(operator["dtype"]))
    if dtype.kind in "iu" and is_float(source):
        values = wide(source).astype(np.float64)
        bounds = np.iinfo(dtype)
        fits = (values > float(bounds.min) - 1) & (values < float(bounds.max) + 1)
        require(bool(np.all(fits)), operator, f"a value does not fit {dtype}")
    return source.astype(dtype)


def _matmul(operator: Any, operands: Sequence[Array]) -> Array:
    dtype = numpy_dtype(str(operator["out_dtype"]))
    left, right = (wide(operand.astype(dtype, copy=False)) for operand in operands)
    require(dtype.kind != "b", operator, "TVM has no arithmetic on bool")
    return np.asarray(np.matmul(left, right)).astype(dtype, copy=False)


def _axes(operator: Any) -> tuple[int, ...]:
    axes = operator["axis"]
    require(isinstance(axes, tuple), operator, "unknown axes")
    return axes


def _accumulation(function: Callable[..., Any]) -> Rule:
    def rule(operator: Any, operands: Sequence[Array]) -> Array:
        array = operands[0]
        require(array.dtype.kind != "b", operator, "TVM has no arithmetic on bool")
        widened = wide(array)
        axes, keepdims = _axes(operator), operator["keepdims"]
        result = function(widened, axis=axes, keepdims=keepdims, dtype=widened.dtype)
        return np.asarray(result).astype(array.dtype, copy=False)

    return rule


def _mean(operator: Any, operands: Sequence[Array]) -> Any:
    array = operands[0]
    require(is_float(array), operator, f"TVM's result on {array.dtype} has another dtype")
    require(array.size > 0, operator, "TVM has no mean of nothing")
    return _accumulation(np.mean)(operator, operands)


def _extreme(function: Callable[..., Any], lowest: bool) -> Rule:
    """Return a rule for max or min, which TVM starts from the dtype's last finite value."""

    def rule(operator: Any, operands: Sequence[Array]) -> Array:
        array = operands[0]
        require(array.dtype.kind != "b", operator, "not on bool")
        widened = wide(array)
        require(not bool(np.isnan(widened).any()), operator, "TVM's result depends on NaN's place")
        limits = _limits(array.dtype)
        start = limits.min if lowest else limits.max
        axes, keepdims = _axes(operator), operator["keepdims"]
        result = function(widened, axis=axes, keepdims=keepdims, initial=widened.dtype.type(start))
        return np.asarray(result).astype(array.dtype, copy=False)

    return rule


def _limits(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype)
    if dtype.kind == "f":
        return np.finfo(dtype)
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def _binary_select(take_first: Callable[..., Any]) -> Rule:
    return _arithmetic(lambda a, b: np.where(take_first(a, b), a, b))


ARITHMETIC: dict[str, Rule] = {
    "relax.add": _arithmetic(np.add),
    "relax.subtract": _arithmetic(np.subtract),
    "relax.multiply": _arithmetic(np.multiply),
    "relax.divide": _division(_truncated, np.divide),
    "relax.floor_divide": _division(np.floor_divide, lambda a, b: np.floor(a / b)),
    "relax.floor_mod": _division(np.remainder, lambda a, b: a - np.floor(a / b) * b),
    "relax.power": _rounded_once(np.power),
    "relax.square": _arithmetic(np.square),
    "relax.negative": _signed(np.negative),
    "relax.abs": _signed(np.abs),
    "relax.sqrt": _rounded_once(np.sqrt),
    "relax.rsqrt": _rounded_once(lambda a: 1 / np.sqrt(a)),
    "relax.exp": _rounded_once(np.exp),
    "relax.log": _rounded_once(np.log),
    # TVM selects the second operand where either is NaN.
    "relax.maximum": _binary_select(np.greater),
    "relax.minimum": _binary_select(np.less),
    "relax.equal": _comparison(np.equal),
    # In TVM's kernels NaN is not "not equal" to anything: LLVM's ordered comparison.
    "relax.not_equal": _comparison(lambda a, b: (a < b) | (a > b)),
    "relax.less": _comparison(np.less),
    "relax.less_equal": _comparison(np.less_equal),
    "relax.greater": _comparison(np.greater),
    "relax.greater_equal": _comparison(np.greater_equal),
    "relax.logical_and": _logical(np.logical_and),
    "relax.logical_or": _logical(np.logical_or),
    "relax.logical_not": _logical(np.logical_not),
    "relax.astype": _astype,
    "relax.matmul": _matmul,
    "relax.sum": _accumulation(np.sum),
    "relax.prod": _accumulation(np.prod),
    "relax.mean": _mean,
    "relax.max": _extreme(np.max, lowest=True),
    "relax.min": _extreme(np.min, lowest=False),
}
