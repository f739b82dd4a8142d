"""Adding the e-nodes of all matches of an iteration, level by level over all templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_tensat.egraph.columns import Ints
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.template import Application

Slots = list[Ints]  # of each application: the class of each template row, (rows, matches) int64


def instantiate(
    graph: EGraph,
    applications: Sequence[Application],
    iteration: int,
    keep_going: Callable[[], bool],
) -> tuple[Ints, Ints]:
    """Add the e-nodes of all applications; merge nothing yet.

    Returns
    -------
    roots, targets : (merges,) int64
        Classes that the applications say are equal; none when `keep_going` ended it, and then the
        e-nodes that were added stay, unconnected and harmless.
    """
    slots = _empty_slots(applications)
    for level in _levels(applications, slots):
        if not keep_going():
            empty = np.empty(0, np.int64)
            return empty, empty
        rule = np.repeat([applications[at].rule for at, _ in level.places], level.counts)
        made = graph.add_batch(level.operator, level.children, level.types, rule, iteration)
        level.store(slots, made)
    roots = [a.roots.T.ravel() for a in applications]
    ends = [
        _classes(application, slot, end)
        for application, slot in zip(applications, slots, strict=True)
        for end in application.template.targets
    ]
    return np.concatenate(roots), np.concatenate(ends)


def missing(graph: EGraph, applications: Sequence[Application]) -> list[Ints]:
    """Count the e-nodes that each match would add if it were the only one; nothing is added.

    Returns
    -------
    list of (matches,) int64
        For each application.
    """
    slots = _empty_slots(applications)
    for level in _levels(applications, slots):
        known = np.flatnonzero((level.children >= 0).all(axis=1))
        found = np.full(len(level.children), -1)
        found[known] = graph.lookup(level.operator[known], level.children[known])
        level.store(slots, found)
    return [(slot < 0).sum(axis=0) for slot in slots]


def portion(
    graph: EGraph, pending: Sequence[Application], room: int
) -> tuple[list[Application], list[Application]]:
    """Split applications into matches that surely fit into `room` new e-nodes, and the rest.

    Matches are taken from the front as long as they fit, and all that add nothing.
    """
    bound = sum(len(a.template.rows) * len(a.roots) for a in pending)
    if bound <= room:
        return list(pending), []
    fitting: list[Application] = []
    rest: list[Application] = []
    for application, adds in zip(pending, missing(graph, pending), strict=True):
        total = np.cumsum(adds)
        fits = (total <= room) | (adds == 0)
        taken = total[total <= room]
        room = room - int(taken[-1]) if len(taken) == len(total) else 0
        for some, to in ((fits, fitting), (~fits, rest)):
            if some.any():
                to.append(application.take(np.flatnonzero(some)))
    return fitting, rest


@dataclass(frozen=True)
class _Level:
    """Rows of one level of the templates and of one arity, of all their matches together.

    Attributes
    ----------
    places : list of (int, int)
        Position of the application, position of the row in its template.
    counts : list of int
        Matches of each.
    operator, types : (rows,) int64
    children : (rows, arity) int64
    """

    places: list[tuple[int, int]]
    counts: list[int]
    operator: Ints
    types: Ints
    children: Ints

    def store(self, slots: Slots, classes: Ints) -> None:
        """Note the class of each row."""
        begin = 0
        for (at, k), count in zip(self.places, self.counts, strict=True):
            slots[at][k] = classes[begin : begin + count]
            begin += count


def _empty_slots(applications: Sequence[Application]) -> Slots:
    return [np.empty((len(a.template.rows), len(a.roots)), np.int64) for a in applications]


def _levels(applications: Sequence[Application], slots: Slots) -> Iterator[_Level]:
    """Yield the levels from the leaves up; each must be stored before the next is asked for."""
    by_level: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for at, application in enumerate(applications):
        for k, row in enumerate(application.template.rows):
            by_level.setdefault((row.level, len(row.operands)), []).append((at, k))
    for _, places in sorted(by_level.items()):
        rows = [applications[at].template.rows[k] for at, k in places]
        counts = [len(applications[at].roots) for at, _ in places]
        children = [
            np.column_stack([_classes(applications[at], slots[at], o) for o in row.operands])
            if row.operands
            else np.empty((count, 0), np.int64)
            for (at, _), row, count in zip(places, rows, counts, strict=True)
        ]
        yield _Level(
            places,
            counts,
            np.repeat(np.array([row.operator for row in rows], np.int64), counts),
            np.repeat(np.array([row.type for row in rows], np.int64), counts),
            np.concatenate(children),
        )


def _classes(application: Application, slot: Ints, operand: int) -> Ints:
    return application.variables[:, operand] if operand >= 0 else slot[-1 - operand]
