"""The e-graph as columns.

A row is an e-node: (operator, child classes, class, the rule and iteration that made it,
filtered?). Rows are numbered by birth, so a row's children were classes of older rows when it was
made: the oldest rows of all classes form an acyclic graph, on which cycle filtering relies.

Hash-consing is a binary search in the sorted 64-bit hashes of the rows; a hit is compared with the
row it found, and a collision changes the hash's seed. Congruence recanonicalizes whole columns,
sorts and merges neighbours, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tvm_tensat.egraph.language import Language
from tvm_tensat.egraph.unionfind import UnionFind

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Hashes = NDArray[np.uint64]

FROM_INPUT = -1  # node_rule of the rows that the reader added


def hash_rows(operator: Ints, children: Ints, seed: int = 0) -> Hashes:
    """Hash rows of one arity.

    Parameters
    ----------
    operator : (rows,) int64
    children : (rows, arity) int64
    seed : int
        Changed when two different rows collide.
    """
    multiplier = np.uint64(0x9E3779B97F4A7C15)
    value = (operator.astype(np.uint64) + np.uint64(2 * seed + 1)) * multiplier
    for column in children.T:
        value ^= value >> np.uint64(29)
        value = (value + column.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    return value ^ (value >> np.uint64(32))


class EGraph:
    """E-classes of e-nodes over a `Language`.

    Attributes
    ----------
    node_operator, node_class, node_start, node_rule, node_iteration : (nodes,) int64
        `node_start` is where the row's children begin in `operands`; the rule is a number of the
        caller's, or `FROM_INPUT`.
    node_filtered : (nodes,) bool
        Rows that cycle filtering hides from matching and extraction.
    node_alive : (nodes,) bool
        False for rows that became equal to an older one.
    operands : (sum of arities,) int64
        Child classes.
    class_type, class_scalar : (classes,) int64
        Type number; the number of an operator that is a constant of equal elements, or -1.
    class_weight : (classes,) bool
        Whether the class can be computed at compile time.
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self.sets = UnionFind()
        empty = np.empty(0, np.int64)
        self.node_operator, self.node_class, self.node_start = empty, empty, empty
        self.node_rule, self.node_iteration, self.operands = empty, empty, empty
        self.node_filtered = np.empty(0, np.bool_)
        self.node_alive = np.empty(0, np.bool_)
        self.class_type, self.class_scalar = empty, empty
        self.class_weight = np.empty(0, np.bool_)
        self.operator_arity: Ints = empty  # (operators,)
        self._operator_scalar: Ints = empty  # the operator itself where it is a scalar, else -1
        self._operator_foldable = np.empty(0, np.bool_)
        self._seed = 0
        self._index_hash: Hashes = np.empty(0, np.uint64)  # sorted
        self._index_node: Ints = empty
        # Rows added one by one by a reader, until the first batch operation.
        self._first: dict[tuple[int, tuple[int, ...]], int] = {}
        self._first_types: list[int] = []

    # -- reading -----------------------------------------------------------------------------

    @property
    def node_count(self) -> int:
        """Number of e-nodes, filtered ones included."""
        self._flush()
        return int(np.count_nonzero(self.node_alive))

    @property
    def class_count(self) -> int:
        """Number of e-classes."""
        self._flush()
        return int(np.count_nonzero(self.sets.parent == np.arange(len(self.sets.parent))))

    def find(self, number: int) -> int:
        """Return the representative of a class."""
        if self._first:
            return number
        return int(self.sets.parent[number])

    def usable(self) -> Ints:
        """Rows that matching and extraction see: alive and not filtered."""
        self._flush()
        return np.flatnonzero(self.node_alive & ~self.node_filtered)

    def children(self, rows: Ints, arity: int) -> Ints:
        """Child classes of rows that all have this arity, (rows, arity) int64."""
        return self.operands[self.node_start[rows][:, None] + np.arange(arity)]

    def edges(self, rows: Ints) -> tuple[Ints, Ints]:
        """All (position in `rows`, child class) pairs of these rows, in row order."""
        arity = self.operator_arity[self.node_operator[rows]]
        owner = np.repeat(np.arange(len(rows)), arity)
        offset = np.arange(len(owner)) - np.repeat(np.cumsum(arity) - arity, arity)
        return owner, self.operands[self.node_start[rows][owner] + offset]

    # -- adding ------------------------------------------------------------------------------

    def add(self, operator: int, children: Sequence[int], type_number: int) -> int:
        """Add one e-node of the input and return its class; an equal one is found again."""
        if self._first or not len(self.node_operator):
            key = (operator, tuple(children))
            number = self._first.get(key)
            if number is None:
                number = self._first[key] = len(self._first_types)
                self._first_types.append(type_number)
            return number
        batch = np.array([operator], np.int64), np.array([children], np.int64).reshape(1, -1)
        one = np.zeros(1, np.int64)
        return int(self.add_batch(*batch, one + type_number, one + FROM_INPUT, 0)[0])

    def add_batch(
        self, operator: Ints, children: Ints, types: Ints, rule: Ints, iteration: int
    ) -> Ints:
        """Hash-cons rows of one arity and return their classes.

        Parameters
        ----------
        operator, types, rule : (rows,) int64
        children : (rows, arity) int64
            Representatives.
        iteration : int

        Returns
        -------
        (rows,) int64
        """
        self._flush()
        row_hash = hash_rows(operator, children, self._seed)
        unique, first, inverse = np.unique(row_hash, return_index=True, return_inverse=True)
        slot = np.searchsorted(self._index_hash, unique)
        inside = np.minimum(slot, max(len(self._index_hash) - 1, 0))
        known = np.zeros(len(unique), np.bool_)
        if len(self._index_hash):
            known = self._index_hash[inside] == unique
        new = ~known
        row = np.empty(len(unique), np.int64)
        row[known] = self._index_node[inside[known]]
        fresh = first[new]
        row[new] = len(self.node_operator) + np.arange(len(fresh))
        arity = np.full(len(fresh), children.shape[1], np.int64)
        operands = children[fresh]
        weight = self.class_weight[operands].all(axis=1)
        self._append(operator[fresh], arity, operands.ravel(), types[fresh], rule[fresh], iteration)
        if len(fresh):
            self.class_weight[-len(fresh) :] = weight & self._operator_foldable[operator[fresh]]
        self._index_hash = np.insert(self._index_hash, slot[new], unique[new])
        self._index_node = np.insert(self._index_node, slot[new], row[new])
        found = row[inverse]
        same = self.node_operator[found] == operator
        if children.shape[1] and same.all():
            same &= (self.children(found, children.shape[1]) == children).all(axis=1)
        if not same.all():
            raise HashCollision("two e-nodes share a 64-bit hash; explore again with another seed")
        return self.sets.parent[self.node_class[found]]

    def _append(
        self,
        operator: Ints,
        arity: Ints,
        operands: Ints,
        types: Ints,
        rule: Ints,
        iteration: int,
    ) -> None:
        """Append rows, each in a class of its own that is not yet known to be a weight."""
        count = len(operator)
        self._learn_operators(operator)
        start = len(self.operands) + np.cumsum(arity) - arity
        classes = len(self.class_type) + np.arange(count)
        self.node_operator = np.concatenate([self.node_operator, operator])
        self.node_class = np.concatenate([self.node_class, classes])
        self.node_start = np.concatenate([self.node_start, start])
        self.node_rule = np.concatenate([self.node_rule, rule])
        self.node_iteration = np.concatenate(
            [self.node_iteration, np.full(count, iteration, np.int64)]
        )
        self.node_filtered = np.concatenate([self.node_filtered, np.zeros(count, np.bool_)])
        self.node_alive = np.concatenate([self.node_alive, np.ones(count, np.bool_)])
        self.operands = np.concatenate([self.operands, operands])
        self.class_type = np.concatenate([self.class_type, types])
        self.class_scalar = np.concatenate([self.class_scalar, self._operator_scalar[operator]])
        self.class_weight = np.concatenate([self.class_weight, np.zeros(count, np.bool_)])
        self.sets.grow(len(self.class_type))

    def _learn_operators(self, operator: Ints) -> None:
        """Extend the per-operator columns to the largest number seen."""
        have = len(self.operator_arity)
        need = int(operator.max(initial=-1)) + 1
        if need <= have:
            return
        arity, scalar, foldable = [], [], []
        for number in range(have, need):
            described = self.language.operator(number)
            arity.append(described.arity)
            uniform = described.name == "scalar" or any(k == "splat" for k, _ in described.attrs)
            scalar.append(number if uniform else -1)
            foldable.append(
                described.name in ("weight", "scalar") or self.language.is_foldable(number)
            )
        self.operator_arity = np.append(self.operator_arity, np.array(arity, np.int64))
        self._operator_scalar = np.append(self._operator_scalar, np.array(scalar, np.int64))
        self._operator_foldable = np.append(self._operator_foldable, np.array(foldable, np.bool_))

    def _flush(self) -> None:
        """Move the rows that were added one by one into the columns."""
        if not self._first:
            return
        rows, types = list(self._first), self._first_types
        self._first, self._first_types = {}, []
        self._append(
            np.array([operator for operator, _ in rows], np.int64),
            np.array([len(children) for _, children in rows], np.int64),
            np.array([child for _, children in rows for child in children], np.int64),
            np.array(types, np.int64),
            np.full(len(rows), FROM_INPUT, np.int64),
            0,
        )
        self._reindex()
        self._merge_class_columns()

    # -- congruence --------------------------------------------------------------------------

    def union(self, left: Ints, right: Ints) -> int:
        """Merge classes pairwise; call `rebuild` before the next batch. Returns merges made."""
        self._flush()
        differ = self.class_type[left] != self.class_type[right]
        if differ.any():
            at = int(np.flatnonzero(differ)[0])
            raise ValueError(
                f"classes {left[at]} and {right[at]} have different types and cannot be merged"
            )
        return self.sets.union(left, right)

    def rebuild(self) -> None:
        """Restore congruence: equal operators on equal classes are one e-node."""
        self._flush()
        while True:
            parent = self.sets.parent
            self.operands = parent[self.operands]
            self.node_class = parent[self.node_class]
            twin, kept = self._reindex()
            if not len(twin):
                break
            # Equal rows of which one is visible stay visible; the filter sees any new cycle.
            self.node_filtered[kept[~self.node_filtered[twin]]] = False
            self.node_alive[twin] = False
            self.sets.union(self.node_class[twin], self.node_class[kept])
        self._merge_class_columns()

    def _reindex(self) -> tuple[Ints, Ints]:
        """Sort the alive rows by hash; return (rows to drop, older row each is equal to)."""
        while True:
            rows = np.flatnonzero(self.node_alive)
            row_hash = np.empty(len(rows), np.uint64)
            arity = self.operator_arity[self.node_operator[rows]]
            for count in np.unique(arity):
                of_count = np.flatnonzero(arity == count)
                some = rows[of_count]
                row_hash[of_count] = hash_rows(
                    self.node_operator[some], self.children(some, int(count)), self._seed
                )
            order = np.argsort(row_hash, kind="stable")  # stable: the oldest row of equals first
            sorted_hash, sorted_rows = row_hash[order], rows[order]
            first = np.ones(len(rows), np.bool_)
            first[1:] = sorted_hash[1:] != sorted_hash[:-1]
            leader = sorted_rows[np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))]
            twin, kept = sorted_rows[~first], leader[~first]
            if self._equal_rows(twin, kept):
                self._index_hash, self._index_node = sorted_hash[first], sorted_rows[first]
                return twin, kept
            self._seed += 1

    def _equal_rows(self, left: Ints, right: Ints) -> bool:
        if not np.array_equal(self.node_operator[left], self.node_operator[right]):
            return False
        return np.array_equal(self.edges(left)[1], self.edges(right)[1])

    def _merge_class_columns(self) -> None:
        """Give each representative what any member of its class knows."""
        parent = self.sets.parent
        np.maximum.at(self.class_scalar, parent, self.class_scalar)
        self.class_scalar = self.class_scalar[parent]
        rows = np.flatnonzero(self.node_alive)
        owner, child = self.edges(rows)
        foldable = self._operator_foldable[self.node_operator[rows]]
        weight = self.class_weight
        np.logical_or.at(weight, parent, weight.copy())
        while True:
            weight = weight[parent]
            heavy = np.bincount(owner, weights=~weight[child], minlength=len(rows)) == 0
            known = np.flatnonzero(foldable & heavy)
            gained = self.node_class[known]
            if weight[gained].all():
                break
            weight[gained] = True
        self.class_weight = weight


class HashCollision(RuntimeError):
    """Two different e-nodes have the same 64-bit hash."""
