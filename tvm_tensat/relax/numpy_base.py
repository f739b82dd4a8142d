"""What the numpy rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_tensat.egraph.language import Refusal

__all__ = ["Array", "Rule", "is_float", "require", "wide"]

Array = np.ndarray[Any, np.dtype[Any]]
Rule = Callable[[Any, Sequence[Any]], Any]
"""Takes a canonical `Operator` and its operands."""


def is_float(array: Array) -> bool:
    """Whether an array holds floats, those of `ml_dtypes` included."""
    return array.dtype.kind == "f" or array.dtype.name.startswith(("bfloat", "float"))


def wide(array: Array) -> Array:
    """Return 16-bit (and narrower) floats as float32, other arrays as they are."""
    return array.astype(np.float32) if is_float(array) and array.itemsize < 4 else array


def require(condition: bool, operator: Any, why: str) -> None:
    """Refuse to compute an operator on these operands unless the condition holds."""
    if not condition:
        raise Refusal(f"{operator.name}: {why}")
