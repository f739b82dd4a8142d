"""Both sides of a law, computed operator by operator on values of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_tensat.egraph.rule import Term
from tvm_tensat.relax.evaluate import Value, evaluate
from tvm_tensat.verify.example import Applied, Example, Given

Array = NDArray[Any]


def terms_of(applied: Applied) -> list[Term]:
    """Return the operator terms of both sides, each once."""
    pending, found = [*applied.sources, *applied.targets], dict[int, Term]()
    while pending:
        term = pending.pop()
        if id(term) not in found and not term.is_variable:
            found[id(term)] = term
            pending += term.operands
    return list(found.values())


def compute_sides(
    applied: Applied,
    example: Example,
    values: Sequence[Array],
    compute: Callable[[Any, Sequence[Value]], Value],
) -> tuple[list[Value], list[Value]]:
    """Compute what was sought and what replaces it.

    Parameters
    ----------
    values : sequence of array
        Of the example's tensors, in order.
    compute : callable
        An operator on the values of its operands.
    """
    drawn = iter(values)
    known: dict[int, Value] = {
        id(variable): _operand(operand, drawn)
        for variable, operand in zip(applied.variables, example.operands, strict=True)
    }

    def visit(term: Term) -> Value:
        if id(term) not in known:
            operands = [visit(operand) for operand in term.operands]
            known[id(term)] = compute(applied.language.operator(term.operator), operands)
        return known[id(term)]

    sought = [visit(term) for term in applied.sources]
    return sought, [visit(term) for term in applied.targets]


def _operand(operand: Given, drawn: Iterator[Array]) -> Value:
    if isinstance(operand, tuple):
        return tuple(_operand(each, drawn) for each in operand)
    return next(drawn)


def run_by_numpy(
    applied: Applied, example: Example, values: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """Compute both sides by the operators with which the pass folds weights.

    Raises
    ------
    Refusal
        When TVM's result is not determined, such as that of an integer divided by zero.
    """
    sought, made = compute_sides(applied, example, values, evaluate)
    return _flat(sought), _flat(made)


def _flat(values: Sequence[Value]) -> list[Array]:
    return [a for v in values for a in (_flat(v) if isinstance(v, tuple) else [np.asarray(v)])]
