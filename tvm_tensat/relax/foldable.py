"""Which operators are computed at compile time."""

from __future__ import annotations

from tvm_tensat.egraph.language import Dim, Operator

__all__ = ["is_foldable"]

_ELEMENTWISE = (
    "abs add astype divide equal exp floor_divide floor_mod greater greater_equal less less_equal "
    "log logical_and logical_not logical_or maximum minimum multiply negative not_equal power "
    "rsqrt sqrt square subtract where"
)
_SHAPE = (
    "broadcast_to concat expand_dims flip full nn.pad ones permute_dims repeat reshape split "
    "squeeze stack strided_slice take tile zeros"
)
_REDUCE = "matmul max mean min prod sum"

FOLDABLE = frozenset(f"relax.{op}" for op in f"{_ELEMENTWISE} {_SHAPE} {_REDUCE}".split())
"""Operators that `tvm_tensat.relax.evaluate` computes as TVM would."""


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
