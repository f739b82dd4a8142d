"""Runs the exact method inside the test's process, so that many problems can be tried quickly."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.extraction.oracle import check_extraction
from tvm_tensat.extraction import Problem
from tvm_tensat.extraction.choice import exact_cost, trim
from tvm_tensat.extraction.exact import solve_reduced
from tvm_tensat.extraction.greedy import greedy_dag
from tvm_tensat.extraction.part import Context
from tvm_tensat.extraction.reductions import reduce_problem
from tvm_tensat.extraction.restrict import restrict


@dataclass
class Found:
    """The cost of the best extraction, the bound, and how many e-nodes reductions left."""

    cost: float
    bound: float
    left: int

    @property
    def proven(self) -> bool:
        return self.bound >= self.cost * (1 - 1e-6)


def solve_inside(problem: Problem, solver: str, seconds: float = 20.0) -> Found | None:
    """Solve with this solver; None when a root has no derivation."""
    greedy = greedy_dag(problem)
    choice = trim(problem, greedy)
    if choice is None:
        return None
    cost = exact_cost(problem, choice)
    small = restrict(problem, greedy >= 0)
    reduced = reduce_problem(small.problem, cost, time.monotonic() + seconds)
    found = Found(cost, cost if reduced.closed or cost == 0 else 0.0, 0)
    if found.proven:
        return found
    found.left = len(reduced.problem.node_class)

    def report(rest, bound):
        lifted = small.choice_to(reduced.lift(rest[rest >= 0]), problem.class_count)
        kept = trim(problem, lifted)
        assert kept is not None
        found.cost = min(found.cost, check_extraction(problem, kept))
        found.bound = max(found.bound, reduced.offset + bound)

    context = Context(solver, time.time() + seconds)
    solve_reduced(reduced.problem, cost - reduced.offset, context, report)
    return found
