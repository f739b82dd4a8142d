"""Extraction by trying everything, and random e-graphs to try it on."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from tvm_tensat.extraction import Problem


def make_problem(nodes, roots, class_count, forbidden=()) -> Problem:
    """Return a problem from (class, cost, children) per e-node."""
    lengths = [len(children) for _, _, children in nodes]
    return Problem(
        node_class=np.array([number for number, _, _ in nodes], dtype=np.int64),
        child_start=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        child_class=np.array([c for _, _, children in nodes for c in children], dtype=np.int64),
        node_cost=np.array([cost for _, cost, _ in nodes], dtype=np.float64),
        roots=np.array(roots, dtype=np.int64),
        forbidden=np.isin(np.arange(len(nodes)), forbidden),
        class_count=class_count,
    )


def check_extraction(problem: Problem, choice) -> float:
    """Assert that a choice is a trimmed acyclic extraction; return its cost."""
    done: set[int] = set()

    def visit(number: int, above: tuple[int, ...]) -> None:
        assert number not in above, f"class {number} is its own descendant"
        if number in done:
            return
        node = int(choice[number])
        assert node >= 0, f"class {number} is needed and has no e-node"
        assert problem.node_class[node] == number
        assert not problem.forbidden[node] and math.isfinite(problem.node_cost[node])
        for child in problem.child_class[problem.child_start[node] : problem.child_start[node + 1]]:
            visit(int(child), (*above, number))
        done.add(number)

    for root in problem.roots:
        visit(int(root), ())
    assert {number for number, node in enumerate(choice) if node >= 0} == done
    return math.fsum(problem.node_cost[choice[number]] for number in done)


def brute_force(problem: Problem) -> float | None:
    """Return the least cost over all combinations of one e-node (or none) per class."""
    members = [
        [-1, *np.flatnonzero(problem.node_class == number).tolist()]
        for number in range(problem.class_count)
    ]
    best = None
    for combination in itertools.product(*members):
        try:
            cost = check_extraction(problem, np.array(combination))
        except AssertionError:
            continue
        best = cost if best is None else min(best, cost)
    return best


@st.composite
def small_problems(draw) -> Problem:
    """E-graphs of up to 6 classes: cyclic, with several roots, ties, costs of 0 and inf."""
    class_count = draw(st.integers(1, 6))
    a_class = st.integers(0, class_count - 1)
    cost = st.sampled_from([0.0, 0.0, 1e-5, 2e-5, 2e-5, 3.5e-5, 7e-5, math.inf])
    nodes = [
        (number, draw(cost), draw(st.lists(a_class, max_size=3)))
        for number in range(class_count)
        for _ in range(draw(st.integers(1, 3)))
    ]
    roots = draw(st.lists(a_class, min_size=1, max_size=2))
    forbidden = draw(st.lists(st.integers(0, len(nodes) - 1), max_size=1))
    return make_problem(nodes, roots, class_count, forbidden)


def random_problem(
    seed: int, classes: int, *, back: float = 0.1, free: float = 0.3, span: int = 12
) -> Problem:
    """Return a larger e-graph: classes depend on nearby earlier ones, and on later ones (cycles).

    Parameters
    ----------
    back : float
        Share of children that lie later, so that cycles can close.
    free : float
        Share of e-nodes that cost nothing.
    """
    draw = np.random.default_rng(seed)
    nodes = []
    for number in range(classes):
        for place in range(int(draw.integers(1, 5))):
            arity = int(draw.integers(0 if number < 3 else 1, 4))
            children = []
            for _ in range(arity):
                step = int(draw.integers(1, span))
                later = place > 0 and draw.random() < back
                child = number + step if later else number - step
                if 0 <= child < classes:
                    children.append(child)
            cost = 0.0 if draw.random() < free else float(draw.integers(1, 1000)) * 1e-7
            nodes.append((number, cost, children))
    return make_problem(nodes, [classes - 1, classes - 2], classes)


def deep_network(stages: int) -> Problem:
    """Return a chain of stages with 8 variants each; every third stage has a skip connection."""
    draw = np.random.default_rng(0)
    nodes: list[tuple[int, float, list[int]]] = [(0, 0.0, [])]
    for stage in range(1, stages):
        children = [stage - 1, max(stage - 3, 0)] if stage % 3 == 0 else [stage - 1]
        nodes += [(stage, cost * 1e-7, children) for cost in draw.integers(1, 1000, size=8)]
    return make_problem(nodes, roots=[stages - 1], class_count=stages)
