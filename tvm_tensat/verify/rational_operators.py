"""Operators on arrays of rational numbers: see `tvm_tensat.verify.rational`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tvm_tensat.egraph.language import Refusal
from tvm_tensat.relax.evaluate import Value
from tvm_tensat.relax.numpy_shapes import SHAPES
from tvm_tensat.relax.types import numpy_dtype

Array = NDArray[Any]


def _exactly(number: Any) -> int | Fraction:
    if isinstance(number, int):
        return int(number)
    if not isinstance(number, Fraction) and not np.isfinite(number):
        raise Refusal(f"{number} is no rational number")
    exact = number if isinstance(number, Fraction) else Fraction(float(number))
    return exact.numerator if exact.denominator == 1 else exact


def _meant(number: Any, dtype: str) -> int | Fraction:
    """Return the simplest fraction that a constant of a rule may be the rounded form of."""
    exact = Fraction(_exactly(number))
    limits: Any = ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
    unit = abs(exact) * Fraction(float(limits.eps))
    for denominator in range(1, 1000):
        fraction = Fraction(round(exact * denominator), denominator)
        if abs(fraction - exact) <= unit:
            return _exactly(fraction)
    return exact


def elementwise(function: Callable[..., Any], *arrays: Array) -> Array:
    """Apply a function of numbers element by element, with broadcasting."""
    spread = np.broadcast_arrays(*arrays)
    result = np.empty(spread[0].shape, object)
    for index in np.ndindex(result.shape):
        result[index] = function(*(array[index] for array in spread))
    return result


def evaluate(operator: Any, operands: Sequence[Any]) -> Value:
    """Compute an operator on arrays of rational numbers; refuse those that have no meaning."""
    name = operator.name
    if name == "tuple":
        return tuple(operands)
    if name == "get":
        field: Value = operands[0][operator["index"]]
        return field
    if name == "scalar":
        return full((), _meant(operator["value"], str(operator["dtype"])))
    if any(key in ("x1", "x2") for key, _ in operator.attrs):
        raise Refusal(f"{name}: a number in place of an operand")
    if name in ARBITRARY:
        return elementwise(lambda *numbers: _arbitrary(name, numbers), *operands)
    if name in NUMBERS:
        return elementwise(NUMBERS[name], *operands)
    if name in ARRAYS:
        return ARRAYS[name](operator, operands)
    if name in SHAPES and name not in _NOT_RATIONAL:
        result = SHAPES[name](operator, operands)
        if isinstance(result, tuple):
            return tuple(_exact_array(each) for each in result)
        return _exact_array(result)
    raise Refusal(f"{name} is not computed in rational numbers")


def full(shape: Sequence[int], number: Any) -> Array:
    """Return an array of one number."""
    return np.full(tuple(shape), _exactly(number), object)


def _exact_array(array: Any) -> Array:
    """Turn numbers that an operator brought along (zeros, ones, padding) into exact ones."""
    array = np.asarray(array)
    return elementwise(_exactly, array) if array.size else array.astype(object)


def _arbitrary(name: str, numbers: Sequence[Any]) -> Fraction:
    """Return a positive rational that depends on the function and its arguments only."""
    seed = zlib.crc32(repr((name, [Fraction(n) for n in numbers])).encode())
    return Fraction(seed % 9973 + 1, seed // 9973 % 97 + 1)


def _quotient(a: Any, b: Any) -> Any:
    quotient = Fraction(a) / b
    return quotient.numerator if quotient.denominator == 1 else quotient


def _power(a: Any, b: Any) -> Any:
    if not isinstance(b, int):
        raise Refusal("relax.power: not to an integer")
    return a**b if b >= 0 else _quotient(1, a**-b)


NUMBERS: dict[str, Callable[..., Any]] = {
    "relax.add": lambda a, b: a + b,
    "relax.subtract": lambda a, b: a - b,
    "relax.multiply": lambda a, b: a * b,
    "relax.divide": _quotient,
    "relax.power": _power,
    "relax.maximum": max,
    "relax.minimum": min,
    "relax.negative": lambda a: -a,
    "relax.abs": abs,
    "relax.square": lambda a: a * a,
    "relax.nn.relu": lambda a: max(a, 0),
    "relax.astype": lambda a: a,  # between floats; the caller looks at nothing else
}
"""Operators on numbers, with broadcasting."""

ARBITRARY = frozenset(
    f"relax.{name}"
    for name in (
        *("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "erf"),
        *("nn.gelu", "nn.gelu_tanh", "nn.silu"),
    )
)
"""Functions of one number that leave the rationals."""

_NOT_RATIONAL = ("relax.where", "relax.take")  # their operands are no floats

# -- operators on arrays ---------------------------------------------------------------------------


def _matmul(operator: Any, operands: Sequence[Array]) -> Array:
    left, right = operands
    if left.shape[-1] == 0:
        shape = np.matmul(np.zeros(left.shape), np.zeros(right.shape)).shape
        return full(shape, 0)
    return np.asarray(np.matmul(left, right), object)


def _reduction(combine: Callable[..., Any], empty: int | None) -> Callable[..., Array]:
    def reduce(operator: Any, operands: Sequence[Array]) -> Array:
        array, axes = operands[0], operator["axis"]
        if array.size == 0 and empty is None:
            raise Refusal(f"{operator.name}: of nothing")
        keepdims = bool(operator["keepdims"])
        if array.size == 0:
            return full(np.sum(np.zeros(array.shape), axis=axes, keepdims=keepdims).shape, empty)
        return np.asarray(combine(array, axis=axes, keepdims=keepdims), object)

    return reduce


def _mean(array: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
    count = int(np.prod([array.shape[k] for k in axis], dtype=np.int64))
    total = np.asarray(np.sum(array, axis=axis, keepdims=keepdims), object)
    return elementwise(lambda number: _quotient(number, count), total)


def _as_nchw(array: Array, layout: Any, letters: str) -> Array:
    if sorted(str(layout)) != sorted(letters):
        raise Refusal(f"layout {layout} has inner blocks")
    return np.transpose(array, [str(layout).index(letter) for letter in letters])


def _padded(image: Array, padding: Sequence[int], fill: Any) -> Array:
    top, left, bottom, right = padding
    return np.pad(image, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)


def _out_of_nchw(result: Array, layout: Any) -> Array:
    return np.transpose(result, ["NCHW".index(letter) for letter in str(layout)])


def _windows(image: Array, extents: Any, strides: Any, dilation: Any) -> dict[Any, Array]:
    """Return for each tap of a window the pixels that it sees, (N, C, rows, columns)."""
    spans = [(k - 1) * d + 1 for k, d in zip(extents, dilation, strict=True)]
    counts = [
        (size - span) // stride + 1
        for size, span, stride in zip(image.shape[2:], spans, strides, strict=True)
    ]
    found = {}
    for tap in product(*map(range, extents)):
        begin = [t * d for t, d in zip(tap, dilation, strict=True)]
        rows, columns = (
            slice(b, b + (count - 1) * stride + 1, stride) if count > 0 else slice(0)
            for b, count, stride in zip(begin, counts, strides, strict=True)
        )
        found[tap] = image[:, :, rows, columns]
    return found


def _conv2d(operator: Any, operands: Sequence[Array]) -> Array:
    image = _padded(_as_nchw(operands[0], operator["data_layout"], "NCHW"), operator["padding"], 0)
    kernel = _as_nchw(operands[1], operator["kernel_layout"], "OIHW")
    outputs, inputs, *extents = kernel.shape
    groups = int(operator["groups"])
    own = outputs // groups
    result: Any = 0
    for tap, pixels in _windows(image, extents, operator["strides"], operator["dilation"]).items():
        parts = [
            np.einsum(
                "oi,nihw->nohw",
                kernel[g * own : (g + 1) * own, :, tap[0], tap[1]],
                pixels[:, g * inputs : (g + 1) * inputs],
            )
            for g in range(groups)
        ]
        result = result + np.concatenate(parts, axis=1)
    return _out_of_nchw(np.asarray(result, object), operator["out_layout"])


def _pooled(operator: Any, image: Array) -> list[Array]:
    """Return for each place in the window the pixel that each result sees."""
    if operator["ceil_mode"]:
        raise Refusal(f"{operator.name}: in ceil mode")
    geometry = operator["pool_size"], operator["strides"], operator["dilation"]
    return list(_windows(image, *geometry).values())


def _avg_pool2d(operator: Any, operands: Sequence[Array]) -> Array:
    image = _as_nchw(operands[0], operator["layout"], "NCHW")
    counted = 1 if operator["count_include_pad"] else 0
    inside = _padded(full(image.shape, 1), operator["padding"], counted)
    total: Any = sum(_pooled(operator, _padded(image, operator["padding"], 0)))
    count: Any = sum(_pooled(operator, inside))
    return _out_of_nchw(
        elementwise(lambda a, n: _quotient(a, n or 1), total, count), operator["out_layout"]
    )


def _max_pool2d(operator: Any, operands: Sequence[Array]) -> Array:
    image = _as_nchw(operands[0], operator["layout"], "NCHW")
    lowest = -(
        10**12
    )  # what TVM pads with; the same in all images, for a window may be all padding
    pixels = _pooled(operator, _padded(image, operator["padding"], lowest))
    return _out_of_nchw(elementwise(max, *pixels, pixels[0]), operator["out_layout"])


def _batch_norm(operator: Any, operands: Sequence[Array]) -> Any:
    if operator["training"]:
        raise Refusal("normalizes by the statistics of the batch")
    x, gamma, beta, mean, variance = operands
    axis = operator["axis"]
    shape = [x.shape[axis] if k == axis else 1 for k in range(x.ndim)]
    spread = _meant(operator["epsilon"], "float64") + variance
    root = elementwise(lambda number: _arbitrary("relax.sqrt", [number]), spread)
    one, zero = full(mean.shape, 1), full(mean.shape, 0)
    gamma, beta = (gamma if operator["scale"] else one), (beta if operator["center"] else zero)
    centred = x - mean.reshape(shape)
    scaled = elementwise(_quotient, centred, root.reshape(shape))
    return scaled * gamma.reshape(shape) + beta.reshape(shape), mean, variance


ARRAYS: dict[str, Callable[..., Any]] = {
    "relax.matmul": _matmul,
    "relax.sum": _reduction(np.sum, 0),
    "relax.prod": _reduction(np.prod, 1),
    "relax.max": _reduction(np.max, None),
    "relax.min": _reduction(np.min, None),
    "relax.mean": _reduction(_mean, None),
    "relax.flatten": lambda operator, operands: operands[0].reshape(-1),
    "relax.nn.conv2d": _conv2d,
    "relax.nn.avg_pool2d": _avg_pool2d,
    "relax.nn.max_pool2d": _max_pool2d,
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.dropout": lambda operator, operands: (operands[0], full(operands[0].shape, 1)),
}
"""Operators on arrays; those that only move elements are `SHAPES`."""
