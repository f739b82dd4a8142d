"""Parts of a problem that are copies of each other: one is solved, its solution serves all.

Models repeat their blocks, so that reductions leave the same small problem many times, numbered
differently. Two problems are copies when some renumbering turns one into the other. It is looked
for by colour refinement (B. Weisfeiler, A. Leman, 1968): the colour of an e-node is a hash of its
cost and of the colours of its children, that of a class a hash of the colours of its e-nodes and of
the e-nodes that use it, until no more colours appear. Where classes still share a colour, one of
them gets its own, and so on. Sorted by colour, copies become equal arrays; only arrays that are
equal, number by number, are taken for copies, so that a wrong guess or a collision costs time only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_tensat.extraction.problem import Floats, Ints, Problem
from tvm_tensat.extraction.restrict import edge_nodes

Colours = npt.NDArray[np.uint64]

# Classes of equal colour that are told apart one by one; each takes a refinement, whose time is
# that of some passes over the edges: so many classes, and fewer in problems with many edges.
MOST_TIES = 200
MOST_TIES_TIMES_EDGES = 2_000_000

# Costs that differ by rounding (shifts subtract them in any order) are the same to these bits.
_BITS = 40


@dataclass(frozen=True)
class Form:
    """A problem in an order that does not depend on its numbering.

    Parameters
    ----------
    nodes : (nodes,) int64
        The e-nodes in this order.
    classes : (classes,) int64
        The classes in this order.
    key : bytes
        The problem, renumbered; equal for copies.
    """

    nodes: Ints
    classes: Ints
    key: bytes


def form_of(problem: Problem) -> Form | None:
    """Return the form of a problem, None when it is too symmetric to be worth finding."""
    cost = _rounded(problem.node_cost)
    colour: Colours = np.zeros(problem.class_count, dtype=np.uint64)
    colour[problem.roots] = 1
    ties = MOST_TIES_TIMES_EDGES // max(1, len(problem.child_class))
    for _ in range(1 + min(MOST_TIES, ties)):
        colour, of_node = _refine(problem, cost, colour)
        values, first, count = np.unique(colour, return_index=True, return_counts=True)
        if len(values) == problem.class_count:
            return _sorted(problem, cost, colour, of_node)
        tie = np.flatnonzero(count > 1)[0]
        colour[first[tie]] = _mixed(colour[first[tie], None] + np.uint64(3))[0]
    return None


def choice_of_copy(copy: Form, original: Form, choice: Ints) -> Ints:
    """Return the choice of a copy that corresponds to a choice of the original."""
    place = np.empty(len(original.nodes), dtype=np.int64)
    place[original.nodes] = np.arange(len(original.nodes))
    known = choice[original.classes]  # (classes,) by place
    found = np.full(len(choice), -1, dtype=np.int64)
    chosen = known >= 0
    found[copy.classes[chosen]] = copy.nodes[place[known[chosen]]]
    return found


def _rounded(cost: Floats) -> Ints:
    mantissa, exponent = np.frexp(cost)
    keys = np.round(mantissa * (1 << _BITS)).astype(np.int64)
    return keys * 4096 + exponent


def _mixed(values: Colours) -> Colours:
    """Return hashes: the finalizer of MurmurHash3, which maps every bit to every bit."""
    values = values ^ (values >> np.uint64(33))
    values = values * np.uint64(0xFF51AFD7ED558CCD)
    values = values ^ (values >> np.uint64(33))
    values = values * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))


def _refine(problem: Problem, cost: Ints, colour: Colours) -> tuple[Colours, Colours]:
    """Refine the colours of classes until no more appear; return also those of e-nodes."""
    owner, user = problem.node_class, edge_nodes(problem)
    base = _mixed(cost.astype(np.uint64) + np.uint64(1))
    known = len(np.unique(colour))
    while True:
        of_node = base.copy()
        np.add.at(of_node, user, _mixed(colour[problem.child_class] + np.uint64(1)))
        of_node = _mixed(of_node)
        new = colour * np.uint64(31)
        np.add.at(new, owner, _mixed(of_node + np.uint64(1)))
        above = _mixed(of_node[user] + _mixed(colour[owner[user]] + np.uint64(2)))
        np.add.at(new, problem.child_class, above)
        new = _mixed(new)
        count = len(np.unique(new))
        if count <= known:
            return colour, of_node
        colour, known = new, count


def _sorted(problem: Problem, cost: Ints, colour: Colours, of_node: Colours) -> Form:
    classes = np.argsort(colour, kind="stable")
    place = np.empty(problem.class_count, dtype=np.int64)
    place[classes] = np.arange(problem.class_count)
    nodes = np.lexsort((of_node, place[problem.node_class]))
    rank = np.empty(len(nodes), dtype=np.int64)
    rank[nodes] = np.arange(len(nodes))
    user, child = rank[edge_nodes(problem)], place[problem.child_class]
    order = np.lexsort((child, user))
    arrays = (
        place[problem.node_class][nodes],
        cost[nodes],
        user[order],
        child[order],
        np.sort(place[problem.roots]),
    )
    sizes = np.array([len(array) for array in arrays])
    return Form(nodes, classes, b"".join(array.tobytes() for array in (sizes, *arrays)))
