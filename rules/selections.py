"""Choices between tensors.

where(c, x, y) is x where c holds, else y.

    where(true, x, y)               =  x                 where_true
    where(false, x, y)              =  y                 where_false
    where(c, x, x)                  =  x                 where_alike
    where(not c, x, y)              =  where(c, y, x)    where_not
    where(c, where(c, x, y), z)     =  where(c, x, z)    where_in_first
    where(c, x, where(c, y, z))     =  where(c, x, z)    where_in_second
    where(broadcast(c), x, y)       =  where(c, x, y)    where_of_broadcast, of each operand

Good for: masks of exported transformers, which are chosen, inverted and broadcast step by step.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_tensat.egraph.rule import ANY, EXACT, Rule, refuse, rule
from tvm_tensat.rules.operators import broadcast_to, logical_not, where


@rule(keeps=EXACT, dtypes=ANY)
def where_true(c, x, y):
    """Where the condition always holds, the choice is the first."""
    yield where(c, x, y)
    if c.value is not True:
        refuse("not always true")
    yield x


@rule(keeps=EXACT, dtypes=ANY)
def where_false(c, x, y):
    """Where the condition never holds, the choice is the second."""
    yield where(c, x, y)
    if c.value is not False:
        refuse("not always false")
    yield y


@rule(keeps=EXACT, dtypes=ANY)
def where_alike(c, x):
    """A choice between equals is no choice."""
    yield where(c, x, x)
    yield x


@rule(keeps=EXACT, dtypes=ANY)
def where_not(c, x, y):
    """A negated condition exchanges the choices."""
    yield where(logical_not(c), x, y)
    yield where(c, y, x)


@rule(keeps=EXACT, dtypes=ANY)
def where_in_first(c, x, y, z):
    """Where a condition holds, asking it again gives the first choice."""
    yield where(c, where(c, x, y), z)
    yield where(c, x, z)


@rule(keeps=EXACT, dtypes=ANY)
def where_in_second(c, x, y, z):
    """Where a condition does not hold, asking it again gives the second choice."""
    yield where(c, x, where(c, y, z))
    yield where(c, x, z)


def _where_of_broadcast(place: int) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def where_of_broadcast(c, x, y):
        """A choice broadcasts its operands by itself."""
        operands = [c, x, y]
        operands[place] = broadcast_to(operands[place])
        yield where(*operands)
        yield where(c, x, y)

    return replace(where_of_broadcast, name=f"where_of_broadcast[{place}]")


where_of_broadcast = tuple(map(_where_of_broadcast, range(3)))
