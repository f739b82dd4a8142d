"""Which operators are computed at compile time."""

from __future__ import annotations

from tvm_tensat.egraph.language import Dim, Operator
from tvm_tensat.relax.evaluate import FOLDABLE

__all__ = ["is_foldable"]


def is_foldable(operator: Operator) -> bool:
    """Whether `tvm_tensat.relax.evaluate.evaluate` computes this operator on arrays."""
    if operator.name in ("tuple", "get", "scalar"):
        return True
    if operator.name not in FOLDABLE:
        return False
    return not any(_is_symbolic(value) for _, value in operator.attrs)


def _is_symbolic(value: object) -> bool:
    if isinstance(value, tuple):
        return any(_is_symbolic(item) for item in value)
    return isinstance(value, Dim)
