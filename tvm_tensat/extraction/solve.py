"""`extract`: the cheapest acyclic graph of an e-graph, by the method asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from tvm_tensat.extraction.best import Best, Progress
from tvm_tensat.extraction.choice import trim
from tvm_tensat.extraction.exact import solve_without_solver
from tvm_tensat.extraction.greedy import greedy_dag, greedy_tree
from tvm_tensat.extraction.local import local_search
from tvm_tensat.extraction.problem import (
    ExtractionError,
    Ints,
    Problem,
    Solution,
    check_problem,
)
from tvm_tensat.extraction.process import Child, run_in_process
from tvm_tensat.extraction.program import SCALED_COST, SOLVERS
from tvm_tensat.extraction.reductions import reduce_problem
from tvm_tensat.extraction.restrict import Restricted, live_nodes, restrict

METHODS = (
    "greedy-tree",
    "greedy-dag",
    "local-search",
    "ilp",
    "ilp-tensat-real",
    "ilp-tensat-integer",
    "ilp-no-cycles",
)
_TENSAT_ORDER = {
    "ilp-tensat-real": "real",
    "ilp-tensat-integer": "integer",
    "ilp-no-cycles": "none",
}

# The part of the time limit that local search may take before the exact method starts.
LOCAL_SHARE = 0.2

# E-graphs with so many e-nodes are seldom solved by reductions and enumeration alone: a solver
# process is started while they run.
LIKELY_NEEDS_A_SOLVER = 1000


def extract(
    problem: Problem,
    method: str = "ilp",
    *,
    solver: str = "highs",
    time_limit: float = 60.0,
    start: Ints | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Extract a cheap acyclic graph: the cheapest one where the method proves it in time.

    Parameters
    ----------
    problem : Problem
        The e-graph; costs in seconds.
    method : str
        ``"greedy-tree"``, ``"greedy-dag"``: see `tvm_tensat.extraction.greedy`;
        ``"local-search"``: greedy DAG, improved, see `tvm_tensat.extraction.local`. ``"ilp"``:
        exact, see `tvm_tensat.extraction.exact`. ``"ilp-tensat-real"``, ``"ilp-tensat-integer"``:
        TENSAT's integer program as published, with real or integer order variables;
        ``"ilp-no-cycles"``: without them, for e-graphs whose cycles were filtered (elsewhere cycles
        are cut off and the program is solved again); see `tvm_tensat.extraction.formulations`.
    solver : {"highs", "cbc", "gurobi"}
        Who solves integer programs, through python-mip, on one thread.
    time_limit : float
        Seconds for the whole call, which hold to 5%; only greedy extraction is not cut short (3 s
        for 200,000 e-nodes).
    start : (classes,) int64, optional
        A choice that is known, such as the last one before some costs changed; the methods that
        improve a choice begin with it where it is an extraction and cheaper than theirs.
    progress : callable, optional
        Receives the best cost so far and the bound, whenever one has changed.

    Returns
    -------
    Solution
        Always an acyclic extraction, at least as cheap as greedy DAG extraction (for the ``ilp``
        methods), whatever the solver did. Ctrl-C returns the best so far.

    Raises
    ------
    ExtractionError
        When the problem is not well-formed or a root has no derivation, or the method or solver
        is unknown.
    """
    begin = time.monotonic()
    _check_options(method, solver, time_limit)
    check_problem(problem)
    _check_start(problem, start)
    greedy = greedy_tree(problem) if method == "greedy-tree" else greedy_dag(problem)
    _check_roots(problem, greedy)
    first = trim(problem, greedy)
    assert first is not None, "greedy extraction is complete and acyclic"
    best = Best(problem, first, progress)
    if best.cost == 0:
        status = "optimal"
    elif method.startswith("greedy"):
        status = "greedy"
    else:
        if start is not None:
            best.offer(start)
        status = _improve(best, method, solver, greedy, begin, time_limit)
    gap = (best.cost - best.bound) / best.cost if best.cost > 0 else 0.0
    return Solution(
        choice=best.choice,
        cost=best.cost,
        bound=best.bound,
        gap=gap,
        status=status,
        seconds=time.monotonic() - begin,
        method=method,
    )


def _improve(
    best: Best, method: str, solver: str, greedy: Ints, begin: float, time_limit: float
) -> str:
    """Improve and prove as far as time allows; return the status."""
    remark = ""
    deadline = begin + time_limit
    try:
        if method == "local-search":
            searched, finished = local_search(best.problem, greedy, deadline)
            best.offer(searched)
            return "local optimum" if finished else "feasible: time limit"
        small = restrict(best.problem, greedy >= 0)
        if method == "ilp":
            reason = _solve_exactly(best, solver, small, greedy, begin, time_limit)
        else:
            reason, remark = _solve_tensat(best, method, solver, small, deadline)
    except KeyboardInterrupt:
        reason = "interrupted"
    if best.proven:
        return f"optimal ({remark})" if remark else "optimal"
    return f"feasible: {best.doubt or reason or 'the solver stopped short of a proof'}"


def _solve_exactly(
    best: Best, solver: str, small: Restricted, greedy: Ints, begin: float, time_limit: float
) -> str:
    """Search locally, reduce and solve; return why it stopped short of a proof."""
    likely = len(small.problem.node_class) >= LIKELY_NEEDS_A_SOLVER
    with Child() if likely else nullcontext() as child:
        # What is cheap to find is found first: reductions drop the more, the cheaper it is.
        searched, _ = local_search(best.problem, greedy, begin + LOCAL_SHARE * time_limit)
        best.offer(searched)
        return _reduce_and_solve(best, solver, small, begin + time_limit, child)


def _reduce_and_solve(
    best: Best, solver: str, small: Restricted, deadline: float, child: Child | None
) -> str:
    classes = best.problem.class_count
    reduced = reduce_problem(small.problem, best.cost, deadline)
    if reduced.closed:
        best.prove(best.cost, "reduction")
        return ""

    def take(choice: Ints) -> bool:
        return best.offer(small.choice_to(reduced.lift(choice[choice >= 0]), classes))

    cutoff = best.cost - reduced.offset

    def report(choice: Ints, bound: float) -> None:
        take(choice)
        best.prove(reduced.offset + bound, "enumeration")

    if solve_without_solver(reduced.problem, cutoff, report):
        return ""
    task = ("exact", reduced.problem, cutoff, solver)
    return _listen(best, task, solver, deadline, take, reduced.offset, child)[0]


def _solve_tensat(
    best: Best, method: str, solver: str, small: Restricted, deadline: float
) -> tuple[str, str]:
    classes = best.problem.class_count
    incumbent = small.choice_from(best.choice)
    scale = SCALED_COST / best.cost
    task = ("tensat", small.problem, _TENSAT_ORDER[method], scale, incumbent, solver)

    def take(choice: Ints) -> bool:
        return best.offer(small.choice_to(choice, classes))

    return _listen(best, task, solver, deadline, take, 0.0, None)


def _listen(
    best: Best,
    task: tuple[Any, ...],
    solver: str,
    deadline: float,
    take: Callable[[Ints], bool],
    offset: float,
    child: Child | None,
) -> tuple[str, str]:
    """Run a task in a process and take what it finds; return why it stopped, and a remark."""
    left = deadline - time.monotonic()
    if left <= 0:
        return "time limit", ""
    # The solver stops a little early, so that its last solution arrives before the process is
    # killed a little late.
    messages = run_in_process((*task, time.time() + 0.97 * left), deadline + 0.02 * left, child)
    reason, remark = "", ""
    try:
        for message in messages:
            if message[0] == "bound":
                best.prove(offset + message[1], solver)
            elif message[0] == "choice":
                if not take(message[1]):
                    best.doubt = f"{solver} returned a choice that is no extraction"
            elif message[0] == "failed":
                reason = message[1]
            elif message[0] == "stopped":
                reason, remark = message[1], message[2]
    finally:
        messages.close()
    return reason, remark


def _check_options(method: str, solver: str, time_limit: float) -> None:
    if method not in METHODS:
        raise ExtractionError(f"unknown extraction method {method!r}; use one of {METHODS}")
    if solver not in SOLVERS:
        raise ExtractionError(f"unknown solver {solver!r}; use one of {tuple(SOLVERS)}")
    if not 0 < time_limit < float("inf"):
        raise ExtractionError(f"time_limit is {time_limit}; give a number of seconds > 0")


def _check_start(problem: Problem, start: Ints | None) -> None:
    if start is None:
        return
    nodes = len(problem.node_class)
    if start.shape != (problem.class_count,) or (start < -1).any() or (start >= nodes).any():
        raise ExtractionError(
            f"start must name an e-node, 0..{nodes - 1}, or -1 for each of"
            f" {problem.class_count} classes; its shape is {start.shape}"
        )


def _check_roots(problem: Problem, greedy: Ints) -> None:
    missing = np.unique(problem.roots[greedy[problem.roots] < 0])
    if len(missing) == 0:
        return
    root = int(missing[0])
    members = np.flatnonzero(problem.node_class == root)
    live = live_nodes(problem, greedy >= 0)[members]
    forbidden = int(problem.forbidden[members].sum())
    infinite = int(np.isinf(problem.node_cost[members]).sum())
    raise ExtractionError(
        f"root class {root} has no derivation (of {len(members)} e-nodes {forbidden} are forbidden,"
        f" {infinite} cost inf, {int((~live).sum())} cannot be completed without them or without a"
        " cycle): allow one, or give finite costs to what it needs"
    )
