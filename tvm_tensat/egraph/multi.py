"""Combining the matches of several source patterns (TENSAT, Algorithm 1, lines 10 to 17)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvm_tensat.egraph.cycles import closes_cycle
from tvm_tensat.egraph.egraph import EGraph, Ints
from tvm_tensat.egraph.language import Refusal
from tvm_tensat.egraph.pattern import Matcher, Matches, Pattern, canonicalize, join
from tvm_tensat.egraph.rule import Rule, Term, bind_sources


@dataclass(frozen=True)
class Combined:
    """Matches of all sources of a rule together, a row each.

    Attributes
    ----------
    roots, rows : (matches, sources) int64
    variables : (matches, variables of the rule) int64
    operators : (matches, operator terms of all sources) int64
    """

    roots: Ints
    rows: Ints
    variables: Ints
    operators: Ints

    def __len__(self) -> int:
        return len(self.roots)

    def take(self, some: Ints) -> Combined:
        """Select rows."""
        return Combined(
            self.roots[some], self.rows[some], self.variables[some], self.operators[some]
        )


@dataclass(frozen=True)
class Source:
    """A canonical source pattern with its map back to the rule's variables.

    Attributes
    ----------
    pattern : Pattern
    variables : tuple of int
        Number in the rule of each canonical variable.
    ordered : bool
        Whether exchanging this source with the one before it gives the same sources.
    """

    pattern: Pattern
    variables: tuple[int, ...]
    ordered: bool = False


def sources_of(rule: Rule) -> tuple[Source, ...]:
    """Canonicalize the sources of a rule."""
    number = {id(variable): k for k, variable in enumerate(rule.variables)}
    found = []
    for term in rule.sources:
        pattern, order = canonicalize(term)
        found.append(Source(pattern, tuple(number[id(variable)] for variable in order)))
    return tuple(
        replace(source, ordered=k > 0 and interchangeable(found, k - 1))
        for k, source in enumerate(found)
    )


def decanonicalize(matches: Matches, source: Source, variable_count: int) -> Combined:
    """Rename the variables of matches back; variables that the source lacks are -1."""
    variables = np.full((len(matches), variable_count), -1, np.int64)
    variables[:, list(source.variables)] = matches.variables
    return Combined(matches.root[:, None], matches.row[:, None], variables, matches.operators)


def combine(matcher: Matcher, rule: Rule, sources: tuple[Source, ...], limit: int) -> Combined:
    """Find the compatible combinations of matches: shared variables have the same class.

    Sources that differ in the names of their variables only are interchangeable; of the two orders
    of a pair the one by birth is kept, so an e-node is never combined with itself.

    Raises
    ------
    JoinTooLarge
        Before more than `limit` rows are made.
    """
    count = len(rule.variables)
    whole = decanonicalize(matcher.search(sources[0].pattern), sources[0], count)
    bound = set(sources[0].variables)
    for k, source in enumerate(sources[1:], start=1):
        part = decanonicalize(matcher.search(source.pattern), source, count)
        shared = sorted(bound & set(source.variables))
        left, right = compatible(whole, part, shared, len(matcher.graph.class_type), limit)
        if source.ordered:
            ordered = whole.rows[left, -1] < part.rows[right, -1]
            left, right = left[ordered], right[ordered]
        whole = Combined(
            np.hstack([whole.roots[left], part.roots[right]]),
            np.hstack([whole.rows[left], part.rows[right]]),
            np.maximum(whole.variables[left], part.variables[right]),
            np.hstack([whole.operators[left], part.operators[right]]),
        )
        bound |= set(source.variables)
    return whole


def compatible(
    left: Combined, right: Combined, shared: list[int], span: int, limit: int
) -> tuple[Ints, Ints]:
    """Positions of the pairs that agree on the shared variables."""
    key_left, key_right = np.zeros(len(left), np.int64), np.zeros(len(right), np.int64)
    for variable in shared[:2]:
        key_left = key_left * span + left.variables[:, variable]
        key_right = key_right * span + right.variables[:, variable]
    at_left, at_right = join(key_left, key_right, limit)
    for variable in shared[2:]:
        same = left.variables[at_left, variable] == right.variables[at_right, variable]
        at_left, at_right = at_left[same], at_right[same]
    return at_left, at_right


def interchangeable(sources: Sequence[Source], k: int) -> bool:
    """Whether exchanging variables turns source `k` into the next one and back, and no other."""
    left, right = sources[k], sources[k + 1]
    if left.pattern != right.pattern:
        return False
    exchange = dict(zip(left.variables, right.variables, strict=True))
    back = dict(zip(right.variables, left.variables, strict=True))
    if any(exchange[both] != back[both] for both in exchange.keys() & back.keys()):
        return False
    moved = {here for here, there in (exchange | back).items() if here != there}
    others = [source for at, source in enumerate(sources) if at not in (k, k + 1)]
    return not any(moved & set(source.variables) for source in others)


@dataclass(frozen=True)
class Group:
    """Sibling e-nodes that a group rule may merge, in order of birth.

    Attributes
    ----------
    roots : (members,) int64
    variables : (1 + members * others,) int64
        The shared class, then each member's other variables.
    operators : tuple of int
        Operator terms, member after member.
    """

    roots: Ints
    variables: Ints
    operators: tuple[int, ...]


def groups(
    matcher: Matcher, rule: Rule, source: Source, merging: set[int], profiles: Ints
) -> list[Group]:
    """Group the matches of a group rule by shared class, maker and likeness.

    Only e-nodes of one origin (the input, or the same rule in the same iteration) form a group: a
    product and its scaled form are not wanted side by side, and each e-node is in one group for
    good, so groups stay linear in number. E-nodes made by a merging rule take no part, or each
    merge would call for the next.

    Parameters
    ----------
    merging : set of int
        Numbers of the multi and group rules.
    profiles : (classes,) int64
    """
    graph = matcher.graph
    matches = matcher.search(source.pattern)
    variables = np.empty_like(matches.variables)
    variables[:, list(source.variables)] = matches.variables
    maker = graph.node_rule[matches.row]
    allowed = ~np.isin(maker, list(merging))
    shared, _, size = np.unique(variables[allowed, 0], return_inverse=True, return_counts=True)
    allowed &= np.isin(variables[:, 0], shared[size > 1])
    born = graph.node_iteration[matches.row]
    collected: dict[tuple[int, int, int, Hashable], list[int]] = {}
    likeness: dict[tuple[int, ...], Hashable] = {}
    for at in np.flatnonzero(allowed).tolist():
        operators = matches.operators[at].tolist()
        signature = (*operators, *profiles[variables[at]].tolist())
        if signature not in likeness:
            likeness[signature] = _likeness(graph, rule, operators, variables[at])
        alike = likeness[signature]
        if alike is not None:
            key = int(variables[at, 0]), int(maker[at]), int(born[at]), alike
            collected.setdefault(key, []).append(at)
    chosen = []
    for members in collected.values():
        by_birth = np.array(sorted(members, key=lambda at: matches.row[at]), np.int64)
        _, first = np.unique(matches.root[by_birth], return_index=True)
        chosen.append(by_birth[np.sort(first)])
    return [
        Group(
            matches.root[rows],
            np.concatenate([variables[rows[0], :1], variables[rows, 1:].ravel()]),
            tuple(matches.operators[rows].ravel().tolist()),
        )
        for rows in _independent(graph, chosen, matches.root, variables[:, 1:])
        if len(rows) > 1
    ]


def _independent(graph: EGraph, chosen: list[Ints], root: Ints, others: Ints) -> list[Ints]:
    """Leave out of each group the members whose operands depend on another member."""
    member, above, below = [], [], []
    for rows in chosen:
        for at in rows.tolist():
            for operand in others[at].tolist():
                if graph.class_weight[operand]:
                    continue  # no weight depends on a product with the input
                member.append(np.full(len(rows), at))
                above.append(root[rows])
                below.append(np.full(len(rows), operand))
    if not member:
        return chosen
    closes = closes_cycle(graph, np.concatenate(above), np.concatenate(below))
    dependent = np.unique(np.concatenate(member)[closes])
    return [rows[~np.isin(rows, dependent)] for rows in chosen]


def _likeness(graph: EGraph, rule: Rule, operators: list[int], classes: Ints) -> Hashable | None:
    """Return what members of a group have in common, or None for a term that can be in none."""
    assert rule.alike is not None, "only group rules form groups"
    first = [Term(variable.name) for variable in rule.variables]
    sought: Term = next(rule.body(*first))
    for variable, number in zip(first, classes.tolist(), strict=True):
        variable.bind(graph.language, -1, int(graph.class_type[number]))
    try:
        bind_sources(graph.language, [sought], operators, rule.dtypes)
        return operators[0], rule.alike(sought)
    except Refusal:
        return None
