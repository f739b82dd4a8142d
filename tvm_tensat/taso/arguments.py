"""What both walks over an expression share: its arguments, and operators of one form in Relax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_tensat.rules.operators import (
    add,
    avg_pool2d,
    max_pool2d,
    multiply,
    relu,
    sigmoid,
    tanh,
)
from tvm_tensat.taso.signature import signature_of
from tvm_tensat.taso.syntax import (
    Apply,
    Expression,
)


def split_arguments(expression: Apply) -> tuple[list[Any], list[Expression]]:
    """Return the numbers and words of an operator, and its tensors."""
    letters = signature_of(expression)
    pairs = list(zip(letters, expression.arguments, strict=True))
    return (
        [argument for letter, argument in pairs if letter not in "ts"],
        [argument for letter, argument in pairs if letter in "ts"],
    )


def permutation(numbers: Sequence[Any]) -> tuple[int, ...]:
    """Return the order of axes of a transpose, by default that of a matrix."""
    return shape_of(numbers[0]) if numbers else (1, 0)


def shape_of(word: object) -> tuple[int, ...]:
    """Return the numbers of a word such as 2_3_4."""
    return tuple(int(part) for part in str(word).split("_"))


ELEMENTWISE = {"ewadd": add, "ewmul": multiply, "relu": relu, "tanh": tanh, "sigmoid": sigmoid}
POOLS = {"poolmax": max_pool2d, "poolavg": avg_pool2d}
