"""Values that laws are tried on, and how results are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_tensat.relax.types import numpy_dtype
from tvm_tensat.verify.example import Operand

Array = NDArray[Any]

SYMBOLS = {"n": 3, "m": 2}  # what symbolic dimensions are when a law is run
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40)

# Largest difference over the largest magnitude of the output, where rounding may differ. Sums here
# have at most a few hundred terms; the margin is some 50 units in the last place.
TOLERANCE = {"float64": 1e-13, "float32": 1e-5, "float16": 3e-2, "bfloat16": 2e-1}


def draw(generator: np.random.Generator, operand: Operand, special: bool) -> Array:
    """Draw a tensor, uniform where there are bounds.

    Parameters
    ----------
    special : bool
        Mix zeros of both signs, infinities, NaN, huge and denormal numbers into floats.
    """
    shape = tuple(SYMBOLS[d] if isinstance(d, str) else d for d in operand.shape)
    dtype = numpy_dtype(operand.dtype)
    if operand.value is not None:
        return np.full(shape, operand.value, dtype)
    low, high = operand.low, operand.high
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        low = (0 if dtype.kind == "u" else -100) if low is None else int(low)
        return generator.integers(low, 100 if high is None else int(high), shape).astype(dtype)
    if low is not None or high is not None:
        values = generator.uniform(low or 0.0, high or 1.0, shape)
    else:
        values = generator.standard_normal(shape)
    if special:
        values = _with_special(generator, values)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def _with_special(generator: np.random.Generator, values: Array) -> Array:
    """Put special values, each as often as the others, in place of a tenth to two thirds."""
    values = np.array(values)
    count = int(np.ceil(values.size * generator.uniform(0.1, 0.65)))
    places = generator.permutation(values.size)[:count]
    values.flat[places] = np.resize(generator.permutation(SPECIAL), count)
    return values


def differing_bits(left: Array, right: Array) -> str | None:
    """Return how two arrays differ bit for bit, None when they do not; any NaN equals any other."""
    different = _differing_types(left, right)
    if different or left.dtype.kind in "biu":
        return different or _differing_integers(left, right)
    nan = np.isnan(left)
    if not np.array_equal(nan, np.isnan(right)):
        return "NaN differ"
    numbers = [np.ascontiguousarray(np.where(nan, 0, a).astype(a.dtype)) for a in (left, right)]
    bits = [a.view(f"u{a.dtype.itemsize}") for a in numbers]
    return None if np.array_equal(bits[0], bits[1]) else "bits differ"


def differing_numbers(left: Array, right: Array) -> str | None:
    """Return how two arrays differ beyond rounding, None when they do not.

    Errors count relative to the largest magnitude; NaN and infinities are in the same places.
    """
    different = _differing_types(left, right)
    if different or left.dtype.kind in "biu":
        return different or _differing_integers(left, right)
    a, b = left.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(a)
    if (
        not np.array_equal(a[~finite], b[~finite], equal_nan=True)
        or not np.isfinite(b)[finite].all()
    ):
        return "NaN or infinities differ"
    scale = 1.0 + np.abs(a[finite]).max(initial=0.0)
    error = float(np.abs(a[finite] - b[finite]).max(initial=0.0) / scale)
    return None if error <= TOLERANCE[left.dtype.name] else f"relative error {error:.3g}"


def _differing_types(left: Array, right: Array) -> str | None:
    if left.dtype == right.dtype and left.shape == right.shape:
        return None
    return f"types differ: {left.dtype}{left.shape} against {right.dtype}{right.shape}"


def _differing_integers(left: Array, right: Array) -> str | None:
    return None if np.array_equal(left, right) else "numbers differ"
