"""Which operators are computed at compile time."""

from __future__ import annotations

import tvm

from tvm_tensat.egraph.language import Dim, Operator
from tvm_tensat.relax.attributes import Opaque
from tvm_tensat.relax.evaluate import FOLDABLE, NUMBER_PLACES

__all__ = ["is_foldable"]


def is_foldable(operator: Operator) -> bool:
    """Whether `tvm_tensat.relax.evaluate.evaluate` computes this operator on arrays."""
    if operator.name in ("tuple", "get", "scalar"):
        return True
    if operator.name not in FOLDABLE:
        return False
    return all(_is_known(name, value) for name, value in operator.attrs)


def _is_known(name: str, value: object) -> bool:
    """Whether an attribute is plain and not symbolic, or a typed number in place of an operand."""
    if isinstance(value, tuple):
        return all(_is_known(name, item) for item in value)
    if isinstance(value, Opaque):
        is_number = isinstance(value.value, tvm.tirx.IntImm | tvm.tirx.FloatImm)
        return is_number and name in NUMBER_PLACES
    return not isinstance(value, Dim)
