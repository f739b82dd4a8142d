"""Groups: all terms alike that share an operand, for a group rule to merge at once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from tvm_tensat.egraph.columns import Ints
from tvm_tensat.egraph.cycles import depends_on
from tvm_tensat.egraph.egraph import FROM_INPUT, EGraph
from tvm_tensat.egraph.language import Refusal
from tvm_tensat.egraph.multi import Source
from tvm_tensat.egraph.pattern import Matcher, Matches
from tvm_tensat.egraph.rule import Profile, Rule, Term, bind_sources
from tvm_tensat.egraph.template import split_by_signature


@dataclass(frozen=True)
class Group:
    """Sibling e-nodes that a group rule may merge, in order of birth.

    Attributes
    ----------
    roots, rows : (members,) int64
    variables : (1 + members * others,) int64
        The shared class, then each member's other variables.
    operators : tuple of int
        Operator terms, member after member.
    """

    roots: Ints
    rows: Ints
    variables: Ints
    operators: tuple[int, ...]


def groups(
    matcher: Matcher, rule: Rule, source: Source, merging: set[int], profiles: Ints
) -> list[Group]:
    """Group the matches of a group rule by shared class, maker and likeness.

    Only e-nodes of one origin (the input, or the same rule) form a group: a product and its scaled
    form are not wanted side by side. E-nodes made by a merging rule take no part, or each merge
    would call for the next. Members whose operands depend on another member are left out.

    Parameters
    ----------
    merging : set of int
        Numbers of the multi and group rules.
    profiles : (classes,) int64
    """
    graph = matcher.graph
    matches = matcher.search(source.pattern)
    maker = graph.node_rule[matches.row]
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
    likeness = _likeness_codes(graph, rule, matches.take(some), variables[some], profiles)
    some, likeness = some[likeness >= 0], likeness[likeness >= 0]
    # Sorted by group, then by birth; of e-nodes of one class in one group the oldest.
    order = np.lexsort((matches.row[some], likeness, maker[some], shared[some]))
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
    free = _independent(graph, group, matches.root[some], variables[some, 1:])
    some, group = some[free], group[free]
    members = np.split(some, np.flatnonzero(np.diff(group)) + 1)
    return [
        Group(
            matches.root[rows],
            matches.row[rows],
            np.concatenate([variables[rows[0], :1], variables[rows, 1:].ravel()]),
            tuple(matches.operators[rows].ravel().tolist()),
        )
        for rows in members
        if len(rows) > 1
    ]


def _likeness_codes(
    graph: EGraph, rule: Rule, matches: Matches, variables: Ints, profiles: Ints
) -> Ints:
    """Return a number for what members of a group have in common; -1 for members of none."""
    columns = np.hstack([matches.operators, profiles[variables]])
    code = np.empty(len(matches), np.int64)
    numbers: dict[Hashable, int] = {}
    for first, members in zip(*split_by_signature(columns), strict=True):
        alike = _likeness(graph, rule, matches.operators[first].tolist(), variables[first])
        code[members] = -1 if alike is None else numbers.setdefault(alike, len(numbers))
    return code


def _likeness(graph: EGraph, rule: Rule, operators: list[int], classes: Ints) -> Hashable | None:
    """Return what members of a group have in common, or None for a term that can be in none."""
    assert rule.alike is not None, "only group rules form groups"
    first = [Term(variable.name) for variable in rule.variables]
    sought: Term = next(rule.body(*first))
    for variable, number in zip(first, classes.tolist(), strict=True):
        known = Profile(
            int(graph.class_type[number]),
            bool(graph.class_weight[number]),
            int(graph.class_scalar[number]),
        )
        variable.bind(graph.language, -1, known.type)
        variable.profile = known
    try:
        bind_sources(graph.language, [sought], operators, rule.dtypes)
        return operators[0], rule.alike(sought)
    except Refusal:
        return None


def _independent(graph: EGraph, group: Ints, root: Ints, others: Ints) -> Ints:
    """Positions of the members no operand of which depends on a member of the same group."""
    width = others.shape[1]
    operand, member = others.ravel(), np.repeat(np.arange(len(group)), width)
    # No weight depends on a product with the input.
    light = ~graph.class_weight[operand]
    operand, member = operand[light], member[light]
    if not len(operand):
        return np.arange(len(group))
    depends = depends_on(graph, operand, group[member], root, group)
    dependent = np.zeros(len(group), np.bool_)
    dependent[member[depends]] = True
    return np.flatnonzero(~dependent)
