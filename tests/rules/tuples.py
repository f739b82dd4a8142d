"""Trying rules that have tuples for variables.

`with_tuples` replaces such a variable by a tuple of variables, which the harness can fill; the
rule's own function does everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm_tensat.egraph.rule import Rule, Term
from tvm_tensat.rules.common import of_many
from tvm_tensat.rules.operators import tuple_


def with_tuples(law: Rule, *fields: int | None) -> Rule:
    """Return the law for tuples of so many fields; None leaves a variable as it is.

    Parameters
    ----------
    fields : int or None
        For each variable of the law, in order.
    """

    def body(*operands):
        given = iter(operands)
        yield from law.body(*(_take(given, count) for count in fields))

    spread = of_many(sum(1 if n is None else n for n in fields), keeps=law.keeps, dtypes=law.dtypes)
    return replace(spread(body), name=law.name)


def _take(given: Iterator[Term], count: int | None) -> Term:
    return next(given) if count is None else tuple_(*(next(given) for _ in range(count)))
