"""One segment of a dataflow block: read, explore, search, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_tensat.cost.device import Device
from tvm_tensat.cost.nodes import NO_RECORD
from tvm_tensat.egraph import FROM_INPUT, EGraph, Limits, Memo, explore, write_egraph
from tvm_tensat.egraph.explain import PathTooLong
from tvm_tensat.egraph.path import lines, path_to
from tvm_tensat.egraph.report import Exploration
from tvm_tensat.egraph.rule import Rule
from tvm_tensat.extraction import Solution
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.phases import Phases
from tvm_tensat.passes.report import BlockReport
from tvm_tensat.passes.search import Graph, Reader, Search
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import Segment
from tvm_tensat.relax.reader import read_segment
from tvm_tensat.relax.writer import write_chosen

Bindings = tuple[Any, ...]  # a way to write a segment


@dataclass(frozen=True)
class Optimized:
    """The forms of a segment that are worth racing.

    Attributes
    ----------
    forms : dict of str to Bindings
        By name, see `tvm_tensat.passes.search.Search.candidates`; empty where nothing is cheaper
        than the input.
    report : BlockReport
    """

    forms: dict[str, Bindings]
    report: BlockReport


def explore_segment(
    segment: Segment,
    where: tuple[str, str],
    rules: Sequence[Rule],
    language: RelaxLanguage,
    memo: Memo,
    device: Device,
    options: TensatOptions,
    phases: Phases,
) -> Explored | None:
    """Explore the forms of a segment; None when there is no other form."""
    graph = EGraph(language)
    with phases("read"):
        read = read_segment(segment, language, graph)
        if not read.roots:
            return None
        graph.rebuild()
        reader = Reader(graph, language, read, device)
        _, given = reader.kernels(np.flatnonzero(graph.node_alive))
    limits = Limits(
        iterations=options.iterations,
        nodes=options.nodes,
        seconds=options.explore_seconds,
        k_multi=options.k_multi,
        cycles=options.cycles,
    )
    with phases("explore"), phases.bar("exploring", options.iterations) as show:
        exploration = explore(
            graph, rules, limits, memo=memo, hook=lambda _, done: show(done.number + 1)
        )
    if (graph.node_rule[graph.node_alive] == FROM_INPUT).all() and not exploration.filtered:
        return None
    return Explored(where, rules, exploration, Search(reader, given, device, options, phases))


@dataclass(frozen=True)
class Explored:
    """A segment with all its forms in an e-graph."""

    where: tuple[str, str]
    rules: Sequence[Rule]
    exploration: Exploration
    search: Search

    def optimize(self) -> Optimized:
        """Find the cheapest form of the segment, and others worth racing."""
        search = self.search
        solution, best, candidates = search.find()
        with search.phases("write"):
            read = search.reader.read
            forms = {name: tuple(write_chosen(read, g.chosen)) for name, g in candidates.items()}
            remarks = _save(search, "-".join(self.where).replace(" ", "-"))
        return Optimized(forms, _report(self, solution, best, remarks))

    def fill_store(self) -> BlockReport:
        """Measure what `optimize` measures, and stop there."""
        solution, best, _ = self.search.find()
        return _report(self, solution, best, ())


def _save(search: Search, name: str) -> tuple[str, ...]:
    """Write the e-graph and its costs where the options say; return a remark if that failed."""
    folder = search.options.egraphs
    if folder is None:
        return ()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_egraph(folder / f"{name}.json", search.graph, search.roots, search.costs.costs())
    except OSError as error:
        return (f"the e-graph was not saved: {error}",)
    return ()


def _report(
    explored: Explored, solution: Solution, chosen: Graph | None, remarks: tuple[str, ...]
) -> BlockReport:
    """Collect the figures; `chosen` is None where nothing is cheaper than the input."""
    search = explored.search
    costs = search.costs
    failures = [
        f"{key}: {known.error}"
        for key, known in costs.measured.items()
        if known.error not in (None, NO_RECORD)
    ]
    without = sum(known.error == NO_RECORD for known in costs.measured.values())
    if without:
        remarks += (f"{without} kernels have no recorded time: only the input uses them",)
    before = search.input_cost()
    after = before if chosen is None else chosen.seconds
    bound = min(solution.bound, after)
    return BlockReport(
        function=explored.where[0],
        block=explored.where[1],
        operators=len(search.reader.read.nodes),
        exploration=explored.exploration,
        cost_before=before,
        cost_after=after,
        launches_before=_launches(search.given),
        launches_after=_launches(search.given if chosen is None else chosen.kernels),
        bound=bound,
        gap=(after - bound) / after if after > 0 else 0.0,
        status=solution.status,
        rounds=search.rounds,
        kernels_measured=costs.measured_now,
        kernels_recorded=len(costs.measured) - costs.measured_now - without,
        kernels_failed=len(failures),
        failures=tuple(failures),
        rules_used={} if chosen is None else _rules_used(explored, chosen),
        rewrites=() if chosen is None else _rewrites(explored, chosen),
        remarks=remarks,
    )


def _launches(kernels: Sequence[Any]) -> int:
    return sum(kernel.launches for kernel in kernels)


def _rules_used(explored: Explored, chosen: Graph) -> dict[str, int]:
    used: dict[str, int] = {}
    makers = explored.search.graph.node_rule[chosen.rows]
    for maker in makers[makers >= 0].tolist():
        name = explored.rules[maker].name
        used[name] = used.get(name, 0) + 1
    return used


def _rewrites(explored: Explored, chosen: Graph) -> tuple[str, ...]:
    """Return the rewrites that lead to the chosen e-nodes, as text."""
    search = explored.search
    try:
        path = path_to(search.graph, explored.rules, search.roots, chosen.rows)
    except PathTooLong as error:
        return (f"not listed: {error}",)
    return tuple(lines(path, explored.rules))
