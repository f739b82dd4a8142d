"""Finding loop formulas and must rows that a fractional solution violates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from tvm_tensat.extraction.problem import Bools, Floats, Ints
from tvm_tensat.extraction.program import Rows, block
from tvm_tensat.extraction.strong import Structure, inner_edges

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


@dataclass(frozen=True)
class _Network:
    """Arcs between the classes of a component (numbered by place) and the sink behind them."""

    members: Ints  # (classes of the component,)
    node: Ints  # (arcs,) the e-node of each arc
    tail: Ints  # (arcs,)
    head: Ints  # (arcs,)
    capacity: npt.NDArray[np.int32]  # (arcs,)


class LoopSeparator:
    """Finds violated loop formulas by minimum cuts, component by component.

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
        self.components = np.flatnonzero(known.component_size > 1)

    def rows(self, x: Floats, y: Floats) -> Rows | None:
        """Return violated loop formulas, None where none was found."""
        found: list[tuple[int, Ints]] = []
        for component in self.components.tolist():
            found += self._in_component(np.flatnonzero(self.known.component == component), x, y)
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

    def _in_component(self, members: Ints, x: Floats, y: Floats) -> list[tuple[int, Ints]]:
        network = self._network(members, x)
        found: list[tuple[int, Ints]] = []
        for source in np.argsort(-y[members], kind="stable").tolist():
            wanted = float(y[members[source]])
            if wanted <= VIOLATION:
                break
            head = int(members[source])
            found += [(head, outward) for outward in self._cuts(network, source, wanted, x)]
        return found

    def _network(self, members: Ints, x: Floats) -> _Network:
        problem = self.known.problem
        place = np.full(problem.class_count, -1, dtype=np.int64)
        place[members] = np.arange(len(members))
        sink = len(members)
        place_of_node = place[problem.node_class]
        inside = place_of_node[self.edge_node] >= 0
        node, child = self.edge_node[inside], self.edge_child[inside]
        leaving = np.flatnonzero((place_of_node >= 0) & (self.inner_count == 0))
        share = np.concatenate([x[node] / self.inner_count[node], x[leaving]])
        node = np.concatenate([node, leaving])
        return _Network(
            members=members,
            node=node,
            tail=place_of_node[node],
            head=np.concatenate([place[child], np.full(len(leaving), sink)]),
            # The 1 makes every arc cost something: of equal cuts the one with the fewest arcs is
            # found, which is the strongest row ("creep flow" in Steiner tree codes).
            capacity=(share * _UNIT).astype(np.int32) + 1,
        )

    def _cuts(self, network: _Network, source: int, wanted: float, x: Floats) -> Iterator[Ints]:
        """Find a cut, close its arcs, and look for the next one behind it ("nested cuts")."""
        sink = len(network.members)
        capacity = network.capacity.copy()
        for _ in range(MOST_NESTED):
            arcs = csr_matrix((capacity, (network.tail, network.head)), shape=(sink + 1, sink + 1))
            flow = maximum_flow(arcs, source, sink)
            if flow.flow_value >= wanted * _UNIT:
                return
            residual = arcs - flow.flow
            residual.eliminate_zeros()
            loop = breadth_first_order(residual, source, return_predecessors=False)
            outward = self._outward(network.members[loop])
            if x[outward].sum() < wanted - VIOLATION:
                yield outward
            capacity[np.isin(network.node, outward)] = _UNIT

    def _outward(self, loop: Ints) -> Ints:
        """Return the e-nodes of classes in the loop that have no child in it."""
        problem = self.known.problem
        inside = np.zeros(problem.class_count, dtype=np.bool_)
        inside[loop] = True
        leads_back = np.zeros(len(problem.node_class), dtype=np.bool_)
        leads_back[self.edge_node[inside[self.edge_child]]] = True
        return np.flatnonzero(inside[problem.node_class] & ~leads_back)
