"""Independent parts of a problem."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from tvm_tensat.extraction.problem import Bools, Problem
from tvm_tensat.extraction.restrict import Restricted, edge_nodes


def split(problem: Problem) -> list[Restricted]:
    """Split a problem into parts that share no class, the smallest first."""
    parent = problem.node_class[edge_nodes(problem)]
    count = problem.class_count
    links = csr_matrix((np.ones(len(parent)), (parent, problem.child_class)), shape=(count, count))
    parts, label = connected_components(links, directed=False)
    if parts == 1:
        return [select(problem, np.ones(len(problem.node_class), dtype=np.bool_))]
    found = [select(problem, label[problem.node_class] == part) for part in range(parts)]
    return sorted(found, key=lambda part: len(part.node_origin))


def select(problem: Problem, nodes: Bools) -> Restricted:
    """Keep the e-nodes marked and their classes; these must contain the children of all kept."""
    node_origin = np.flatnonzero(nodes)
    class_origin = np.unique(problem.node_class[node_origin])
    number = np.full(problem.class_count, -1, dtype=np.int64)
    number[class_origin] = np.arange(len(class_origin))
    lengths = np.diff(problem.child_start)[node_origin]
    roots = number[problem.roots]
    small = Problem(
        node_class=number[problem.node_class[node_origin]],
        child_start=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        child_class=number[problem.child_class[nodes[edge_nodes(problem)]]],
        node_cost=problem.node_cost[node_origin],
        roots=roots[roots >= 0],
        forbidden=problem.forbidden[node_origin],
        class_count=len(class_origin),
    )
    return Restricted(small, node_origin, class_origin)
