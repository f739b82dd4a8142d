"""A rule's law, put to the test on one example: the package's own verification, as an assertion."""

from __future__ import annotations

from tvm_tensat.egraph.rule import EXACT
from tvm_tensat.verify.compiled import both_sides, compile_plainly, inputs, outputs_of, run
from tvm_tensat.verify.example import (
    Applied,
    Example,
    Operand,
    apply,
    constant,
    refusal,
    tensor,
    weight,
)
from tvm_tensat.verify.values import differing_bits, differing_numbers

__all__ = [
    "Applied",
    "Example",
    "Operand",
    "apply",
    "both_sides",
    "check_law",
    "compile_plainly",
    "constant",
    "outputs_of",
    "refusal",
    "tensor",
    "weight",
]


def check_law(example: Example, special: bool = False, seed: int = 0) -> None:
    """Assert that a rule applies to an example, and that its law holds there as TVM computes it.

    Parameters
    ----------
    example : Example
    special : bool
        Mix zeros of both signs, infinities, NaN, huge and denormal numbers into the inputs.
    seed : int
        Of the inputs.
    """
    sought, made = run(both_sides(apply(example)), inputs(example, special, seed))
    differ = differing_bits if example.rule.keeps == EXACT else differing_numbers
    for left, right in zip(sought, made, strict=True):
        difference = differ(left, right)
        assert difference is None, f"{difference}: {left} against {right}"
