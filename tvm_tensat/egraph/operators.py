"""What the engine needs to know of each operator, as columns by operator number."""

from __future__ import annotations

import numpy as np

from tvm_tensat.egraph.columns import Bools, Ints, extended
from tvm_tensat.egraph.language import Language, Operator

NO_FIELD, TUPLE = -1, -2

Given = tuple[tuple[str, object], ...]


class OperatorTable:
    """Columns that grow as operators are met.

    Attributes
    ----------
    arity : (operators,) int64
    kind : (operators,) int64
        Equal for operators that differ in attributes only.
    scalar : (operators,) int64
        The operator itself where it is a constant of equal elements, else -1.
    field : (operators,) int64
        The field that the operator takes out of a tuple, `TUPLE` if it makes one, else `NO_FIELD`.
    foldable : (operators,) bool
        Whether it can be computed at compile time when its operands are weights.
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self.arity: Ints = np.empty(0, np.int64)
        self.kind: Ints = np.empty(0, np.int64)
        self.scalar: Ints = np.empty(0, np.int64)
        self.field: Ints = np.empty(0, np.int64)
        self.foldable: Bools = np.empty(0, np.bool_)
        self._kinds: dict[tuple[str, int], int] = {}
        self._given: dict[tuple[int, Given], Bools] = {}

    def learn(self, count: int) -> None:
        """Extend the columns to the first `count` operators of the language."""
        arity, kind, scalar, field, foldable = [], [], [], [], []
        for number in range(len(self.arity), count):
            described = self.language.operator(number)
            uniform = described.name == "scalar" or any(k == "splat" for k, _ in described.attrs)
            constant = described.name in ("weight", "scalar")
            arity.append(described.arity)
            key = described.name, described.arity
            kind.append(self._kinds.setdefault(key, len(self._kinds)))
            scalar.append(number if uniform else -1)
            field.append(_field(described))
            foldable.append(constant or self.language.is_foldable(number))
        if arity:
            self.arity = extended(self.arity, np.array(arity, np.int64))
            self.kind = extended(self.kind, np.array(kind, np.int64))
            self.scalar = extended(self.scalar, np.array(scalar, np.int64))
            self.field = extended(self.field, np.array(field, np.int64))
            self.foldable = extended(self.foldable, np.array(foldable, np.bool_))

    def kind_of(self, name: str, arity: int) -> int:
        """Return the kind of a name and arity, or -1 when no such operator was met."""
        return self._kinds.get((name, arity), -1)

    def having(self, kind: int, given: Given) -> Bools:
        """Mark the operators of a kind that have the given attributes, (operators,) bool."""
        mark = self._given.get((kind, given), np.empty(0, np.bool_))
        if len(mark) < len(self.arity):
            more = np.zeros(len(self.arity) - len(mark), np.bool_)
            for at in np.flatnonzero(self.kind[len(mark) :] == kind).tolist():
                operator = self.language.operator(len(mark) + at)
                more[at] = all(operator[attr] == value for attr, value in given)
            mark = self._given[kind, given] = np.concatenate([mark, more])
        return mark


def _field(operator: Operator) -> int:
    if operator.name == "tuple":
        return TUPLE
    index = operator["index"] if operator.name == "get" else NO_FIELD
    assert isinstance(index, int), "a field's index is a number"
    return index
