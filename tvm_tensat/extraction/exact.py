"""The default exact method: reduce, split, cut, fix, and only then branch.

1. Reductions to a fixpoint (`tvm_tensat.extraction.reductions`), which often solve everything.
2. What is left falls into independent parts; each is solved by itself, against the cost that it
   must stay below so that the whole beats the incumbent (its cutoff). Of parts that are copies of
   each other (`tvm_tensat.extraction.twins`) one is solved.
3. The linear relaxation of a part (`tvm_tensat.extraction.strong`) is tightened by violated loop
   formulas and must rows (`tvm_tensat.extraction.separation`). Its values guide a greedy
   extraction to better incumbents, the last of them improved by local search; an e-node whose
   reduced cost lifts the bound above the cutoff is dropped.
4. If that dropped much, the part goes back to 1. Otherwise the integer program with all cuts is
   solved, with order rows inside strongly connected components.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_tensat.extraction import tiny
from tvm_tensat.extraction.part import Context, Part, Report
from tvm_tensat.extraction.problem import Ints, Problem
from tvm_tensat.extraction.split import split
from tvm_tensat.extraction.twins import form_of


def solve_reduced(problem: Problem, cutoff: float, context: Context, report: Report) -> None:
    """Solve a reduced problem part by part.

    Parameters
    ----------
    problem : Problem
        As left by the reductions: every class has a derivation, and no e-node has its own class as
        a child.
    cutoff : float
        Only extractions that cost less are wanted.
    context : Context
    report : callable
        Called with every better choice and every better lower bound. Bounds hold for extractions
        below the cutoff: one at the cutoff says that there is none.
    """
    origin = split(problem)
    parts = [Part(part.problem, context) for part in origin]

    def tell() -> None:
        choice = np.full(problem.class_count, -1, dtype=np.int64)
        for part, source in zip(parts, origin, strict=True):
            chosen_here = part.choice >= 0
            choice[source.class_origin[chosen_here]] = source.node_origin[part.choice[chosen_here]]
        report(choice, min(cutoff, sum(part.bound for part in parts)))

    def cutoff_of(part: Part) -> float:
        return min(part.cost, cutoff - sum(other.bound for other in parts if other is not part))

    tell()
    groups = _copies(parts)
    for first, *others in groups:
        first.tighten(cutoff_of(first))
        for other in others:
            other.copy(first)
        tell()
    for first, *others in groups:
        first.finish(cutoff_of(first), tell, solve_reduced)
        for other in others:
            other.copy(first)
        tell()


def _copies(parts: list[Part]) -> list[list[Part]]:
    """Group parts that are copies of each other."""
    groups: dict[bytes, list[Part]] = {}
    sizes = Counter(part.size for part in parts)
    for number, part in enumerate(parts):
        key = f"alone {number}".encode()
        if sizes[part.size] > 1 and not tiny.is_tiny(part.problem):
            part.form = form_of(part.problem)
            if part.form is not None:
                key = part.form.key
        groups.setdefault(key, []).append(part)
    return list(groups.values())


def solve_without_solver(problem: Problem, cutoff: float, report: Report) -> bool:
    """Solve a reduced problem if all its parts are tiny; return whether they were."""
    if not all(tiny.is_tiny(part.problem) for part in split(problem)):
        return False
    solve_reduced(problem, cutoff, Context("none", float("inf")), report)
    return True


def solve_and_send(
    problem: Problem,
    cutoff: float,
    solver: str,
    deadline: float,
    send: Callable[[tuple[Any, ...]], None],
) -> None:
    """Run `solve_reduced` in the solver process, with messages as `solve_tensat` sends them."""

    def report(choice: Ints, bound: float) -> None:
        send(("choice", choice))
        send(("bound", bound))

    context = Context(solver, deadline)
    solve_reduced(problem, cutoff, context, report)
    send(("stopped", "time limit" if context.left <= 0 else "", ""))
