"""The table of e-nodes: columns, hash-consing, and what classes know.

A row is an e-node, and a class has the number of the row that it was made for:

    row  operator  start  rule  iteration      operands   0 1 | 2 | 1 0
     0   leaf x      0     -1       0          of row      2     3    4
     1   leaf y      0     -1       0
     2   add         0     -1       0          class      0  1  2  3  2
     3   neg         2     -1       0          of row     0  1  2  3  4
     4   add         3      5       0

Row 4 is y + x, made by rule 5 from row 2, and its class was merged with that of row 2.

Rows are numbered by birth. A row's children were classes of older rows when it was made, and
merging can only make the oldest row of a class older; so the oldest rows of all classes form an
acyclic graph, on which cycle filtering relies.

Hash-consing looks up 64-bit hashes of the rows; a hit is compared with the row it found, and a
collision changes the hash's seed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_tensat.egraph.columns import (
    Bools,
    Hashes,
    HashTable,
    Ints,
    extended,
    hash_lists,
    hash_rows,
)
from tvm_tensat.egraph.language import Language
from tvm_tensat.egraph.operators import OperatorTable
from tvm_tensat.egraph.unionfind import UnionFind

FROM_INPUT = -1  # node_rule of the rows that the reader added


class Table:
    """E-nodes over a `Language`, each once, and what is known of their classes.

    Attributes
    ----------
    node_operator, node_start, node_rule, node_iteration : (nodes,) int64
        `node_start` is where the row's children begin in `operands`; the rule is a number of the
        caller's, or `FROM_INPUT`.
    node_filtered : (nodes,) bool
        Rows that cycle filtering hides from matching and extraction.
    node_alive : (nodes,) bool
        False for rows that became equal to an older one.
    operands, born_operands : (sum of arities,) int64
        Child classes, now and at birth.
    operand_node : (sum of arities,) int64
        Row that each operand belongs to.
    class_type, class_scalar : (classes,) int64
        Type number; the number of an operator that is a constant of equal elements, or -1.
    class_weight : (classes,) bool
        Whether the class can be computed at compile time.
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self.operators = OperatorTable(language)
        self.sets = UnionFind()
        self.node_operator: Ints = np.empty(0, np.int64)
        self.node_start: Ints = np.empty(0, np.int64)
        self.node_rule: Ints = np.empty(0, np.int64)
        self.node_iteration: Ints = np.empty(0, np.int64)
        self.node_filtered: Bools = np.empty(0, np.bool_)
        self.node_alive: Bools = np.empty(0, np.bool_)
        self.operands: Ints = np.empty(0, np.int64)
        self.born_operands: Ints = np.empty(0, np.int64)
        self.operand_node: Ints = np.empty(0, np.int64)
        self.class_type: Ints = np.empty(0, np.int64)
        self.class_scalar: Ints = np.empty(0, np.int64)
        self.class_weight: Bools = np.empty(0, np.bool_)
        self._node_hash: Hashes = np.empty(0, np.uint64)
        self._seed = 0
        self._index = HashTable()  # from hashes to the alive rows
        # Rows added one by one by a reader, until the first batch operation.
        self._first: dict[tuple[int, tuple[int, ...]], int] = {}
        self._first_types: list[int] = []

    # -- reading -----------------------------------------------------------------------------

    @property
    def node_class(self) -> Ints:
        """Class of each row, (nodes,) int64."""
        self._flush()
        return self.sets.parent

    @property
    def operator_arity(self) -> Ints:
        """Number of operands by operator number, (operators,) int64."""
        return self.operators.arity

    @property
    def node_count(self) -> int:
        """Number of e-nodes, filtered ones included."""
        self._flush()
        return int(np.count_nonzero(self.node_alive))

    @property
    def class_count(self) -> int:
        """Number of e-classes."""
        self._flush()
        return self.sets.count

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
        row = self.sets.parent[np.array(children, np.int64)].reshape(1, -1)
        one = np.zeros(1, np.int64)
        made = self.add_batch(one + operator, row, one + type_number, one + FROM_INPUT, 0)
        return self.find(int(made[0]))

    def add_batch(
        self, operator: Ints, children: Ints, types: Ints, rule: Ints, iteration: int
    ) -> Ints:
        """Hash-cons rows and return the rows made or found.

        New rows are born in the order in which they first occur.

        Parameters
        ----------
        operator, types, rule : (rows,) int64
        children : (rows, width) int64
            Representatives; -1 after the last.
        iteration : int

        Returns
        -------
        (rows,) int64
        """
        self._flush()
        self.operators.learn(int(operator.max(initial=-1)) + 1)
        while True:
            hashes = hash_rows(operator, children, self._seed)
            row = self._index.find(hashes)
            absent = np.flatnonzero(row < 0)
            numbers, firsts = self._index.number(hashes[absent], len(self.node_operator))
            fresh = absent[firsts]
            leader = fresh[numbers - len(self.node_operator)]
            if (
                np.array_equal(operator[leader], operator[absent])
                and np.array_equal(children[leader], children[absent])
                and self._are(row, operator, children)
            ):
                break
            self._rehash()
        row[absent] = numbers
        below = children[fresh]
        is_child = below >= 0
        weight = (self.class_weight[below] | ~is_child).all(axis=1)
        weight &= self.operators.foldable[operator[fresh]]
        self._append(operator[fresh], below[is_child], types[fresh], rule[fresh], iteration, weight)
        self._node_hash = extended(self._node_hash, hashes[fresh])
        return row

    def lookup(self, operator: Ints, children: Ints) -> Ints:
        """Classes of rows that are already present, or -1; nothing is added.

        Parameters
        ----------
        operator : (rows,) int64
        children : (rows, width) int64
            Representatives; -1 after the last, and where one is absent, as then is the row.
        """
        self._flush()
        self.operators.learn(int(operator.max(initial=-1)) + 1)
        whole = np.flatnonzero((children >= 0).sum(axis=1) == self.operators.arity[operator])
        operator, children, found = operator[whole], children[whole], np.full(len(operator), -1)
        while True:
            row = self._index.find(hash_rows(operator, children, self._seed))
            if self._are(row, operator, children):
                found[whole] = np.where(row < 0, -1, self.sets.parent[row])
                return found
            self._rehash()

    def _are(self, row: Ints, operator: Ints, children: Ints) -> bool:
        """Whether the rows that were found, -1 aside, are these."""
        found = np.flatnonzero(row >= 0)
        row = row[found]
        if not np.array_equal(self.node_operator[row], operator[found]):
            return False
        place = np.arange(children.shape[1])
        inside = place < self.operators.arity[operator[found]][:, None]
        at = np.where(inside, self.node_start[row][:, None] + place, 0)
        return not (inside & (self.operands[at] != children[found])).any()

    def _append(
        self,
        operator: Ints,
        operands: Ints,
        types: Ints,
        rule: Ints,
        iteration: int,
        weight: Bools,
    ) -> None:
        """Append rows, each in a class of its own."""
        count = len(operator)
        row = len(self.node_operator) + np.arange(count)
        arity = self.operators.arity[operator]
        start = len(self.operands) + np.cumsum(arity) - arity
        self.node_operator = extended(self.node_operator, operator)
        self.node_start = extended(self.node_start, start)
        self.node_rule = extended(self.node_rule, rule)
        self.node_iteration = extended(self.node_iteration, np.full(count, iteration, np.int64))
        self.node_filtered = extended(self.node_filtered, np.zeros(count, np.bool_))
        self.node_alive = extended(self.node_alive, np.ones(count, np.bool_))
        self.operands = extended(self.operands, operands)
        self.born_operands = extended(self.born_operands, operands)
        self.operand_node = extended(self.operand_node, np.repeat(row, arity))
        self.class_type = extended(self.class_type, types)
        self.class_scalar = extended(self.class_scalar, self.operators.scalar[operator])
        self.class_weight = extended(self.class_weight, weight)
        self.sets.grow(len(self.class_type))

    def _flush(self) -> None:
        """Move the rows that were added one by one into the columns."""
        if not self._first:
            return
        rows, types = list(self._first), self._first_types
        self._first, self._first_types = {}, []
        operator = np.array([operator for operator, _ in rows], np.int64)
        self.operators.learn(int(operator.max()) + 1)
        self._append(
            operator,
            np.array([child for _, children in rows for child in children], np.int64),
            np.array(types, np.int64),
            np.full(len(rows), FROM_INPUT, np.int64),
            0,
            np.zeros(len(rows), np.bool_),
        )
        self._node_hash = np.zeros(len(rows), np.uint64)
        self._rehash()
        self._spread_weights()

    def _hash(self, rows: Ints) -> Hashes:
        """Hash rows of any arity."""
        operator = self.node_operator[rows]
        return hash_lists(operator, self.edges(rows)[1], self.operator_arity[operator], self._seed)

    def _rehash(self, without: Ints | None = None) -> None:
        """Index all alive rows but those given under a seed by which no two of them collide."""
        inside = self.node_alive.copy()
        if without is not None:
            inside[without] = False
        rows = np.flatnonzero(inside)
        while True:
            self._seed += 1
            self._node_hash[rows] = self._hash(rows)
            self._index.clear()
            _, firsts = self._index.number(self._node_hash[rows], 0)
            if len(firsts) == len(rows):
                self._index.put(self._node_hash[rows], rows)
                return

    def _spread_weights(self) -> None:
        """Mark the classes with a foldable e-node of weights, until nothing changes."""
        rows = np.flatnonzero(self.node_alive)
        rows = rows[self.operators.foldable[self.node_operator[rows]]]
        while True:
            rows = rows[~self.class_weight[self.node_class[rows]]]
            owner, child = self.edges(rows)
            unknown = np.bincount(owner[~self.class_weight[child]], minlength=len(rows))
            known = rows[unknown == 0]
            if not len(known):
                return
            self.class_weight[self.node_class[known]] = True
