"""A pool of the best extractions that differ from each other, for a judge better than costs.

Costs predict; what runs fastest is only known by running it. So the caller wants, beside the
cheapest extraction, others that cost little more and are another graph where it matters. The next
member of a pool minimizes the cost subject to the rows of `tvm_tensat.extraction.strong` and, for
each earlier member S with cost c(S), to::

    sum of c_n x_n over n in S  <=  (1 - difference) c(S)
    sum of c_n x_n over all n   <=  most_cost c(first member)

The first row is a no-good cut weighted by cost: at least the share `difference` of the time of S is
spent otherwise. It excludes S and whatever S becomes by swapping e-nodes that cost nothing, which
the plain cut (some x_n of S is 0) would return one by one. Cycles are excluded by loop formulas
where a solution has one (`tvm_tensat.extraction.cuts`), and the program is solved again.

Reductions do not apply: an e-node that another one dominates is no part of a cheapest extraction
that matters, but it can be of the second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_tensat.extraction.best import PROOF_TOLERANCE, Progress
from tvm_tensat.extraction.choice import exact_cost, reach, trim
from tvm_tensat.extraction.components import cycles_of
from tvm_tensat.extraction.cuts import loop_rows
from tvm_tensat.extraction.greedy import greedy_dag
from tvm_tensat.extraction.problem import ExtractionError, Ints, Problem, Solution
from tvm_tensat.extraction.process import run_in_process
from tvm_tensat.extraction.program import SCALED_COST, Program, Rows, block, solve_program
from tvm_tensat.extraction.relaxation import Relaxation
from tvm_tensat.extraction.restrict import restrict
from tvm_tensat.extraction.separation import Separator
from tvm_tensat.extraction.solve import extract
from tvm_tensat.extraction.strong import Structure, strong_program, structure
from tvm_tensat.extraction.tensat import chosen

# Rounds of cutting before the first member is looked for.
MOST_ROUNDS = 60


def extract_pool(
    problem: Problem,
    count: int,
    *,
    difference: float = 0.02,
    most_cost: float = 1.05,
    solver: str = "highs",
    time_limit: float = 60.0,
    start: Ints | None = None,
    progress: Progress | None = None,
) -> list[Solution]:
    """Extract the cheapest graph and the next best that differ from it and from each other.

    Parameters
    ----------
    problem : Problem
    count : int
        The most members.
    difference : float
        The share of the cost of each earlier member that later ones must spend on other e-nodes.
    most_cost : float
        The most that a member may cost, as a multiple of the first one's cost; at least 1.
    solver, start, progress
        As in `extract`.
    time_limit : float
        Seconds for the whole call; half of it at most goes to the first member.

    Returns
    -------
    list of Solution
        In the order in which they were found: the first as `extract` returns it. After Ctrl-C the
        last one's status ends in ``"interrupted"``. A later one has
        the status ``"optimal"`` when it is the cheapest that differs so from those before it;
        its bound holds for such extractions only. Fewer than `count` when there are no more within
        `most_cost`, or time is up.

    Raises
    ------
    ExtractionError
        As `extract`; or when `difference`, `most_cost` or `count` are out of range.
    """
    if not (0 < difference <= 1 and most_cost >= 1 and count >= 1):
        raise ExtractionError(
            f"a pool needs 0 < difference <= 1, most_cost >= 1 and count >= 1; given are"
            f" {difference}, {most_cost} and {count}"
        )
    begin = time.monotonic()
    first = extract(
        problem, solver=solver, time_limit=time_limit / 2, start=start, progress=progress
    )
    pool = [first]
    if count == 1 or first.cost == 0 or first.status.endswith("interrupted"):
        return pool
    small = restrict(problem, greedy_dag(problem) >= 0)
    left = time_limit - (time.monotonic() - begin)
    incumbent = small.choice_from(first.choice)
    task = ("pool", small.problem, incumbent, count, difference, most_cost, solver)
    messages = run_in_process((*task, time.time() + 0.97 * left), time.monotonic() + left)
    try:
        for message in messages:
            if message[0] != "member":
                continue
            choice = trim(problem, small.choice_to(message[1], problem.class_count))
            if choice is None:  # a solver's mistake
                break
            cost = exact_cost(problem, choice)
            bound = min(message[2], cost)
            proven = cost - bound <= PROOF_TOLERANCE * cost
            status = "optimal" if proven else "feasible: time limit"
            seconds = time.monotonic() - begin
            pool.append(
                Solution(choice, cost, bound, (cost - bound) / cost, status, seconds, "ilp")
            )
    except KeyboardInterrupt:
        pool[-1] = replace(pool[-1], status=pool[-1].status + ", then interrupted")
    finally:
        messages.close()
    return pool


def solve_pool(
    problem: Problem,
    incumbent: Ints,
    count: int,
    difference: float,
    most_cost: float,
    solver: str,
    deadline: float,
    send: Callable[[tuple[Any, ...]], None],
) -> None:
    """Find the members after the first; runs in the solver process.

    Parameters
    ----------
    problem : Problem
        Restricted to what the roots reach.
    incumbent : (classes,) int64
        The first member.
    count, difference, most_cost, solver
        As in `extract_pool`.
    deadline : float
        In `time.time` seconds.
    send : callable
        Receives ``("member", choice, bound)`` for each.
    """
    least = exact_cost(problem, incumbent)
    scale = SCALED_COST / least
    known = structure(problem)
    program = strong_program(known, scale, ordered=False)
    nodes = np.arange(len(problem.node_class))
    limit = block(
        np.zeros(len(nodes)), nodes, program.cost[: len(nodes)], "<", [most_cost * SCALED_COST]
    )
    program = replace(program, blocks=[*program.blocks, limit])
    program = _tightened(program, known, solver, deadline)
    choice = incumbent
    found = 1
    while found < count:
        cut = _different(problem, choice, difference, scale)
        program = replace(program, blocks=[*program.blocks, cut])
        while True:
            answer = solve_program(program, solver, deadline - time.time())
            if answer.values is None:
                return
            choice = chosen(problem, answer.values)
            graph = reach(problem, choice)
            loops = cycles_of(graph) if graph is not None else []
            if not loops:
                break
            program = replace(program, blocks=[*program.blocks, loop_rows(problem, loops)])
        trimmed = trim(problem, choice)
        if trimmed is None:  # a solver's mistake
            return
        choice = trimmed
        send(("member", choice, answer.bound / scale))
        found += 1


def _tightened(program: Program, known: Structure, solver: str, deadline: float) -> Program:
    """Add the rows that the relaxation violates, which all members need."""
    relaxation = Relaxation(program, solver)
    separator = Separator(known)
    found: list[Rows] = []
    for _ in range(MOST_ROUNDS):
        left = deadline - time.time()
        if left <= 0 or relaxation.solve(left) != "OPTIMAL":
            break
        cuts = separator.cuts(relaxation.values)
        if not cuts:
            break
        for rows in cuts:
            relaxation.add(rows)
        found += cuts
    return replace(program, blocks=[*program.blocks, *found])


def _different(problem: Problem, choice: Ints, difference: float, scale: float) -> Rows:
    """Return the row that asks for another way to spend a share of a member's cost."""
    nodes = choice[choice >= 0]
    cost = problem.node_cost[nodes] * scale
    return block(np.zeros(len(nodes)), nodes, cost, "<", [(1 - difference) * float(cost.sum())])
