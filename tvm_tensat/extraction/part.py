"""One independent part of a problem: its best choice, its bound, and how both are improved.

The linear relaxation (`tvm_tensat.extraction.strong`) is tightened by violated loop formulas and
must rows (`tvm_tensat.extraction.separation`). Its values guide greedy extractions, the last of
them improved by local search. An e-node whose reduced cost lifts the relaxation to the limit is
dropped: no extraction below the limit uses it. From then on bounds hold for extractions below the
limit, so they are never raised above it. What is not solved by then is reduced again, where enough
was dropped, or branched on.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tvm_tensat.extraction import tiny
from tvm_tensat.extraction.choice import exact_cost, trim
from tvm_tensat.extraction.greedy import greedy_dag
from tvm_tensat.extraction.local import local_search
from tvm_tensat.extraction.problem import Bools, Ints, Problem
from tvm_tensat.extraction.program import SCALED_COST, Rows, solve_program
from tvm_tensat.extraction.reductions import reduce_problem
from tvm_tensat.extraction.relaxation import Relaxation
from tvm_tensat.extraction.restrict import edge_nodes
from tvm_tensat.extraction.separation import Separator
from tvm_tensat.extraction.split import select
from tvm_tensat.extraction.strong import (
    Structure,
    start_values,
    strong_program,
    structure,
)
from tvm_tensat.extraction.tensat import chosen
from tvm_tensat.extraction.twins import Form, choice_of_copy

# Dropping this share of a part's e-nodes by reduced costs makes new reductions worth their time.
WORTH_REDUCING = 0.1

# Cutting stops when so many rounds in a row each close less than a thousandth of the gap.
IDLE_ROUNDS = 30

# The relaxation guides greedy extraction once in so many rounds: it takes as long as they do.
ROUNDS_A_CHOICE = 5

# The part of the time left that local search may take before a part is solved further.
LOCAL_SHARE = 0.1

# Costs are compared with this relative tolerance, below that of a proof (1e-6).
TOLERANCE = 1e-7


@dataclass(frozen=True)
class Context:
    """What all parts of a solve share.

    Parameters
    ----------
    solver : str
    deadline : float
        In `time.time` seconds.
    """

    solver: str
    deadline: float

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.deadline - time.time()


Report = Callable[[Ints, float], None]
"""Receives the best choice so far and a lower bound on the cost of every extraction."""

Solve = Callable[[Problem, float, Context, Report], None]
"""Solves a reduced problem below a cutoff: `tvm_tensat.extraction.exact.solve_reduced`."""


class Part:
    """An independent part of a problem: its best choice, its bound, and its tightened program."""

    def __init__(self, problem: Problem, context: Context) -> None:
        self.problem = problem
        self.context = context
        choice = trim(problem, greedy_dag(problem))
        assert choice is not None, "reductions leave a derivation"
        self.choice = choice
        self.cost = exact_cost(problem, choice)
        self.bound = 0.0
        self.scale = SCALED_COST / self.cost if self.cost > 0 else 1.0
        self.known: Structure | None = None
        self.form: Form | None = None
        self.cuts: list[Rows] = []
        self.kept = np.ones(len(problem.node_class), dtype=np.bool_)

    def offer(self, choice: Ints) -> None:
        """Take a choice if it is an extraction and cheaper."""
        kept = trim(self.problem, choice)
        if kept is not None:
            cost = exact_cost(self.problem, kept)
            if cost < self.cost:
                self.choice, self.cost = kept, cost

    @property
    def size(self) -> tuple[int, int, int]:
        """Numbers of classes, e-nodes and edges."""
        problem = self.problem
        return problem.class_count, len(problem.node_class), len(problem.child_class)

    def copy(self, other: Part) -> None:
        """Take over what is known of a part that this one is a copy of."""
        assert self.form is not None and other.form is not None
        self.offer(choice_of_copy(self.form, other.form, other.choice))
        # No extraction costs less than a bound: below its cutoff, and the bound is no higher.
        self.bound = max(self.bound, other.bound)

    def solved(self, cutoff: float) -> bool:
        """Whether nothing below the cutoff or the best choice can be left."""
        return self.bound >= min(cutoff, self.cost) * (1 - TOLERANCE)

    def tighten(self, cutoff: float) -> None:
        """Cut at the root of the search: raises the bound, improves the choice, fixes e-nodes."""
        if self.solved(cutoff) or self.context.left <= 0:
            return
        if tiny.is_tiny(self.problem):
            self._enumerate(cutoff)
            return
        self.known = structure(self.problem)
        relaxation = Relaxation(
            strong_program(self.known, self.scale, ordered=False), self.context.solver
        )
        self._cut(relaxation, self.known, cutoff)
        if self.solved(cutoff) or not len(relaxation.values):
            return
        # Once a part, for it takes as long as many rounds: a better choice fixes more e-nodes.
        deadline = time.monotonic() + LOCAL_SHARE * self.context.left
        self.offer(local_search(self.problem, self._guided(relaxation), deadline)[0])
        self._fix(relaxation, min(cutoff, self.cost))

    def _cut(self, relaxation: Relaxation, known: Structure, cutoff: float) -> None:
        """Solve the relaxation, round, fix, and add violated rows, until that leads no further."""
        separator = Separator(known)
        idle = 0
        for number in itertools.count():
            if idle == IDLE_ROUNDS or self.context.left <= 0:
                return
            before = self.bound
            if relaxation.solve(self.context.left) != "OPTIMAL":
                return
            if number % ROUNDS_A_CHOICE == 0:
                self.offer(self._guided(relaxation))
            # What `_fix` dropped is only known to be of no use below the limit.
            limit = min(cutoff, self.cost)
            below = min(relaxation.objective / self.scale, limit) * (1 - TOLERANCE)
            self.bound = max(self.bound, below)
            self._fix(relaxation, limit)
            if self.solved(cutoff):
                return
            closed = (self.bound - before) / (limit - before)
            idle = idle + 1 if closed < 1e-3 else 0
            cuts = separator.cuts(relaxation.values)
            if not cuts:
                return
            for rows in cuts:
                relaxation.add(rows)
            self.cuts += cuts

    def _enumerate(self, cutoff: float) -> None:
        limit = min(cutoff, self.cost)
        choice = tiny.solve_tiny(self.problem, limit)
        if choice is not None:
            self.offer(choice)
        self.bound = min(limit, self.cost)

    def _guided(self, relaxation: Relaxation) -> Ints:
        """Extract greedily with e-nodes the cheaper the more the relaxation uses them."""
        x = np.clip(relaxation.values[: len(self.problem.node_class)], 0, 1)
        return greedy_dag(replace(self.problem, node_cost=self.problem.node_cost * (1.0001 - x)))

    def _fix(self, relaxation: Relaxation, limit: float) -> None:
        nodes = len(self.problem.node_class)
        lifted = relaxation.objective + relaxation.reduced_costs[:nodes]
        drop = self.kept & (lifted >= limit * self.scale * (1 - TOLERANCE))
        drop &= relaxation.values[:nodes] < 1e-6
        if drop.any():
            self.kept &= ~drop
            relaxation.fix_to_zero(np.flatnonzero(drop))

    def finish(self, cutoff: float, tell: Callable[[], None], solve: Solve) -> None:
        """Find the best choice: by reducing further, or by branching."""
        if self.solved(cutoff) or self.known is None or self.context.left <= 0:
            return
        if self.kept.mean() <= 1 - WORTH_REDUCING:
            self._recurse(cutoff, tell, solve)
        else:
            self._branch(cutoff)

    def _recurse(self, cutoff: float, tell: Callable[[], None], solve: Solve) -> None:
        limit = min(cutoff, self.cost)
        kept = _closed(self.problem, self.kept)
        if not np.isin(self.problem.roots, self.problem.node_class[kept]).all():
            self.bound = max(self.bound, limit * (1 - TOLERANCE))
            return
        part = select(self.problem, kept)
        reduced = reduce_problem(part.problem, limit, time.monotonic() + self.context.left)
        if reduced.closed:
            self.bound = max(self.bound, limit * (1 - TOLERANCE))
            return

        def report(choice: Ints, bound: float) -> None:
            lifted = reduced.lift(choice[choice >= 0])
            self.offer(part.choice_to(lifted, self.problem.class_count))
            below = min(limit, reduced.offset + bound) * (1 - TOLERANCE)
            self.bound = max(self.bound, below)
            tell()

        solve(reduced.problem, limit - reduced.offset, self.context, report)

    def _branch(self, cutoff: float) -> None:
        assert self.known is not None
        limit = min(cutoff, self.cost)
        ordered = bool((self.known.component_size > 1).any())
        program = strong_program(self.known, self.scale, ordered)
        upper = program.upper.copy()
        upper[: len(self.kept)][~self.kept] = 0.0
        program = replace(program, upper=upper, blocks=[*program.blocks, *self.cuts])
        start = None
        if self.kept[self.choice[self.choice >= 0]].all():
            start = start_values(self.known, self.choice, ordered)
        answer = solve_program(program, self.context.solver, self.context.left, start)
        if answer.values is not None:
            self.offer(chosen(self.problem, answer.values))
        bound = answer.bound / self.scale
        if answer.status == "INFEASIBLE":
            bound = limit
        self.bound = max(self.bound, min(bound, limit) * (1 - TOLERANCE))


def _closed(problem: Problem, kept: Bools) -> Bools:
    """Drop e-nodes whose children have lost all e-nodes, until none is left to drop."""
    node = edge_nodes(problem)
    kept = kept.copy()
    while True:
        alive = np.bincount(problem.node_class[kept], minlength=problem.class_count) > 0
        stranded = np.unique(node[~alive[problem.child_class]])
        stranded = stranded[kept[stranded]]
        if not len(stranded):
            return kept
        kept[stranded] = False
