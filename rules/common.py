"""What several families share: the operators they range over, conditions, small terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Any

from tvm_tensat.egraph.rule import Rule, Term, refuse, rule
from tvm_tensat.rules.operators import (
    add,
    clip,
    gelu,
    gelu_tanh,
    leakyrelu,
    multiply,
    relu,
    reshape,
    sigmoid,
    silu,
    tanh,
)

Apply = Callable[..., Term]

UNARY: tuple[Apply, ...] = (relu, sigmoid, tanh, gelu, silu, clip, leakyrelu, gelu_tanh)
"""Elementwise functions that layout changes and partitions travel past."""

BINARY: tuple[Apply, ...] = (add, multiply)
"""Elementwise operators of two operands that they travel past."""


def for_each(operators: Iterable[Apply], declare: Callable[[Apply], Rule]) -> tuple[Rule, ...]:
    """Declare a rule for each operator; the operator's name is added to the rule's in brackets."""
    return tuple(
        replace(law, name=f"{law.name}[{apply.__name__}]")
        for apply, law in ((apply, declare(apply)) for apply in operators)
    )


def of_many(count: int, **declared: Any) -> Callable[[Any], Rule]:
    """Declare a rule whose function takes ``count`` variables as ``*variables``.

    The number is added to the rule's name in brackets; the rest is for `rule`.
    """

    def declare(body: Any) -> Rule:
        parameters = [Parameter(f"x{k}", Parameter.POSITIONAL_ONLY) for k in range(count)]
        body.__signature__ = Signature(parameters)
        law = rule(**declared)(body)
        return replace(law, name=f"{law.name}[{count}]")

    return declare


def need_weights(*terms: Term) -> None:
    """Refuse unless all of these variables are known before run time."""
    if not all(term.is_weight for term in terms):
        refuse("an operand is no weight")


def need_inputs(*terms: Term) -> None:
    """Refuse when one of these variables is known before run time."""
    if any(term.is_weight for term in terms):
        refuse("an operand is a weight")


def need_an_input(*terms: Term) -> None:
    """Refuse when all of these variables are known before run time: the whole is folded anyway."""
    if all(term.is_weight for term in terms):
        refuse("nothing but weights")


def full_rank(operand: Term, ndim: int) -> Term:
    """Lift an operand of broadcasting to ``ndim`` axes, the new ones in front; refuse a larger."""
    if operand.ndim > ndim:
        refuse("an operand of higher rank")
    if operand.ndim == ndim:
        return operand
    return reshape(operand, shape=(*(1,) * (ndim - operand.ndim), *operand.shape))
