"""Finding loop formulas and must rows that a fractional solution violates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

from tvm_tensat.extraction.problem import Bools, Floats, Ints
from tvm_tensat.extraction.program import Rows, block
from tvm_tensat.extraction.strong import Structure, group_rows, inner_edges

# A row is worth adding when it is violated by this much.
VIOLATION = 1e-3

# maximum_flow works on integers.
_UNIT = 1_000_000

# Rows found for one class in one round. On vgg the relaxation's bound needs a tenth of the rounds
# that it needs with one row (and without creep flow it hardly moves at all).
MOST_NESTED = 20


def violated_groups(known: Structure, x: Floats, y: Floats) -> Bools:
    """Return which must rows (`tvm_tensat.extraction.strong`) a fractional solution violates."""
    left = np.bincount(
        known.entry_group, weights=x[known.entry_node], minlength=len(known.group_child)
    )
    return left - y[known.group_child] > VIOLATION


def reaches(arcs: list[dict[int, float]], source: int, sink: int, wanted: float) -> bool:
    """Return whether so much can flow from source to sink.

    Augmenting paths on the few arcs with a capacity. In most cases the answer is yes, ten times
    faster than by a call of `maximum_flow`.
    """
    residual: dict[int, dict[int, float]] = {}
    while wanted > 0:
        above = {source: source}
        queue = [source]
        for vertex in queue:
            for head, left in residual.get(vertex, arcs[vertex]).items():
                if left > 1e-9 and head not in above:
                    above[head] = vertex
                    queue.append(head)
            if sink in above:
                break
        else:
            return False
        path = [sink]
        while path[-1] != source:
            path.append(above[path[-1]])
        for vertex in path:
            if vertex not in residual:
                residual[vertex] = dict(arcs[vertex])
        steps = list(zip(path[1:], path[:-1], strict=True))
        amount = min(residual[tail][head] for tail, head in steps)
        for tail, head in steps:
            residual[tail][head] -= amount
            residual[head][tail] = residual[head].get(tail, 0.0) + amount
        wanted -= amount
    return True


class _Network:
    """The classes of one component as vertices 0, 1, ..., and a sink behind them.

    The matrix of capacities is built once, with an entry for each arc and its reverse, and refilled
    in place: building sparse matrices took five times as long as the flows.
    """

    def __init__(self, members: Ints, node: Ints, tail: Ints, head: Ints, share: Floats) -> None:
        self.members = members  # (vertices,) class of each vertex
        self.node = node  # (arcs,) e-node of each arc
        self.tail = tail.tolist()
        self.head = head.tolist()
        self.share = share  # (arcs,) the part of x_n that is the arc's capacity
        size = len(members) + 1
        self.sink = size - 1
        pairs = np.unique(np.concatenate([tail * size + head, head * size + tail]))
        self.entry = np.searchsorted(pairs, tail * size + head)  # (arcs,) matrix entry of each arc
        self.matrix = csr_matrix(
            (np.zeros(len(pairs), dtype=np.int32), (pairs // size, pairs % size)),
            shape=(size, size),
        )
        self.starts = self.matrix.indptr.tolist()
        self.heads = self.matrix.indices.tolist()

    def fill(self, capacity: Floats) -> None:
        """Set the capacities of the arcs.

        The 1 makes every arc cost something: of equal cuts the one with the fewest arcs is found,
        which is the strongest row ("creep flow" in Steiner tree codes).
        """
        total = np.bincount(self.entry, weights=capacity, minlength=len(self.matrix.data))
        creep = np.bincount(self.entry, minlength=len(self.matrix.data))
        self.matrix.data[:] = (total * _UNIT).astype(np.int32) + creep

    def support(self, capacity: Floats) -> list[dict[int, float]]:
        """Return the arcs that have a capacity, as a dictionary from head to capacity a vertex."""
        arcs: list[dict[int, float]] = [{} for _ in range(self.sink + 1)]
        for arc in np.flatnonzero(capacity > 1e-7).tolist():
            out, head = arcs[self.tail[arc]], self.head[arc]
            out[head] = out.get(head, 0.0) + float(capacity[arc])
        return arcs

    def cut(self, source: int, wanted: float) -> list[int] | None:
        """Return the vertices on the source's side of a minimum cut, None if it is no less."""
        flow = maximum_flow(self.matrix, source, self.sink)
        if flow.flow_value >= wanted * _UNIT:
            return None
        left = (self.matrix.data - flow.flow.data > 0).tolist()
        seen = {source}
        side = [source]
        for vertex in side:
            for entry in range(self.starts[vertex], self.starts[vertex + 1]):
                if left[entry] and self.heads[entry] not in seen:
                    seen.add(self.heads[entry])
                    side.append(self.heads[entry])
        return side


class Separator:
    """Finds violated must rows, and loop formulas by minimum cuts, component by component.

    For a class c the set L that contains c and minimizes the right-hand side of its loop formula
    is wanted. If every e-node had at most one child in the component, that would be a minimum cut
    between c and a sink: an arc from the e-node's class to its child (or to the sink without one)
    with capacity x_n, cut when the class is in L and the child is not. An e-node with k children
    gives arcs of x_n / k instead: their cut is an upper bound on its part of the right-hand side,
    so that what is found is checked against the formula itself and never wrong, but violated
    formulas can be missed.
    """

    def __init__(self, known: Structure) -> None:
        self.known = known
        problem = known.problem
        self.edge_node, self.edge_child = inner_edges(known)
        self.inner_count = np.bincount(self.edge_node, minlength=len(problem.node_class))
        self.networks = [
            self._network(np.flatnonzero(known.component == component))
            for component in np.flatnonzero(known.component_size > 1).tolist()
        ]

    def cuts(self, values: Floats) -> list[Rows]:
        """Return rows that the values of a relaxation's variables (x, y) violate."""
        nodes = len(self.known.problem.node_class)
        x = np.clip(values[:nodes], 0, 1)
        y = values[nodes : nodes + self.known.problem.class_count]
        wanted = violated_groups(self.known, x, y)
        found = [group_rows(self.known, wanted)] if wanted.any() else []
        loops = self._loops(x, y)
        return found if loops is None else [*found, loops]

    def _loops(self, x: Floats, y: Floats) -> Rows | None:
        """Return violated loop formulas, None where none was found."""
        found: list[tuple[int, Ints]] = []
        for network in self.networks:
            found += self._in_component(network, x, y)
        if not found:
            return None
        nodes = len(self.known.problem.node_class)
        count = np.array([len(outward) for _, outward in found])
        number = np.arange(len(found))
        heads = np.array([head for head, _ in found])
        return block(
            np.concatenate([np.repeat(number, count), number]),
            np.concatenate([*(outward for _, outward in found), nodes + heads]),
            np.concatenate([-np.ones(int(count.sum())), np.ones(len(found))]),
            "<",
            np.zeros(len(found)),
        )

    def _network(self, members: Ints) -> _Network:
        problem = self.known.problem
        place = np.full(problem.class_count, -1, dtype=np.int64)
        place[members] = np.arange(len(members))
        vertex = place[problem.node_class]  # (nodes,)
        inside = vertex[self.edge_node] >= 0
        node, child = self.edge_node[inside], self.edge_child[inside]
        leaving = np.flatnonzero((vertex >= 0) & (self.inner_count == 0))
        return _Network(
            members=members,
            node=np.concatenate([node, leaving]),
            tail=vertex[np.concatenate([node, leaving])],
            head=np.concatenate([place[child], np.full(len(leaving), len(members))]),
            share=np.concatenate([1 / self.inner_count[node], np.ones(len(leaving))]),
        )

    def _in_component(self, network: _Network, x: Floats, y: Floats) -> list[tuple[int, Ints]]:
        found: list[tuple[int, Ints]] = []
        weight = y[network.members]
        support = network.support(x[network.node] * network.share)
        for source in np.argsort(-weight, kind="stable").tolist():
            wanted = float(weight[source])
            if wanted <= VIOLATION:
                break
            if reaches(support, source, network.sink, wanted - VIOLATION):
                continue
            head = int(network.members[source])
            found += [(head, outward) for outward in self._cuts(network, source, wanted, x)]
        return found

    def _cuts(self, network: _Network, source: int, wanted: float, x: Floats) -> Iterator[Ints]:
        """Find a cut, close its arcs, and look for the next one behind it ("nested cuts")."""
        capacity = x[network.node] * network.share
        for _ in range(MOST_NESTED):
            network.fill(capacity)
            side = network.cut(source, wanted)
            if side is None:
                return
            outward = self._outward(network.members[side])
            if x[outward].sum() < wanted - VIOLATION:
                yield outward
            capacity[np.isin(network.node, outward)] = 1.0

    def _outward(self, loop: Ints) -> Ints:
        """Return the e-nodes of classes in the loop that have no child in it."""
        problem = self.known.problem
        inside = np.zeros(problem.class_count, dtype=np.bool_)
        inside[loop] = True
        leads_back = np.zeros(len(problem.node_class), dtype=np.bool_)
        leads_back[self.edge_node[inside[self.edge_child]]] = True
        return np.flatnonzero(inside[problem.node_class] & ~leads_back)
