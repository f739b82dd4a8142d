"""Guards against wrong results: random inputs, and the comparison of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from tvm import relax

# Relative to the largest magnitude of an output, for one operator; errors of a chain of operators
# add up like a random walk, so the tolerance grows with the root of their number.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


class CannotRun(Exception):
    """Why a function cannot be run on random inputs here."""


def random_inputs(function: relax.Function, seed: int) -> list[np.ndarray[Any, Any]]:
    """Draw an array for each parameter: normal floats, small integers, coins.

    Raises
    ------
    CannotRun
        When a parameter is no tensor of known shape and dtype.
    """
    generator = np.random.default_rng(seed)
    sizes: dict[Any, int] = {}
    arrays = []
    for parameter in function.params:
        ty = parameter.ty
        if not isinstance(ty, relax.TensorType) or ty.shape is None or not ty.dtype:
            raise CannotRun(f"parameter {parameter.name} is no tensor of known shape and dtype")
        shape = tuple(_size(dim, sizes, parameter.name) for dim in ty.shape)
        arrays.append(_draw(generator, shape, str(ty.dtype)))
    return arrays


def _size(dim: Any, sizes: dict[Any, int], where: str) -> int:
    """Choose the extent of a dimension: its own, or 8 for a symbolic variable."""
    if isinstance(dim, (int, tvm.tirx.IntImm)):
        return int(dim)
    if isinstance(dim, tvm.tirx.Var):
        return sizes.setdefault(dim, 8)
    raise CannotRun(f"parameter {where} has the computed dimension {dim}")


def _draw(
    generator: np.random.Generator, shape: tuple[int, ...], dtype: str
) -> np.ndarray[Any, Any]:
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype == "bfloat16":
        return generator.standard_normal(shape).astype(ml_dtypes.bfloat16)
    if dtype.startswith("float") and dtype in TOLERANCE:
        return generator.standard_normal(shape).astype(dtype)
    if dtype.startswith(("int", "uint")):
        return generator.integers(0, 2, shape).astype(dtype)
    raise CannotRun(f"no random inputs of dtype {dtype}")


def flatten(value: Any) -> list[np.ndarray[Any, Any]]:
    """Return the arrays of a function's result, tuples flattened."""
    if isinstance(value, tvm.runtime.Tensor):
        return [value.numpy()]
    if hasattr(value, "__len__") and not isinstance(value, str):
        return [array for field in value for array in flatten(field)]
    return []


def difference(
    expected: Sequence[np.ndarray[Any, Any]], actual: Sequence[np.ndarray[Any, Any]], depth: int
) -> str | None:
    """Say how outputs differ more than rounding explains, or None when they agree.

    Parameters
    ----------
    expected, actual : sequence of arrays
    depth : int
        Number of operators between inputs and outputs.
    """
    if len(expected) != len(actual):
        return f"{len(actual)} outputs instead of {len(expected)}"
    for number, (want, have) in enumerate(zip(expected, actual, strict=True)):
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"output {number} is {have.dtype}{have.shape}, not {want.dtype}{want.shape}"
        relative = TOLERANCE.get(str(want.dtype), 0.0) * np.sqrt(max(depth, 1))
        want, have = want.astype(np.float64), have.astype(np.float64)
        finite = np.isfinite(want)
        if not np.array_equal(finite, np.isfinite(have)):
            return f"output {number} has NaN or infinities elsewhere"
        if not np.array_equal(want[~finite], have[~finite], equal_nan=True):
            return f"output {number} has other NaN or infinities"
        scale = np.abs(want[finite]).max(initial=0.0)
        worst = np.abs(want[finite] - have[finite]).max(initial=0.0)
        if worst > relative * scale:
            return (
                f"output {number} is off by {worst:.3g} where the largest value is {scale:.3g} "
                f"(tolerance {relative * scale:.3g})"
            )
    return None
