"""Numbers written in place of an operand.

    x ∘ number  =  x ∘ (the number as a constant)    number_as_constant

Relax allows both. Only constants are operands, which the other rules see.

Good for: modules written in TVMScript or by hand, so that every law on constants holds there too.
"""

from __future__ import annotations

from tvm_tensat.egraph.rule import ANY, EXACT, Rule, refuse, rule
from tvm_tensat.rules.common import Apply, for_each, need_inputs
from tvm_tensat.rules.operators import (
    add,
    divide,
    maximum,
    minimum,
    multiply,
    number_of,
    power,
    scalar,
    subtract,
)


def _number_as_constant(apply: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def number_as_constant(x):
        """A number in place of an operand is a constant of rank 0."""
        outer = apply(x)
        yield outer
        need_inputs(x)
        left, right = getattr(outer, "x1", None), getattr(outer, "x2", None)
        if (left is None) == (right is None):
            refuse("not one number")
        number = scalar(number_of(right if left is None else left), x.dtype)
        yield apply(x, number) if left is None else apply(number, x)

    return number_as_constant


BINARY_ARITHMETIC = (add, subtract, multiply, divide, maximum, minimum, power)
number_as_constant = for_each(BINARY_ARITHMETIC, _number_as_constant)
