"""One operator on arrays, by numpy, with the results that TVM's kernels give.

Where TVM's result depends on the order of evaluation or is undefined (NaN in a maximum over an
axis, an integer divided by zero, a float too large for the integer it is cast to, an index out of
bounds), the operator is refused on these operands. Sums of 16-bit floats are accumulated in
32 bits, where TVM's own kernels accumulate in 16: the result is nearer to the true one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tvm_tensat.egraph.language import Refusal
from tvm_tensat.relax.attributes import Opaque
from tvm_tensat.relax.numpy_arithmetic import ARITHMETIC
from tvm_tensat.relax.numpy_base import Array
from tvm_tensat.relax.numpy_shapes import SHAPES
from tvm_tensat.relax.types import numpy_dtype

__all__ = ["FOLDABLE", "NUMBER_PLACES", "Value", "evaluate"]

Value: TypeAlias = "Array | tuple[Value, ...]"


_RULES = {**ARITHMETIC, **SHAPES}

FOLDABLE = frozenset(_RULES)
"""Names of the operators that `evaluate` computes, besides "tuple", "get" and "scalar"."""

NUMBER_PLACES = ("x1", "x2")
"""Operands of binary operators, which may be numbers; they are attributes then."""


def evaluate(operator: Any, operands: Sequence[Value]) -> Value:
    """Compute an operator on arrays.

    Parameters
    ----------
    operator : Operator
        Canonical, as `tvm_tensat.relax.language.RelaxLanguage` makes it.
    operands : sequence of arrays, or of tuples of arrays for operands that are tuples
        With dtypes of TVM, those that numpy lacks from `ml_dtypes`. They are not written to.

    Returns
    -------
    array or tuple of arrays
        May share memory with the operands, and may be a read-only view.

    Raises
    ------
    Refusal
        When the operator is not one of these, has symbolic attributes, or TVM's result is not
        determined on these operands.
    """
    if operator.name == "tuple":
        return tuple(operands)
    if operator.name == "get":
        index: Any = operator["index"]
        return operands[0][index]
    if operator.name == "scalar":
        return np.asarray(operator["value"]).astype(numpy_dtype(str(operator["dtype"])))
    rule = _RULES.get(operator.name)
    if rule is None:
        raise Refusal(f"{operator.name} is not computed at compile time")
    with np.errstate(all="ignore"):
        result: Value = rule(operator, _in_place(operator, operands))
    return result


def _in_place(operator: Any, operands: Sequence[Value]) -> Sequence[Value]:
    """Put numbers that are written for an operand, as in ``add(x, 1e-5)``, in its place."""
    numbers = {name: _number(value) for name, value in operator.attrs if name in NUMBER_PLACES}
    if not numbers:
        return operands
    rest = iter(operands)
    return [numbers[name] if name in numbers else next(rest) for name in NUMBER_PLACES]


def _number(value: Any) -> Array:
    if isinstance(value, Opaque):
        return np.asarray(value.value.value).astype(numpy_dtype(str(value.value.ty)))
    return np.asarray(value)
