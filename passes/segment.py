"""One segment of a dataflow block: explore, cost, extract, measure until the choice is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_tensat.cost.nodes import Device, NodeCosts
from tvm_tensat.egraph import FROM_INPUT, EGraph, Limits, Memo, explore
from tvm_tensat.egraph.egraph import Ints
from tvm_tensat.egraph.explain import PathTooLong
from tvm_tensat.egraph.path import lines, path_to
from tvm_tensat.egraph.rule import Rule
from tvm_tensat.extraction import Solution, extract
from tvm_tensat.extraction.egraph import problem_of
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.phases import Phases
from tvm_tensat.passes.report import BlockReport
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import Segment
from tvm_tensat.relax.reader import ReadSegment, read_segment
from tvm_tensat.relax.writer import write_segment

# Extractions until every chosen kernel is measured; each measures what the last one chose.
MOST_ROUNDS = 8

# A smaller predicted gain, as a share of the input's cost, is none: no race could confirm it.
LEAST_GAIN = 0.001

# The cautious candidate's mistrust of new kernels. Predictions of whole models were off by up to
# 15%; resnet50 joined ten convolutions for a predicted 8% that the race did not confirm.
CAUTION = 0.25


Bindings = tuple[Any, ...]  # a way to write a segment


@dataclass(frozen=True)
class Optimized:
    """The forms of a segment that are worth racing.

    Attributes
    ----------
    cheapest : Bindings or None
        None where nothing is cheaper than the input.
    cautious : Bindings or None
        The cheapest when kernels that the input does not have are charged `CAUTION` more, where
        that is another graph: kernels measured singly are no exact model of a whole.
    report : BlockReport
    """

    cheapest: Bindings | None
    cautious: Bindings | None
    report: BlockReport


def optimize_segment(
    segment: Segment,
    where: tuple[str, str],
    rules: Sequence[Rule],
    language: RelaxLanguage,
    memo: Memo,
    device: Device,
    options: TensatOptions,
    phases: Phases,
) -> Optimized | None:
    """Find the cheapest form of a segment; None when exploration found no other form."""
    graph = EGraph(language)
    with phases("read"):
        read = read_segment(segment, language, graph)
    limits = Limits(
        iterations=options.iterations,
        nodes=options.nodes,
        seconds=options.explore_seconds,
        k_multi=options.k_multi,
        cycles=options.cycles,
    )
    if not read.roots:
        return None
    with phases("explore"), phases.bar("exploring", options.iterations) as show:
        exploration = explore(
            graph, rules, limits, memo=memo, hook=lambda _, done: show(done.number + 1)
        )
    if (graph.node_rule[graph.node_alive] == FROM_INPUT).all() and not exploration.filtered:
        return None
    search = _Search(graph, language, read, rules, device, options, phases)
    search.measure(search.input_nodes())
    solution, rows = search.choose(caution=0.0)
    if solution.cost > (1.0 - LEAST_GAIN) * search.input_cost():
        return Optimized(None, None, search.report(where, exploration, solution, rows))
    _, others = search.choose(CAUTION)
    with phases("write"):
        cheapest = search.write(rows)
        cautious = None if set(others) == set(rows) else search.write(others)
    return Optimized(cheapest, cautious, search.report(where, exploration, solution, rows))


class _Search:
    """Costs and extractions of one e-graph."""

    def __init__(
        self,
        graph: EGraph,
        language: RelaxLanguage,
        read: ReadSegment,
        rules: Sequence[Rule],
        device: Device,
        options: TensatOptions,
        phases: Phases,
    ) -> None:
        self.graph, self.language, self.read, self.rules = graph, language, read, rules
        self.options, self.phases = options, phases
        self.costs = NodeCosts(graph, language, device)
        self.rounds = 0

    def input_nodes(self) -> Ints:
        """Rows of the input's e-nodes, those that congruence has merged away included."""
        return np.flatnonzero(self.graph.node_rule == FROM_INPUT)

    def input_cost(self) -> float:
        """Return the predicted seconds of the input."""
        return float(self.costs.costs()[self.input_nodes()].sum())

    def measure(self, rows: Ints) -> bool:
        """Measure what is not measured of these e-nodes; return whether there was anything."""
        wanted = self.costs.unmeasured(rows)
        if wanted:
            with self.phases("measure"), self.phases.bar("measuring", len(wanted)) as show:
                self.costs.measure(wanted, progress=lambda done, _: show(done))
        return bool(wanted)

    def choose(self, caution: float) -> tuple[Solution, Ints]:
        """Extract, measure what was chosen, and extract again until the choice is measured.

        Parameters
        ----------
        caution : float
            By how much more than they cost kernels that the input does not have are charged.
        """
        known = np.isin(self.costs.node_signature, self.costs.node_signature[self.input_nodes()])
        roots = [number for _, number in self.read.roots]
        for _ in range(MOST_ROUNDS):
            self.rounds += 1
            values = self.costs.costs()
            values[~known] *= 1.0 + caution
            problem, rows, _ = problem_of(self.graph, roots, values)
            with self.phases("extract"):
                solution = extract(
                    problem,
                    self.options.extractor,
                    solver=self.options.solver,
                    time_limit=self.options.extract_seconds,
                )
            chosen = rows[solution.choice[solution.choice >= 0]]
            if not self.measure(chosen):
                break
        return solution, chosen

    def write(self, rows: Ints) -> Bindings:
        """Emit the chosen e-nodes as bindings."""
        graph = self.graph
        choice = {}
        for row in rows.tolist():
            operator = int(graph.node_operator[row])
            arity = int(graph.operator_arity[operator])
            start = int(graph.node_start[row])
            children = tuple(graph.operands[start : start + arity].tolist())
            choice[int(graph.node_class[row])] = operator, children
        return tuple(write_segment(self.read, choice, graph.find))

    def report(
        self, where: tuple[str, str], exploration: Any, solution: Solution, rows: Ints
    ) -> BlockReport:
        """Collect the figures of this segment."""
        makers = self.graph.node_rule[rows]
        used: dict[str, int] = {}
        for maker in makers[makers >= 0].tolist():
            used[self.rules[maker].name] = used.get(self.rules[maker].name, 0) + 1
        failures = [
            f"{self.costs.describe(number)}: {known.error}"
            for number, known in self.costs.measured.items()
            if known.error is not None
        ]
        return BlockReport(
            function=where[0],
            block=where[1],
            operators=len(self.read.nodes),
            exploration=exploration,
            cost_before=self.input_cost(),
            cost_after=solution.cost,
            bound=solution.bound,
            gap=solution.gap,
            status=solution.status,
            rounds=self.rounds,
            kernels_measured=self.costs.measured_now,
            kernels_recorded=len(self.costs.measured) - self.costs.measured_now,
            kernels_failed=len(failures),
            failures=tuple(failures),
            rules_used=used,
            rewrites=self.rewrites(rows),
        )

    def rewrites(self, rows: Ints) -> tuple[str, ...]:
        """Return the rewrites that lead to the chosen e-nodes, as text."""
        try:
            path = path_to(self.graph, self.rules, [n for _, n in self.read.roots], rows)
        except PathTooLong as error:
            return (f"not listed: {error}",)
        return tuple(lines(path, self.rules))
