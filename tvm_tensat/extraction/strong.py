"""A stronger integer program for extraction than TENSAT's, for reduced problems.

Variables: x_n, e-node n is chosen; y_c, class c is chosen; t_c, an order, only for classes on
cycles. At most one e-node a class is chosen, so that the rows can be aggregated::

    y_c = sum of x_n over n in c,     y_c <= 1,     y_root = 1
    sum of x_n over n in p with d in must(n)  <=  y_d         (class p, class d a child in p)
    t_d + 1 - S (1 - sum of x_n over n in p with child d)  <=  t_p       (p, d in one component)

must(n) are the classes that every derivation of the children of n contains (see
`tvm_tensat.extraction.must`): an e-node that reaches d only further down strengthens the row of
its siblings that have d as a child. S is the number of classes in the component. Order rows are
only needed where p and d lie in one strongly connected component: no other edge is on a cycle.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from tvm_tensat.extraction.formulations import edges
from tvm_tensat.extraction.graph import Graph
from tvm_tensat.extraction.must import must_sets
from tvm_tensat.extraction.problem import Bools, Floats, Ints, Problem
from tvm_tensat.extraction.program import Program, Rows, block

# With more pairs of e-node and class in its must set than this, only rows for children are made.
MOST_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Structure:
    """What rows and cuts need to know about a problem.

    Parameters
    ----------
    problem : Problem
    group_parent, group_child : (groups,) int64
        Pairs (p, d) of classes such that d is in the must set of an e-node of p; d is no root.
    group_direct : (groups,) bool
        Whether d is a child of an e-node of p.
    entry_group, entry_node : (entries,) int64
        The e-nodes n of each pair: n in p with d in must(n).
    component : (classes,) int64
        Strongly connected component of each class.
    component_size : (components,) int64
    """

    problem: Problem
    group_parent: Ints
    group_child: Ints
    group_direct: Bools
    entry_group: Ints
    entry_node: Ints
    component: Ints
    component_size: Ints


def structure(problem: Problem) -> Structure:
    """Compute must sets and components of a problem in which every class has a derivation."""
    graph = Graph(problem)
    sets = must_sets(graph)
    roots = set(problem.roots.tolist())
    number: dict[tuple[int, int], int] = defaultdict(lambda: len(number))
    direct: set[int] = set()
    entry_group: list[int] = []
    entry_node: list[int] = []
    needs = [sets.of_children(children) for children in graph.children]
    everything = sum(bits.bit_count() for bits in needs) <= MOST_ENTRIES
    wanted = [-1 if everything else 0] * problem.class_count
    for node, children in enumerate(graph.children):
        for child in children:
            wanted[graph.owner[node]] |= 1 << sets.bit[child]
    for node, children in enumerate(graph.children):
        parent = graph.owner[node]
        for needed in sets.classes(needs[node] & wanted[parent]):
            if needed in roots:
                continue
            group = number[parent, needed]
            entry_group.append(group)
            entry_node.append(node)
            if needed in children:
                direct.add(group)
    pairs = np.array(list(number), dtype=np.int64).reshape(-1, 2)
    group_direct = np.zeros(len(pairs), dtype=np.bool_)
    group_direct[list(direct)] = True
    component = np.array([sets.component[c] for c in range(problem.class_count)], dtype=np.int64)
    return Structure(
        problem,
        pairs[:, 0],
        pairs[:, 1],
        group_direct,
        np.array(entry_group, dtype=np.int64),
        np.array(entry_node, dtype=np.int64),
        component,
        np.bincount(component),
    )


def strong_program(known: Structure, scale: float, ordered: bool) -> Program:
    """Return the integer program; variables are the x, the y, and (if ordered) the t."""
    problem = known.problem
    nodes, classes = len(problem.node_class), problem.class_count
    roots = np.unique(problem.roots)
    node = np.arange(nodes)
    number = np.arange(classes)
    class_rows = block(
        np.concatenate([problem.node_class, number]),
        np.concatenate([node, nodes + number]),
        np.concatenate([np.ones(nodes), -np.ones(classes)]),
        "=",
        np.zeros(classes),
    )
    root_rows = block(np.arange(len(roots)), nodes + roots, 1.0, "=", np.ones(len(roots)))
    blocks = [class_rows, root_rows, group_rows(known, known.group_direct)]
    tail = np.zeros(classes)
    upper = np.ones(nodes + classes)
    if ordered:
        blocks.append(_order_rows(known))
        tail = np.zeros(2 * classes)
        upper = np.concatenate([upper, known.component_size[known.component] - 1.0])
    return Program(
        cost=np.concatenate([problem.node_cost * scale, tail]),
        upper=upper,
        integer=np.arange(len(upper)) < nodes,
        blocks=blocks,
    )


def group_rows(known: Structure, wanted: Bools) -> Rows:
    """Return the rows "sum of x_n over the group <= y_d" of the groups wanted."""
    row_of = np.cumsum(wanted) - 1
    groups = np.flatnonzero(wanted)
    entries = wanted[known.entry_group]
    nodes = len(known.problem.node_class)
    return block(
        np.concatenate([row_of[known.entry_group[entries]], row_of[groups]]),
        np.concatenate([known.entry_node[entries], nodes + known.group_child[groups]]),
        np.concatenate([np.ones(int(entries.sum())), -np.ones(len(groups))]),
        "<",
        np.zeros(len(groups)),
    )


def inner_edges(known: Structure) -> tuple[Ints, Ints]:
    """Return the (e-node, child class) pairs that lie within one component."""
    node, child = edges(known.problem)
    inside = known.component[known.problem.node_class[node]] == known.component[child]
    return node[inside], child[inside]


def _order_rows(known: Structure) -> Rows:
    problem = known.problem
    nodes, classes = len(problem.node_class), problem.class_count
    node, child = inner_edges(known)
    pair, row = np.unique(problem.node_class[node] * classes + child, return_inverse=True)
    parent, below = pair // classes, pair % classes
    size = known.component_size[known.component[parent]].astype(np.float64)
    rows = np.arange(len(pair))
    # t_d - t_p + S * sum(x) <= S - 1
    return block(
        np.concatenate([rows, rows, row]),
        np.concatenate([nodes + classes + below, nodes + classes + parent, node]),
        np.concatenate([np.ones(len(pair)), -np.ones(len(pair)), size[row]]),
        "<",
        size - 1,
    )


def start_values(known: Structure, choice: Ints, ordered: bool) -> Floats:
    """Return values of all variables that fit an acyclic choice."""
    problem = known.problem
    chosen = np.flatnonzero(choice >= 0)
    x = np.zeros(len(problem.node_class))
    x[choice[chosen]] = 1.0
    y = np.zeros(problem.class_count)
    y[chosen] = 1.0
    if not ordered:
        return np.concatenate([x, y])
    from tvm_tensat.extraction.formulations import topological

    level = np.zeros(problem.class_count)
    for number in topological(problem, choice):
        node = choice[number]
        children = problem.child_class[problem.child_start[node] : problem.child_start[node + 1]]
        children = children[known.component[children] == known.component[number]]
        if len(children):
            level[number] = level[children].max() + 1
    return np.concatenate([x, y, level])
