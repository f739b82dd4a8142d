"""The extraction problem of our own e-graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tvm_tensat.egraph.egraph import EGraph, Ints
from tvm_tensat.extraction.problem import Problem


def problem_of(
    graph: EGraph, roots: list[int], costs: NDArray[np.float64]
) -> tuple[Problem, Ints, Ints]:
    """Return the extraction problem, its e-nodes and classes numbered from 0.

    Parameters
    ----------
    graph : EGraph
        Rebuilt.
    roots : list of int
        Classes wanted.
    costs : (nodes,) float64
        Seconds, by row of the e-graph.

    Returns
    -------
    Problem
    rows : (nodes of the problem,) int64
        The e-graph's row of each.
    classes : (classes of the problem,) int64
        The e-graph's class of each.
    """
    rows = np.flatnonzero(graph.node_alive)
    classes, node_class = np.unique(graph.node_class[rows], return_inverse=True)
    owner, child = graph.edges(rows)
    start = np.searchsorted(owner, np.arange(len(rows) + 1))
    wanted = np.unique(graph.sets.parent[np.array(roots, np.int64)])
    problem = Problem(
        node_class=node_class.astype(np.int64),
        child_start=start.astype(np.int64),
        child_class=np.searchsorted(classes, child).astype(np.int64),
        node_cost=costs[rows],
        roots=np.searchsorted(classes, wanted).astype(np.int64),
        forbidden=graph.node_filtered[rows].copy(),
        class_count=len(classes),
    )
    return problem, rows, classes
