"""The e-graph: a table of e-nodes kept closed under congruence.

Merging two classes can make rows equal: the same operator on what are now the same classes.
`EGraph.rebuild` makes the children canonical on the whole column, looks up again only the rows that
changed, and merges the classes of those that became equal, until nothing changes.
"""

from __future__ import annotations

import numpy as np

from tvm_tensat.egraph.columns import Bools, Ints, first_of_equals
from tvm_tensat.egraph.journal import CONGRUENCE, GIVEN, Journal
from tvm_tensat.egraph.language import Language
from tvm_tensat.egraph.table import FROM_INPUT, Table

__all__ = ["FROM_INPUT", "Bools", "EGraph", "Ints"]


class EGraph(Table):
    """E-classes of e-nodes over a `Language`.

    Attributes
    ----------
    journal : Journal
        Why classes were merged.
    """

    def __init__(self, language: Language) -> None:
        super().__init__(language)
        self.journal = Journal()
        self._merged = False  # since the last rebuild

    def union(self, left: Ints, right: Ints, reason: Ints | None = None) -> int:
        """Merge classes pairwise; call `rebuild` before the next batch. Returns merges made.

        Parameters
        ----------
        left, right : (merges,) int64
            Classes, or rows that stand for theirs.
        reason : (merges,) int64, optional
            For the journal; `GIVEN` by default.
        """
        self._flush()
        differ = np.flatnonzero(self.sets.parent[left] != self.sets.parent[right])
        left, right = left[differ], right[differ]
        unlike = self.class_type[left] != self.class_type[right]
        if unlike.any():
            at = int(np.flatnonzero(unlike)[0])
            raise ValueError(
                f"classes {left[at]} and {right[at]} have different types and cannot be merged"
            )
        because = np.full(len(left), GIVEN) if reason is None else reason[differ]
        self.journal.merging(left, right, because)
        made = self.sets.union(left, right)
        self._merged |= made > 0
        return made

    def rebuild(self) -> None:
        """Restore congruence: equal operators on equal classes are one e-node."""
        self._flush()
        if not self._merged:
            return
        self._merged = False
        while True:
            canonical = self.sets.parent[self.operands]
            moved = np.flatnonzero(canonical != self.operands)
            if not len(moved):
                break
            self.operands[moved] = canonical[moved]
            rows = self.operand_node[moved]
            rows = rows[np.flatnonzero(np.diff(rows, prepend=-1))]  # sorted: each once
            twin, kept = self._reindex(rows[self.node_alive[rows]])
            # Equal rows of which one is visible stay visible; the filter sees any new cycle.
            self.node_filtered[kept[~self.node_filtered[twin]]] = False
            self.node_alive[twin] = False
            self.journal.merging(twin, kept, np.full(len(twin), CONGRUENCE))
            self.sets.union(twin, kept)
        self._merge_class_columns()

    def _reindex(self, rows: Ints) -> tuple[Ints, Ints]:
        """Index rows whose children changed; return (rows to drop, older row each is equal to)."""
        self._index.remove(self._node_hash[rows])
        while True:
            self._node_hash[rows] = self._hash(rows)
            hashes, first, group = first_of_equals(self._node_hash[rows])
            present = self._index.find(hashes)
            first_row = rows[first]  # the oldest of each group, because rows are in order of birth
            known = present >= 0
            kept = np.where(known & (present < first_row), present, first_row)
            late = rows != kept[group]
            replaced = known & (present > first_row)
            twin = np.concatenate([rows[late], present[replaced]])
            equal = np.concatenate([kept[group[late]], kept[replaced]])
            if self._equal_rows(twin, equal):
                break
            self._rehash(without=rows)
        self._index.put(hashes, kept)
        return twin, equal

    def _equal_rows(self, left: Ints, right: Ints) -> bool:
        if not np.array_equal(self.node_operator[left], self.node_operator[right]):
            return False
        return np.array_equal(self.edges(left)[1], self.edges(right)[1])

    def _merge_class_columns(self) -> None:
        """Give each representative what any member of its class knows, and members the same."""
        parent = self.sets.parent
        member = np.flatnonzero(parent != np.arange(len(parent)))
        root = parent[member]
        np.maximum.at(self.class_scalar, root, self.class_scalar[member])
        self.class_scalar[member] = self.class_scalar[root]
        mixed = root[self.class_weight[member] != self.class_weight[root]]
        if len(mixed):
            self.class_weight[mixed] = True
            self._spread_weights()
            self.class_weight[member] = self.class_weight[root]
