"""Canonical patterns and their matches, as tables.

TENSAT's Algorithm 1 renames the variables of each source pattern in order of first occurrence
(`canonicalize`), so that sources which differ in names only are searched once, and renames the
matches back (`decanonicalize`). Here that holds for every sub-pattern of every rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_tensat.egraph.egraph import EGraph, Ints
from tvm_tensat.egraph.rule import Term


@dataclass(frozen=True)
class Pattern:
    """An operator over sub-patterns and variables 0, 1, ... in order of first occurrence."""

    name: str
    given: tuple[tuple[str, object], ...]  # attributes that must be equal
    children: tuple[int | Pattern, ...]

    @property
    def variable_count(self) -> int:
        """Number of distinct variables."""
        return 1 + max((_largest(child) for child in self.children), default=-1)


def _largest(child: int | Pattern) -> int:
    return child if isinstance(child, int) else child.variable_count - 1


def canonicalize(term: Term) -> tuple[Pattern, list[Term]]:
    """Rename a term's variables in order of first occurrence.

    Returns
    -------
    Pattern
    list of Term
        The variable that each number stands for: the map back.
    """
    order: list[Term] = []
    return _canonical(term, order), order


def _canonical(term: Term, order: list[Term]) -> Pattern:
    children: list[int | Pattern] = []
    for operand in term.operands:
        if not operand.is_variable:
            children.append(_canonical(operand, order))
            continue
        numbers = [k for k, known in enumerate(order) if known is operand]
        if not numbers:
            order.append(operand)
        children.append(numbers[0] if numbers else len(order) - 1)
    return Pattern(term.name, tuple(sorted(term.given.items())), tuple(children))


@dataclass(frozen=True)
class Matches:
    """Matches of a pattern, a row each.

    Attributes
    ----------
    root : (matches,) int64
        Class of the pattern's root.
    row : (matches,) int64
        E-node of the pattern's root.
    variables : (matches, variables) int64
        Class of each variable.
    operators : (matches, operator terms in preorder) int64
        Operator that each was matched to.
    """

    root: Ints
    row: Ints
    variables: Ints
    operators: Ints

    def __len__(self) -> int:
        return len(self.root)

    def take(self, some: Ints) -> Matches:
        """Select rows."""
        return Matches(self.root[some], self.row[some], self.variables[some], self.operators[some])


class JoinTooLarge(Exception):
    """A join would have more rows than allowed; `rows` says how many."""

    def __init__(self, rows: int) -> None:
        super().__init__(f"a join of {rows} rows")
        self.rows = rows


def join(left: Ints, right: Ints, limit: int) -> tuple[Ints, Ints]:
    """Find all pairs of equal keys.

    Parameters
    ----------
    left, right : (n,), (m,) int64
    limit : int
        Raise `JoinTooLarge` instead of expanding more pairs than this.

    Returns
    -------
    (pairs,), (pairs,) int64
        Positions in `left` and `right`, in order of `left`.
    """
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    begin = np.searchsorted(ordered, left, "left")
    count = np.searchsorted(ordered, left, "right") - begin
    total = int(count.sum())
    if total > limit:
        raise JoinTooLarge(total)
    at_left = np.repeat(np.arange(len(left)), count)
    offset = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    return at_left, order[begin[at_left] + offset]


class Matcher:
    """Searches one state of an e-graph; every pattern is searched once."""

    def __init__(self, graph: EGraph, join_limit: int) -> None:
        self.graph = graph
        self.join_limit = join_limit
        rows = graph.usable()
        order = np.argsort(graph.node_operator[rows], kind="stable")
        self._rows = rows[order]
        numbers, begin = np.unique(graph.node_operator[self._rows], return_index=True)
        end = np.append(begin[1:], len(rows))
        self._by_name: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
        for number, first, last in zip(numbers.tolist(), begin.tolist(), end.tolist(), strict=True):
            operator = graph.language.operator(number)
            key = operator.name, operator.arity
            self._by_name.setdefault(key, []).append((number, first, last))
        self._found: dict[Pattern, Matches] = {}

    def has(self, pattern: Pattern) -> bool:
        """Whether all operators of a pattern occur at all; cheap, to reject most rules."""
        if (pattern.name, len(pattern.children)) not in self._by_name:
            return False
        return all(self.has(child) for child in pattern.children if isinstance(child, Pattern))

    def search(self, pattern: Pattern) -> Matches:
        """Find all matches of a canonical pattern.

        Raises
        ------
        JoinTooLarge
        """
        found = self._found.get(pattern)
        if found is None:
            found = self._found[pattern] = self._search(pattern)
        return found

    def _search(self, pattern: Pattern) -> Matches:
        graph, arity = self.graph, len(pattern.children)
        rows = self._candidates(pattern)
        children = graph.children(rows, arity)
        table = Matches(
            graph.node_class[rows],
            rows,
            np.empty((len(rows), 0), np.int64),
            graph.node_operator[rows][:, None],
        )
        for position, child in enumerate(pattern.children):
            wanted = children[:, position]
            if isinstance(child, int):
                table, children = self._bind(table, children, child, wanted)
            else:
                table, children = self._descend(table, children, child, pattern, position)
        return table

    def _candidates(self, pattern: Pattern) -> Ints:
        spans = self._by_name.get((pattern.name, len(pattern.children)), [])
        language = self.graph.language
        some = [
            self._rows[first:last]
            for number, first, last in spans
            if all(language.operator(number)[key] == value for key, value in pattern.given)
        ]
        return np.concatenate(some) if some else np.empty(0, np.int64)

    @staticmethod
    def _bind(table: Matches, children: Ints, variable: int, wanted: Ints) -> tuple[Matches, Ints]:
        """Bind a variable to a child class, or keep the rows where it is bound to that class."""
        if variable == table.variables.shape[1]:
            variables = np.hstack([table.variables, wanted[:, None]])
            return Matches(table.root, table.row, variables, table.operators), children
        same = np.flatnonzero(table.variables[:, variable] == wanted)
        return table.take(same), children[same]

    def _descend(
        self, table: Matches, children: Ints, child: Pattern, parent: Pattern, position: int
    ) -> tuple[Matches, Ints]:
        """Join with the matches of a sub-pattern on the child class and the shared variables."""
        order: list[int] = []
        inner = self.search(_renumber(child, order))
        shared = [k for k, number in enumerate(order) if number < table.variables.shape[1]]
        fresh = [k for k in range(len(order)) if k not in shared]
        left, right = children[:, position], inner.root
        if shared:  # one shared variable narrows the join, the others filter it
            span = len(self.graph.class_type)
            left = left * span + table.variables[:, order[shared[0]]]
            right = right * span + inner.variables[:, shared[0]]
        at, inside = join(left, right, self.join_limit)
        for k in shared[1:]:
            same = table.variables[at, order[k]] == inner.variables[inside, k]
            at, inside = at[same], inside[same]
        joined = Matches(
            table.root[at],
            table.row[at],
            np.hstack([table.variables[at], inner.variables[inside][:, fresh]]),
            np.hstack([table.operators[at], inner.operators[inside]]),
        )
        return joined, children[at]


def _renumber(pattern: Pattern, order: list[int]) -> Pattern:
    """Canonicalize a sub-pattern; `order` receives the numbers its variables have outside."""
    children: list[int | Pattern] = []
    for child in pattern.children:
        if isinstance(child, Pattern):
            children.append(_renumber(child, order))
            continue
        if child not in order:
            order.append(child)
        children.append(order.index(child))
    return Pattern(pattern.name, pattern.given, tuple(children))
