"""Combining the matches of several source patterns (TENSAT, Algorithm 1, lines 10 to 17)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tvm_tensat.egraph.columns import Ints
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.pattern import Matcher, Matches, Pattern, canonicalize, join
from tvm_tensat.egraph.rule import Rule, preorder


@dataclass(frozen=True)
class Combined:
    """Matches of all sources of a rule together, a row each.

    Attributes
    ----------
    roots : (matches, sources) int64
    rows : (matches, operator terms of all sources) int64
        E-nodes matched.
    variables : (matches, variables of the rule) int64
    """

    roots: Ints
    rows: Ints
    variables: Ints

    def __len__(self) -> int:
        return len(self.roots)

    def take(self, some: Ints) -> Combined:
        """Select rows."""
        return Combined(self.roots[some], self.rows[some], self.variables[some])

    def on(self, graph: EGraph) -> Combined:
        """Return the matches that still hold, with the present representatives."""
        usable = graph.node_alive & ~graph.node_filtered
        held = self.take(np.flatnonzero(usable[self.rows].all(axis=1)))
        parent = graph.sets.parent
        return Combined(parent[held.roots], held.rows, parent[held.variables])

    def and_then(self, other: Combined) -> Combined:
        """Put other matches behind these."""
        return Combined(
            np.concatenate([self.roots, other.roots]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.variables, other.variables]),
        )


@dataclass(frozen=True)
class Source:
    """A canonical source pattern with its map back to the rule's variables.

    Attributes
    ----------
    pattern : Pattern
    variables : tuple of int
        Number in the rule of each canonical variable.
    head : int
        Number of operator terms in the sources before this one.
    ordered : bool
        Whether exchanging this source with the one before it gives the same sources.
    """

    pattern: Pattern
    variables: tuple[int, ...]
    head: int
    ordered: bool = False


@functools.cache
def sources_of(rule: Rule) -> tuple[Source, ...]:
    """Canonicalize the sources of a rule."""
    number = {id(variable): k for k, variable in enumerate(rule.variables)}
    found: list[Source] = []
    head = 0
    for term in rule.sources:
        pattern, order = canonicalize(term)
        found.append(Source(pattern, tuple(number[id(variable)] for variable in order), head))
        head += len(preorder(term))
    return tuple(
        replace(source, ordered=k > 0 and interchangeable(found, k - 1))
        for k, source in enumerate(found)
    )


def decanonicalize(matches: Matches, source: Source, variable_count: int) -> Combined:
    """Rename the variables of matches back; variables that the source lacks are -1."""
    if source.variables == tuple(range(variable_count)):
        return Combined(matches.root[:, None], matches.rows, matches.variables)
    variables = np.full((len(matches), variable_count), -1, np.int64)
    variables[:, list(source.variables)] = matches.variables
    return Combined(matches.root[:, None], matches.rows, variables)


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
    for last, source in pairwise(sources):
        if not len(whole):
            break
        part = decanonicalize(matcher.search(source.pattern), source, count)
        shared = sorted(bound & set(source.variables))
        left, right = compatible(whole, part, shared, len(matcher.graph.class_type), limit)
        if source.ordered:
            ordered = whole.rows[left, last.head] < part.rows[right, 0]
            left, right = left[ordered], right[ordered]
        whole = Combined(
            np.concatenate([whole.roots[left], part.roots[right]], axis=1),
            np.concatenate([whole.rows[left], part.rows[right]], axis=1),
            np.maximum(whole.variables[left], part.variables[right]),
        )
        bound |= set(source.variables)
    if not len(whole):
        terms = sum(len(preorder(source)) for source in rule.sources)
        shapes = len(sources), terms, count
        return Combined(*(np.empty((0, columns), np.int64) for columns in shapes))
    return whole


def compatible(
    left: Combined, right: Combined, shared: list[int], span: int, limit: int
) -> tuple[Ints, Ints]:
    """Positions of the pairs that agree on the shared variables."""
    key_left: Ints = np.zeros(len(left), np.int64)
    key_right: Ints = np.zeros(len(right), np.int64)
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
