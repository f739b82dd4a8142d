"""Parts with few combinations, solved by trying them: no solver, no process."""

from __future__ import annotations

import math

import numpy as np

from tvm_tensat.extraction.choice import child_lists
from tvm_tensat.extraction.problem import Ints, Problem

# Trying this many combinations takes about as long as starting a solver process does (0.3 s).
MOST_COMBINATIONS = 20_000

# The search goes one call deeper a class.
MOST_CLASSES = 200


def is_tiny(problem: Problem) -> bool:
    """Whether all combinations of one e-node per class can be tried."""
    if problem.class_count > MOST_CLASSES:
        return False
    sizes = np.bincount(problem.node_class, minlength=problem.class_count)
    return float(np.log(np.maximum(sizes, 1)).sum()) <= math.log(MOST_COMBINATIONS)


def solve_tiny(problem: Problem, incumbent: float) -> Ints | None:
    """Return the cheapest extraction if it costs less than the incumbent, else None.

    Depth-first over the classes still needed. A branch ends when it costs as much as the best one
    or closes a cycle.
    """
    children = child_lists(problem)
    costs = problem.node_cost.tolist()
    members: list[list[int]] = [[] for _ in range(problem.class_count)]
    for node in np.argsort(problem.node_cost, kind="stable").tolist():
        members[problem.node_class[node]].append(node)
    chosen: dict[int, int] = {}
    best: dict[int, int] | None = None
    best_cost = incumbent

    def closes_cycle(number: int) -> bool:
        stack, seen = list(children[chosen[number]]), set()
        while stack:
            child = stack.pop()
            if child == number:
                return True
            if child in chosen and child not in seen:
                seen.add(child)
                stack.extend(children[chosen[child]])
        return False

    def descend(needed: list[int], cost: float) -> None:
        nonlocal best, best_cost
        while needed and needed[-1] in chosen:
            needed = needed[:-1]
        if not needed:
            best, best_cost = dict(chosen), cost
            return
        number = needed[-1]
        for node in members[number]:
            if cost + costs[node] >= best_cost:
                break
            chosen[number] = node
            if not closes_cycle(number):
                descend(needed[:-1] + children[node], cost + costs[node])
            del chosen[number]

    descend(problem.roots.tolist(), 0.0)
    if best is None:
        return None
    choice = np.full(problem.class_count, -1, dtype=np.int64)
    for number, node in best.items():
        choice[number] = node
    return choice
