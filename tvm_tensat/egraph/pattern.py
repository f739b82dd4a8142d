"""Canonical patterns and their matches, as tables.

TENSAT's Algorithm 1 renames the variables of each source pattern in order of first occurrence
(`canonicalize`), so that sources which differ in names only are searched once, and renames the
matches back (`decanonicalize`). Here that holds for every sub-pattern of every rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tvm_tensat.egraph.columns import Ints
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.rule import Term


@dataclass(frozen=True)
class Pattern:
    """An operator over sub-patterns and variables 0, 1, ... in order of first occurrence."""

    name: str
    given: tuple[tuple[str, object], ...]  # attributes that must be equal
    children: tuple[int | Pattern, ...]

    @cached_property
    def inner(self) -> tuple[tuple[Pattern, tuple[int, ...]] | None, ...]:
        """For each child, None where it is a variable, else its canonical pattern and map back."""
        found: list[tuple[Pattern, tuple[int, ...]] | None] = []
        for child in self.children:
            order: list[int] = []
            canonical = None if isinstance(child, int) else _renumber(child, order)
            found.append(None if canonical is None else (canonical, tuple(order)))
        return tuple(found)

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.given, self.children))

    def __hash__(self) -> int:
        return self._hash


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
    rows : (matches, operator terms in preorder) int64
        E-node that each operator term was matched to, the root's first.
    variables : (matches, variables) int64
        Class of each variable.
    """

    root: Ints
    rows: Ints
    variables: Ints

    def __len__(self) -> int:
        return len(self.root)

    @cached_property
    def by_root(self) -> tuple[Ints, Ints]:
        """Matches sorted by root, and where those of each class begin, (classes + 1,) int64."""
        begin = np.cumsum(np.bincount(self.root + 1, minlength=1))
        return np.argsort(self.root, kind="stable"), begin

    def take(self, some: Ints) -> Matches:
        """Select rows."""
        return Matches(self.root[some], self.rows[some], self.variables[some])


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
    return expand(np.arange(len(left)), begin, count, order, limit)


def expand(at: Ints, begin: Ints, count: Ints, order: Ints, limit: int) -> tuple[Ints, Ints]:
    """Pair ``at[i]`` with each of the `count[i]` entries of `order` from ``begin[i]`` on.

    Raises
    ------
    JoinTooLarge
    """
    total = int(count.sum())
    if total > limit:
        raise JoinTooLarge(total)
    position = np.repeat(begin - (np.cumsum(count) - count), count)
    position += np.arange(total)
    return np.repeat(at, count), order[position]


class Matcher:
    """Searches one state of an e-graph; every pattern is searched once."""

    def __init__(self, graph: EGraph, join_limit: int) -> None:
        self.graph = graph
        self.join_limit = join_limit
        rows = graph.usable()
        kind = graph.operators.kind[graph.node_operator[rows]]
        narrow = kind.astype(np.int16) if kind.max(initial=0) < 2**15 else kind  # radix sort
        self._rows = rows[np.argsort(narrow, kind="stable")]
        count = np.bincount(kind)
        end = np.cumsum(count)
        self._span = list(zip((end - count).tolist(), end.tolist(), strict=True))
        self._found: dict[Pattern, Matches] = {}

    def _span_of(self, kind: int) -> tuple[int, int]:
        return self._span[kind] if 0 <= kind < len(self._span) else (0, 0)

    def search(self, pattern: Pattern) -> Matches:
        """Find all matches of a canonical pattern, in order of the birth of their roots.

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
        kind = graph.operators.kind_of(pattern.name, arity)
        first, last = self._span_of(kind)
        rows = self._rows[first:last]
        if pattern.given:
            rows = rows[graph.operators.having(kind, pattern.given)[graph.node_operator[rows]]]
        children = graph.children(rows, arity)
        if pattern.children == tuple(range(arity)):  # all distinct variables
            return Matches(graph.node_class[rows], rows[:, None], children)
        none = np.empty((len(rows), 0), np.int64)
        table = Matches(graph.node_class[rows], rows[:, None], none)
        for position, child in enumerate(pattern.children):
            if not len(table):  # the columns must still be as many as the pattern's
                return _no_matches(pattern)
            if isinstance(child, int):
                table, children = self._bind(table, children, child, position)
            else:
                table, children = self._descend(table, children, pattern, position)
        return table

    @staticmethod
    def _bind(table: Matches, children: Ints, variable: int, at: int) -> tuple[Matches, Ints]:
        """Bind a variable to a child class, or keep the rows where it is bound to that class."""
        wanted = children[:, at]
        if variable == table.variables.shape[1]:
            variables = np.column_stack([table.variables, wanted])
            return Matches(table.root, table.rows, variables), children
        same = np.flatnonzero(table.variables[:, variable] == wanted)
        return table.take(same), children[same]

    def _descend(
        self, table: Matches, children: Ints, pattern: Pattern, position: int
    ) -> tuple[Matches, Ints]:
        """Join with the matches of a sub-pattern on the child class and the shared variables."""
        sub = pattern.inner[position]
        assert sub is not None, "only sub-patterns are descended into"
        canonical, order = sub
        inner = self.search(canonical)
        if not len(inner):
            return _no_matches(pattern), children[:0]
        bound = table.variables.shape[1]
        shared = [k for k, number in enumerate(order) if number < bound]
        fresh = [k for k in range(len(order)) if k not in shared]
        wanted = children[:, position]
        if shared:  # one shared variable narrows the join, the others filter it
            span = len(self.graph.class_type)
            left = wanted * span + table.variables[:, order[shared[0]]]
            right = inner.root * span + inner.variables[:, shared[0]]
            at, inside = join(left, right, self.join_limit)
        else:
            at, inside = self._join_class(wanted, inner)
        if not len(at):
            return _no_matches(pattern), children[:0]
        for k in shared[1:]:
            same = table.variables[at, order[k]] == inner.variables[inside, k]
            at, inside = at[same], inside[same]
        joined = Matches(
            table.root[at],
            np.concatenate([table.rows[at], inner.rows[inside]], axis=1),
            _beside(table.variables[at], inner.variables[inside], fresh),
        )
        return joined, children[at]

    def _join_class(self, wanted: Ints, inner: Matches) -> tuple[Ints, Ints]:
        """Find all pairs of a child class and a match with that root."""
        order, begin = inner.by_root
        inside = wanted < len(begin) - 1
        at = np.flatnonzero(inside)
        first = begin[wanted[at]]
        count = begin[wanted[at] + 1] - first
        return expand(at, first, count, order, self.join_limit)


def _beside(left: Ints, right: Ints, columns: list[int]) -> Ints:
    """Put some columns of one matrix beside another."""
    if len(columns) < right.shape[1]:
        right = right[:, columns]
    return np.concatenate([left, right], axis=1)


def _no_matches(pattern: Pattern) -> Matches:
    """Return a table of no rows with the pattern's columns."""
    variables, terms = _width(pattern)
    return Matches(
        np.empty(0, np.int64), np.empty((0, terms), np.int64), np.empty((0, variables), np.int64)
    )


def _width(pattern: Pattern) -> tuple[int, int]:
    """Numbers of variables and of operator terms of a pattern."""
    variables, terms = 0, 1
    for child in pattern.children:
        largest, more = (child + 1, 0) if isinstance(child, int) else _width(child)
        variables, terms = max(variables, largest), terms + more
    return variables, terms
