"""Checking a choice: what the roots reach, whether it is acyclic, and what it costs exactly."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tvm_tensat.extraction.problem import Ints, Problem


def child_lists(problem: Problem) -> list[list[int]]:
    """Return the distinct child classes of each e-node, as Python lists."""
    start = problem.child_start.tolist()
    flat = problem.child_class.tolist()
    return [
        flat[a:b] if b - a < 2 else list(dict.fromkeys(flat[a:b]))
        for a, b in itertools.pairwise(start)
    ]


def reach(problem: Problem, choice: Ints) -> dict[int, list[int]] | None:
    """Return the classes that the roots reach through a choice, with their chosen children.

    None when one of them has no usable e-node chosen.
    """
    chosen = choice.tolist()
    start = problem.child_start.tolist()
    usable = (np.isfinite(problem.node_cost) & ~problem.forbidden).tolist()
    graph: dict[int, list[int]] = {}
    stack: list[int] = problem.roots.tolist()
    while stack:
        number = stack.pop()
        if number in graph:
            continue
        node = chosen[number]
        if node < 0 or not usable[node] or problem.node_class[node] != number:
            return None
        children = problem.child_class[start[node] : start[node + 1]].tolist()
        graph[number] = children
        stack.extend(children)
    return graph


def unfounded(graph: dict[int, list[int]]) -> set[int]:
    """Return the classes of a chosen graph that lie on a cycle or depend on one."""
    parents: dict[int, list[int]] = {number: [] for number in graph}
    waiting = {}
    for number, children in graph.items():
        distinct = set(children)
        waiting[number] = len(distinct)
        for child in distinct:
            parents[child].append(number)
    ready = [number for number, count in waiting.items() if count == 0]
    while ready:
        number = ready.pop()
        del waiting[number]
        for parent in parents[number]:
            waiting[parent] -= 1
            if waiting[parent] == 0:
                ready.append(parent)
    return set(waiting)


def trim(problem: Problem, choice: Ints) -> Ints | None:
    """Keep of a choice what the roots reach.

    Returns
    -------
    (classes,) int64 or None
        None when the choice is no extraction: a class without a usable e-node, or a cycle.
    """
    graph = reach(problem, choice)
    if graph is None or unfounded(graph):
        return None
    kept = np.full(problem.class_count, -1, dtype=np.int64)
    used = np.fromiter(graph, dtype=np.int64, count=len(graph))
    kept[used] = choice[used]
    return kept


def exact_cost(problem: Problem, choice: Ints) -> float:
    """Return the exactly rounded sum of the costs of the chosen e-nodes, in seconds."""
    return math.fsum(problem.node_cost[choice[choice >= 0]].tolist())
