"""Adding the e-nodes of all matches of an iteration, level by level over all templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_tensat.egraph.columns import Ints
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.template import Application

# Of each application: what is in each place, (e-nodes of the template, matches).
Slots = list[Ints]


def instantiate(
    graph: EGraph,
    applications: Sequence[Application],
    iteration: int,
    keep_going: Callable[[], bool],
) -> tuple[Ints, Ints, Ints]:
    """Add the e-nodes of all applications and note them in the journal; merge nothing yet.

    Returns
    -------
    roots, targets, reasons : (merges,) int64
        What the applications say is equal; none when `keep_going` ended it, and then the e-nodes
        that were added stay, unconnected and harmless.
    """
    slots = _empty_slots(applications)
    for level in _levels(graph, applications, slots):
        if not keep_going():
            empty = np.empty(0, np.int64)
            return empty, empty, empty
        rule = np.repeat([applications[at].rule for at, _ in level.places], level.counts)
        made = graph.add_batch(level.operator, level.children, level.types, rule, iteration)
        level.store(slots, made)
    roots, ends, reasons = [], [], []
    for application, slot in zip(applications, slots, strict=True):
        reasons.append(graph.journal.applying(application, slot, iteration).reasons())
        for head, target in zip(application.heads, application.wiring.targets, strict=True):
            roots.append(application.rows[:, head])
            ends.append(_place(application, slot, target))
    return np.concatenate(roots), np.concatenate(ends), np.concatenate(reasons)


def missing(graph: EGraph, applications: Sequence[Application]) -> list[Ints]:
    """Count the e-nodes that each match would add if it were the only one; nothing is added.

    Returns
    -------
    list of (matches,) int64
        For each application.
    """
    slots = _empty_slots(applications)
    for level in _levels(graph, applications, slots):
        level.store(slots, graph.lookup(level.operator, level.children))
    return [(slot < 0).sum(axis=0) for slot in slots]


def portion(
    graph: EGraph, pending: Sequence[Application], room: int
) -> tuple[list[Application], list[Application]]:
    """Split applications into matches that surely fit into `room` new e-nodes, and the rest.

    Matches are taken from the front as long as they fit, and all that add nothing.
    """
    bound = sum(len(a.wiring.operands) * len(a) for a in pending)
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
    """E-nodes of one level of the templates, of all their matches together.

    Attributes
    ----------
    places : list of (int, int)
        Position of the application, position of the e-node in its template.
    counts : list of int
        Matches of each.
    operator, types : (e-nodes,) int64
    children : (e-nodes, largest arity) int64
        Classes; -1 after the last, and where `missing` found none.
    """

    places: list[tuple[int, int]]
    counts: list[int]
    operator: Ints
    types: Ints
    children: Ints

    def store(self, slots: Slots, rows: Ints) -> None:
        """Note what was made or found in each place."""
        begin = 0
        for (at, k), count in zip(self.places, self.counts, strict=True):
            slots[at][k] = rows[begin : begin + count]
            begin += count


def _empty_slots(applications: Sequence[Application]) -> Slots:
    return [np.empty((len(a.wiring.operands), len(a)), np.int64) for a in applications]


def _levels(graph: EGraph, applications: Sequence[Application], slots: Slots) -> Iterator[_Level]:
    """Yield the levels from the leaves up; each must be stored before the next is asked for."""
    by_level: dict[int, list[tuple[int, int]]] = {}
    for at, application in enumerate(applications):
        for k, level in enumerate(application.wiring.levels):
            by_level.setdefault(level, []).append((at, k))
    for _, places in sorted(by_level.items()):
        counts = [len(applications[at]) for at, _ in places]
        total = sum(counts)
        width = max(len(applications[at].wiring.operands[k]) for at, k in places)
        operator, types = np.empty(total, np.int64), np.empty(total, np.int64)
        children: Ints = np.full((total, width), -1)
        begin = 0
        for (at, k), count in zip(places, counts, strict=True):
            application, end = applications[at], begin + count
            operator[begin:end] = application.operators[application.template, k]
            types[begin:end] = application.types[application.template, k]
            for column, operand in enumerate(application.wiring.operands[k]):
                children[begin:end, column] = _place(application, slots[at], operand)
            begin = end
        children = np.where(children < 0, -1, graph.sets.parent[children])
        yield _Level(places, counts, operator, types, children)


def _place(application: Application, slot: Ints, operand: int) -> Ints:
    """Return what stands in a place of the template, by match."""
    return application.variables[:, operand] if operand >= 0 else slot[-1 - operand]
