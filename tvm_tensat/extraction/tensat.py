"""Extraction by TENSAT's integer program, run in the solver process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_tensat.extraction.choice import reach
from tvm_tensat.extraction.components import cycles_of
from tvm_tensat.extraction.cuts import loop_rows
from tvm_tensat.extraction.formulations import order_values, tensat_program
from tvm_tensat.extraction.problem import Floats, Ints, Problem
from tvm_tensat.extraction.program import solve_program

Send = Callable[[tuple[Any, ...]], None]


def solve_tensat(
    problem: Problem,
    order: str,
    scale: float,
    incumbent: Ints,
    solver: str,
    deadline: float,
    send: Send,
) -> None:
    """Solve TENSAT's program; where it has no order rows, cut cycles off and repeat.

    Parameters
    ----------
    problem : Problem
        Restricted to what the roots reach.
    order : {"real", "integer", "none"}
    scale : float
        Factor on the costs.
    incumbent : (classes,) int64
        An acyclic choice to start from.
    solver : str
    deadline : float
        In `time.time` seconds.
    send : callable
        Receives ``("bound", seconds)``, ``("choice", choice)`` and at last
        ``("stopped", reason, remark)``, with an empty reason when the solver is done.
    """
    program = tensat_program(problem, order, scale)
    start = _start(problem, order, incumbent)
    rounds = 0
    while True:
        answer = solve_program(program, solver, deadline - time.time(), start)
        if np.isfinite(answer.bound):
            send(("bound", answer.bound / scale))
        if answer.values is None:
            send(("stopped", _reason(answer.status, solver), ""))
            return
        choice = chosen(problem, answer.values)
        graph = reach(problem, choice)
        loops = cycles_of(graph) if graph is not None else []
        if not loops:
            send(("choice", choice))
            remark = f"solved {rounds + 1} times, cutting cycles off" if rounds else ""
            send(("stopped", _reason(answer.status, solver), remark))
            return
        if order != "none":
            send(("stopped", f"{solver} returned a cyclic choice in spite of the order rows", ""))
            return
        rounds += 1
        program = replace(program, blocks=[*program.blocks, loop_rows(problem, loops)])
        if time.time() >= deadline:
            send(("stopped", f"time limit, after {rounds} rounds of cutting cycles off", ""))
            return


def chosen(problem: Problem, values: Floats) -> Ints:
    """Return per class the e-node with the largest value, -1 where all are below one half."""
    nodes = len(problem.node_class)
    choice = np.full(problem.class_count, -1, dtype=np.int64)
    picked = np.flatnonzero(values[:nodes] > 0.5)
    picked = picked[np.argsort(values[picked], kind="stable")]
    choice[problem.node_class[picked]] = picked
    return choice


def _start(problem: Problem, order: str, incumbent: Ints) -> Floats:
    start = np.zeros(len(problem.node_class))
    start[incumbent[incumbent >= 0]] = 1.0
    if order == "none":
        return start
    return np.concatenate([start, order_values(problem, incumbent, order)])


def _reason(status: str, solver: str) -> str:
    if status == "OPTIMAL":
        return ""
    if status in ("FEASIBLE", "NO_SOLUTION_FOUND"):
        return "time limit"
    return f"{solver} reported {status} on a problem that has a solution"
