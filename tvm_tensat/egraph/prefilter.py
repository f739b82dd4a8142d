"""Which rules can have a new match: a look at the whole table that spares most searches.

A pattern of one term needs an e-node of its kind; a larger one needs, for each of its edges, an
e-node of the parent's kind with an operand whose class holds an e-node of the child's kind. A match
is new only if one of its e-nodes changed. Both are asked of all rules at once, in sets of bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_tensat.egraph.columns import Bools, Hashes, Ints
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.pattern import Pattern

Kind = tuple[str, int]  # name and arity
PLACES = 16  # operands that edges are told apart by; those of later ones are taken together


class Changes:
    """Which e-nodes changed between two looks at an e-graph."""

    def __init__(self) -> None:
        self.operands: Ints = np.empty(0, np.int64)
        self.classes: Ints = np.empty(0, np.int64)
        self.profile: Ints = np.empty(0, np.int64)
        self.visible: Bools = np.empty(0, np.bool_)

    def since_last(self, graph: EGraph, profile: Ints) -> Bools:
        """Mark the e-nodes that could make new matches, (nodes,) bool.

        An e-node is changed when it is new or visible again, when its class or an operand was
        merged, or when more is known of an operand.
        """
        visible = graph.node_alive & ~graph.node_filtered
        rows, operands = len(self.visible), len(self.operands)
        changed = visible.copy()
        changed[:rows] &= ~self.visible
        changed[:rows] |= graph.node_class[:rows] != self.classes
        known = np.zeros(len(profile), np.bool_)
        known[:rows] = profile[:rows] != self.profile
        moved = known[graph.operands]
        moved[:operands] |= graph.operands[:operands] != self.operands
        changed[graph.operand_node[np.flatnonzero(moved)]] = True
        self.operands, self.classes = graph.operands.copy(), graph.node_class.copy()
        self.profile, self.visible = profile, visible
        return changed


class Prefilter:
    """What the patterns of all rules need, as tables."""

    def __init__(self, patterns: Sequence[Sequence[Pattern]]) -> None:
        """Take the patterns of each rule."""
        self.count = len(patterns)
        self._kinds: list[Kind] = []
        self._edges: list[tuple[Kind, int, Kind]] = []
        self._known: tuple[int, Ints, Ints] | None = None  # numbers, of so many kinds
        number: dict[object, int] = {}
        alone, single, edge, nested = [], [], [], []
        for rule, some in enumerate(patterns):
            for pattern in some:
                edges = edges_of(pattern)
                for each in edges:
                    if each not in number:
                        number[each] = len(self._edges)
                        self._edges.append(each)
                    nested.append(rule)
                    edge.append(number[each])
                if not edges:
                    kind = pattern.name, len(pattern.children)
                    if kind not in number:
                        number[kind] = len(self._kinds)
                        self._kinds.append(kind)
                    alone.append(rule)
                    single.append(number[kind])
        # What rule `need_rule[i]` needs is kind or edge `need[i]`, edges after kinds.
        self._rule = np.array(alone + nested, np.int64)
        self._need = np.array(single + [len(self._kinds) + k for k in edge], np.int64)

    def possible(self, graph: EGraph, changed: Bools) -> tuple[Bools, Bools]:
        """Return whether each rule can have a match, and whether it can have one that is new.

        Parameters
        ----------
        changed : (nodes,) bool
        """
        present, new = self._occur(graph, changed)
        missing = np.zeros(self.count, np.bool_)
        missing[self._rule[~present[self._need]]] = True
        fresh = np.zeros(self.count, np.bool_)
        fresh[self._rule[new[self._need]]] = True
        return ~missing, fresh & ~missing

    def _occur(self, graph: EGraph, changed: Bools) -> tuple[Bools, Bools]:
        """Whether each kind and each edge occurs, and whether it does so in a changed e-node."""
        rows = graph.usable()
        kind = graph.operators.kind[graph.node_operator[rows]]
        count = int(graph.operators.kind.max(initial=-1)) + 1
        some_kind, new_kind = np.zeros(count + 1, np.bool_), np.zeros(count + 1, np.bool_)
        some_kind[kind] = True
        new_kind[kind[changed[rows]]] = True
        wanted, edges = self._numbers(graph, count)
        known = (edges[:, 0] >= 0) & (edges[:, 2] >= 0)
        some_edge, new_edge = np.zeros(len(edges), np.bool_), np.zeros(len(edges), np.bool_)
        for word in range(count // 64 + 1):
            mine = np.flatnonzero(known & (edges[:, 2] // 64 == word))
            if len(mine):
                place = edges[mine, 0] * PLACES + edges[mine, 1]
                bit = (edges[mine, 2] % 64).astype(np.uint64)
                some, new = _below(graph, rows, kind, changed, word, count)
                some_edge[mine] = (some[place] >> bit) & np.uint64(1) == 1
                new_edge[mine] = (new[place] >> bit) & np.uint64(1) == 1
        return (
            np.concatenate([some_kind[wanted], some_edge]),
            np.concatenate([new_kind[wanted], new_edge]),
        )

    def _numbers(self, graph: EGraph, count: int) -> tuple[Ints, Ints]:
        """Return the kinds and the edges by number, -1 for a kind that was never met."""
        if self._known is None or self._known[0] != count:
            kind_of = graph.operators.kind_of
            kinds = np.array([kind_of(*each) for each in self._kinds], np.int64)
            edges = [
                (kind_of(*above), min(at, PLACES - 1), kind_of(*below))
                for above, at, below in self._edges
            ]
            self._known = count, kinds, np.array(edges, np.int64).reshape(-1, 3)
        return self._known[1:]


def edges_of(pattern: Pattern) -> list[tuple[Kind, int, Kind]]:
    """Return (kind, place of the operand, kind of the operand) of all edges of a pattern."""
    found = []
    for at, child in enumerate(pattern.children):
        if isinstance(child, Pattern):
            above, below = (pattern.name, len(pattern.children)), (child.name, len(child.children))
            found += [(above, at, below), *edges_of(child)]
    return found


def _below(
    graph: EGraph, rows: Ints, kind: Ints, changed: Bools, word: int, kinds: int
) -> tuple[Hashes, Hashes]:
    """Return which kinds of this word occur under each (kind, place): all, and on changed edges.

    An edge is changed when the e-node above or below it is.
    """
    here = np.flatnonzero(kind // 64 == word)
    bit = np.uint64(1) << (kind[here] % 64).astype(np.uint64)
    number, new_row = graph.node_class[rows[here]], changed[rows[here]]
    of_class = np.zeros(len(graph.class_type), np.uint64)
    np.bitwise_or.at(of_class, number, bit)
    new_of_class = np.zeros(len(graph.class_type), np.uint64)
    np.bitwise_or.at(new_of_class, number[new_row], bit[new_row])
    owner, child = graph.edges(rows)
    first = np.concatenate([[0], np.cumsum(graph.operator_arity[graph.node_operator[rows]])])
    at = np.arange(len(owner)) - first[owner]
    place = kind[owner] * PLACES + np.minimum(at, PLACES - 1)
    some, new = np.zeros(kinds * PLACES, np.uint64), np.zeros(kinds * PLACES, np.uint64)
    below = of_class[child]
    np.bitwise_or.at(some, place, below)
    np.bitwise_or.at(new, place, np.where(changed[rows][owner], below, new_of_class[child]))
    return some, new
