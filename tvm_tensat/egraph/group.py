"""Groups: all terms alike that share an operand, for a group rule to merge at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from tvm_tensat.egraph.columns import Ints
from tvm_tensat.egraph.cycles import Dependence
from tvm_tensat.egraph.egraph import FROM_INPUT, EGraph
from tvm_tensat.egraph.memo import Memo
from tvm_tensat.egraph.multi import Source
from tvm_tensat.egraph.pattern import Matcher, Matches
from tvm_tensat.egraph.rule import Rule
from tvm_tensat.egraph.template import group_rows


@dataclass(frozen=True)
class Group:
    """Sibling e-nodes that a group rule may merge, in order of birth.

    Attributes
    ----------
    roots : (members,) int64
    rows : (members * operator terms,) int64
        E-nodes matched, member after member.
    variables : (1 + members * others,) int64
        The shared class, then each member's other variables.
    """

    roots: Ints
    rows: Ints
    variables: Ints


def groups(
    matcher: Matcher,
    rule: Rule,
    source: Source,
    merging: set[int],
    profiles: Ints,
    memo: Memo,
    dependence: Callable[[], Dependence],
    seen: set[bytes],
) -> list[Group]:
    """Find new groups: matches of a group rule of one shared class, maker and likeness.

    Only e-nodes of one origin (the input, or the same rule) form a group: a product and its scaled
    form are not wanted side by side. E-nodes made by a merging rule take no part, or each merge
    would call for the next. Members whose operands depend on another member are left out.

    Parameters
    ----------
    merging : set of int
        Numbers of the multi and group rules.
    profiles : (classes,) int64
    memo : Memo
    dependence : callable
        Asked only when a group needs it.
    seen : set of bytes
        Identities of the groups found before; those found now are added.
    """
    graph = matcher.graph
    matches = matcher.search(source.pattern)
    maker = graph.node_rule[matches.rows[:, 0]]
    merges = np.zeros(max(merging, default=FROM_INPUT) + 2, np.bool_)
    merges[[number + 1 for number in merging]] = True
    single = ~merges[np.minimum(maker + 1, len(merges) - 1)] | (maker + 1 >= len(merges))
    single &= ~graph.class_weight[matches.root]  # weights cost nothing, merged or not
    matches, maker = matches.take(np.flatnonzero(single)), maker[single]
    variables = np.empty_like(matches.variables)
    variables[:, list(source.variables)] = matches.variables
    shared = variables[:, 0]
    some = np.flatnonzero(np.bincount(shared, minlength=1)[shared] > 1)
    if not len(some):
        return []
    likeness = _likeness_codes(graph, rule, matches.take(some), variables[some], profiles, memo)
    some, likeness = some[likeness >= 0], likeness[likeness >= 0]
    # Sorted by group, then by birth; of e-nodes of one class in one group the oldest.
    order = np.lexsort((matches.rows[some, 0], likeness, maker[some], shared[some]))
    some, likeness = some[order], likeness[order]
    key = np.column_stack([shared[some], maker[some], likeness])
    begins = np.ones(len(some), np.bool_)
    begins[1:] = (key[1:] != key[:-1]).any(axis=1)
    group = np.cumsum(begins) - 1
    by_root = np.lexsort((np.arange(len(some)), matches.root[some], group))
    pair = np.column_stack([group, matches.root[some]])[by_root]
    oldest = np.ones(len(some), np.bool_)
    oldest[by_root[1:]] = (pair[1:] != pair[:-1]).any(axis=1)
    some, group = some[oldest], group[oldest]
    new = []
    for members in _parts(some, group):
        identity = matches.rows[members].tobytes() + profiles[variables[members]].tobytes()
        if len(members) > 1 and identity not in seen:
            seen.add(identity)
            new.append(members)
    if not new:
        return []
    some = np.concatenate(new)
    group = np.repeat(np.arange(len(new)), [len(members) for members in new])
    free = _independent(graph, dependence, group, matches.root[some], variables[some, 1:])
    return [
        Group(
            matches.root[members],
            matches.rows[members].ravel(),
            np.concatenate([variables[members[0], :1], variables[members, 1:].ravel()]),
        )
        for members in _parts(some[free], group[free])
        if len(members) > 1
    ]


def _parts(some: Ints, group: Ints) -> list[Ints]:
    """Split where the number of the group changes."""
    return np.split(some, np.flatnonzero(np.diff(group)) + 1)


def _likeness_codes(
    graph: EGraph, rule: Rule, matches: Matches, variables: Ints, profiles: Ints, memo: Memo
) -> Ints:
    """Return a number for what members of a group have in common; -1 for members of none."""
    operators = graph.node_operator[matches.rows]
    columns = np.hstack([operators, profiles[variables]])
    numbers: dict[Hashable, int] = {}
    codes = []
    first, group = group_rows(columns)
    for signature in columns[first].tolist():
        alike = memo.likeness(rule, tuple(signature), operators.shape[1])
        codes.append(-1 if alike is None else numbers.setdefault(alike, len(numbers)))
    return np.array(codes, np.int64)[group]


def _independent(
    graph: EGraph,
    dependence: Callable[[], Dependence],
    group: Ints,
    root: Ints,
    others: Ints,
) -> Ints:
    """Positions of the members no operand of which depends on a member of the same group."""
    width = others.shape[1]
    operand: Ints = others.ravel()
    member: Ints = np.repeat(np.arange(len(group)), width)
    # No weight depends on a product with the input.
    light = ~graph.class_weight[operand]
    operand, member = operand[light], member[light]
    if not len(operand):
        return np.arange(len(group))
    depends = dependence().on_sets(operand, group[member], root, group)
    dependent = np.zeros(len(group), np.bool_)
    dependent[member[depends]] = True
    return np.flatnonzero(~dependent)
