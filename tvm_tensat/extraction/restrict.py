"""The part of a problem that matters: e-nodes that have a derivation and that the roots reach."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order

from tvm_tensat.extraction.problem import Bools, Ints, Problem


@dataclass(frozen=True)
class Restricted:
    """A smaller problem, and where its parts come from.

    Parameters
    ----------
    problem : Problem
        Renumbered.
    node_origin : (nodes,) int64
        The e-node of the given problem for each e-node.
    class_origin : (classes,) int64
        The class of the given problem for each class.
    """

    problem: Problem
    node_origin: Ints
    class_origin: Ints

    def choice_from(self, given: Ints) -> Ints:
        """Translate a choice in the given problem into one in the smaller (-1 if dropped)."""
        number = np.full(int(given.max(initial=-1)) + 2, -1, dtype=np.int64)
        inside = self.node_origin < len(number)
        number[self.node_origin[inside]] = np.flatnonzero(inside)
        number[-1] = -1
        return number[given[self.class_origin]]

    def choice_to(self, small: Ints, class_count: int) -> Ints:
        """Translate a choice in the smaller problem into one in the given problem."""
        given = np.full(class_count, -1, dtype=np.int64)
        chosen = small >= 0
        given[self.class_origin[chosen]] = self.node_origin[small[chosen]]
        return given


def edge_nodes(problem: Problem) -> Ints:
    """Return the e-node of each entry of ``child_class``."""
    return np.repeat(np.arange(len(problem.node_class)), np.diff(problem.child_start))


def live_nodes(problem: Problem, derivable: Bools) -> Bools:
    """Return which e-nodes can be chosen: usable, with children that all have a derivation."""
    live = np.isfinite(problem.node_cost) & ~problem.forbidden
    live[edge_nodes(problem)[~derivable[problem.child_class]]] = False
    return live


def restrict(problem: Problem, derivable: Bools) -> Restricted:
    """Drop e-nodes that cannot be chosen and what the roots do not reach.

    Parameters
    ----------
    problem : Problem
    derivable : (classes,) bool
        Classes that have a derivation; the roots are among them.
    """
    live = live_nodes(problem, derivable)
    node = edge_nodes(problem)
    kept = live[node]
    parent, child = problem.node_class[node[kept]], problem.child_class[kept]
    top = problem.class_count  # a class above the roots
    roots = np.unique(problem.roots)
    graph = csr_matrix(
        (
            np.ones(len(parent) + len(roots), dtype=np.int8),
            (
                np.concatenate([parent, np.full(len(roots), top)]),
                np.concatenate([child, roots]),
            ),
        ),
        shape=(top + 1, top + 1),
    )
    reached = np.zeros(top + 1, dtype=np.bool_)
    reached[breadth_first_order(graph, top, return_predecessors=False)] = True
    live &= reached[problem.node_class]
    class_origin = np.flatnonzero(reached[:top])
    number = np.full(top, -1, dtype=np.int64)
    number[class_origin] = np.arange(len(class_origin))
    node_origin = np.flatnonzero(live)
    length = np.diff(problem.child_start)[node_origin]
    small = Problem(
        node_class=number[problem.node_class[node_origin]],
        child_start=np.concatenate([[0], np.cumsum(length)]).astype(np.int64),
        child_class=number[problem.child_class[live[node]]],
        node_cost=problem.node_cost[node_origin],
        roots=number[roots],
        forbidden=np.zeros(len(node_origin), dtype=np.bool_),
        class_count=len(class_origin),
    )
    return Restricted(small, node_origin, class_origin)
