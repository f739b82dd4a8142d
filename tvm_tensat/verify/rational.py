"""Both sides of a law in rational numbers, where an identity holds exactly or not at all.

Arrays hold Python's integers and fractions. Operators that only move elements, sums, products,
quotients, convolutions and comparisons are computed as over the reals. A function that leaves the
rationals (exp, sigmoid, sqrt, ...) becomes an arbitrary one: a pseudo-random rational for each
argument. Sides that agree then agree whatever the function is; sides that differ may still agree by
a property of the function, so that this proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_tensat.egraph.language import Refusal, TensorInfo, TupleInfo, TypeInfo
from tvm_tensat.egraph.rule import FLOAT
from tvm_tensat.relax.evaluate import Value
from tvm_tensat.verify.example import Applied, Example, tensors
from tvm_tensat.verify.rational_operators import ARBITRARY, elementwise, evaluate, full
from tvm_tensat.verify.values import SYMBOLS
from tvm_tensat.verify.walk import compute_sides, terms_of

Array = NDArray[Any]


def draw_rationals(example: Example, seed: int) -> list[Array]:
    """Draw small integers for each tensor; positive ones where the operand has bounds."""
    generator = np.random.default_rng(seed)
    found = []
    for operand in tensors(example.operands):
        shape = tuple(SYMBOLS[d] if isinstance(d, str) else d for d in operand.shape)
        lowest = 1 if operand.low is not None else -4
        drawn = elementwise(int, generator.integers(lowest, 6, shape))
        found.append(drawn if operand.value is None else full(shape, operand.value))
    return found


def evaluate_sides(
    applied: Applied, example: Example, values: Sequence[Array]
) -> tuple[list[Value], list[Value], bool]:
    """Compute what was sought and what replaces it.

    Returns
    -------
    sought, made : list of arrays, or of tuples of arrays
    certain : bool
        Whether a difference disproves the law: no arbitrary function took part.

    Raises
    ------
    Refusal
        When an operator has no meaning here, or a divisor is zero.
    """
    names: set[str] = set()

    def compute(operator: Any, operands: Sequence[Value]) -> Value:
        names.add(operator.name)
        return evaluate(operator, operands)

    try:
        for term in (*applied.variables, *terms_of(applied)):
            _need_floats(applied.language.info(term.type))
        sought, made = compute_sides(applied, example, values, compute)
    except ZeroDivisionError as error:
        raise Refusal("a divisor is zero") from error
    return sought, made, names.isdisjoint((*ARBITRARY, "relax.nn.batch_norm"))


def _need_floats(info: TypeInfo) -> None:
    """Refuse what is no real number."""
    if isinstance(info, TupleInfo):
        for field in info.fields:
            _need_floats(field)
    elif not isinstance(info, TensorInfo) or info.dtype not in FLOAT:
        raise Refusal(f"{info} is no tensor of real numbers")


def equal(left: Value, right: Value) -> bool:
    """Whether two results are the same numbers."""
    if isinstance(left, tuple) or isinstance(right, tuple):
        return (
            isinstance(left, tuple)
            and isinstance(right, tuple)
            and len(left) == len(right)
            and all(map(equal, left, right))
        )
    return left.shape == right.shape and bool(np.all(left == right))
