"""Values that laws are tried on, and how results are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SYMBOLS = {"n": 3, "m": 2}  # what symbolic dimensions are when a law is run
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40)

# Largest difference over the largest magnitude of the output, where rounding may differ. Sums here
# have at most a few hundred terms; the margin is some 50 units in the last place.
TOLERANCE = {"float64": 1e-13, "float32": 1e-5, "float16": 3e-2, "bfloat16": 2e-1}


def draw(
    generator: np.random.Generator,
    named_shape: Sequence[int | str],
    dtype_name: str,
    bounds: tuple[float | None, float | None],
    special: bool,
) -> Array:
    """Draw a tensor, uniform where there are bounds, with special values mixed in where asked."""
    shape = tuple(SYMBOLS[d] if isinstance(d, str) else d for d in named_shape)
    dtype = numpy_dtype(dtype_name)
    low, high = bounds
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
        values = np.where(
            generator.random(shape) < 0.3, generator.choice(np.array(SPECIAL), shape), values
        )
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def same_bits(left: Array, right: Array) -> None:
    """Assert equality bit for bit; any NaN equals any other."""
    assert left.dtype == right.dtype and left.shape == right.shape
    if left.dtype.kind in "biu":
        assert np.array_equal(left, right)
        return
    nan = np.isnan(left)
    assert np.array_equal(nan, np.isnan(right)), f"NaN differ: {left} against {right}"
    numbers = [np.ascontiguousarray(np.where(nan, 0, a).astype(a.dtype)) for a in (left, right)]
    bits = [a.view(f"u{a.dtype.itemsize}") for a in numbers]
    assert np.array_equal(*bits), f"bits differ: {left} against {right}"


def same_up_to_rounding(left: Array, right: Array) -> None:
    """Assert closeness relative to the largest magnitude; NaN and infinities in the same places."""
    assert left.dtype == right.dtype and left.shape == right.shape
    if left.dtype.kind in "biu":
        assert np.array_equal(left, right)
        return
    a, b = left.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(a)
    assert np.array_equal(a[~finite], b[~finite], equal_nan=True)
    scale = 1.0 + np.abs(a[finite]).max(initial=0.0)
    error = np.abs(a[finite] - b[finite]).max(initial=0.0) / scale
    assert error <= TOLERANCE[left.dtype.name], f"relative error {error}: {left} against {right}"


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return numpy's dtype, bfloat16 included."""
    if dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype)
