"""One segment of a dataflow block: explore, cost, extract, measure until the choice is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_tensat.cost.nodes import NO_RECORD, Device, NodeCosts
from tvm_tensat.egraph import FROM_INPUT, EGraph, Exploration, Limits, Memo, explore, write_egraph
from tvm_tensat.egraph.egraph import Ints
from tvm_tensat.egraph.explain import PathTooLong
from tvm_tensat.egraph.path import lines, path_to
from tvm_tensat.egraph.rule import Rule
from tvm_tensat.extraction import Solution, extract, extract_pool
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

# Other candidates than the cheapest must spend this share of its time otherwise, and may be
# predicted to take this much longer: less is no difference that a race sees, more is no candidate.
DIFFERENCE = 0.02
MOST_COST = 1.03

# The cautious candidate's mistrust of new kernels. Predictions of whole models were off by up to
# 15%; resnet50 joined ten convolutions for a predicted 8% that the race did not confirm.
CAUTION = 0.25


CHEAPEST, CAUTIOUS = "optimized", "optimized, cautiously"

Bindings = tuple[Any, ...]  # a way to write a segment


@dataclass(frozen=True)
class Optimized:
    """The forms of a segment that are worth racing.

    Attributes
    ----------
    forms : dict of str to Bindings
        By name; empty where nothing is cheaper than the input. `CHEAPEST` is the cheapest,
        `CAUTIOUS` the cheapest when kernels that the input does not have are charged `CAUTION`
        more (kernels measured singly are no exact model of a whole), the others are the next
        cheapest that differ from it.
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
) -> Search | None:
    """Explore the forms of a segment; None when there is no other form."""
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
    return Search(graph, language, read, where, exploration, rules, device, options, phases)


class Search:
    """Costs and extractions of one segment's e-graph."""

    def __init__(
        self,
        graph: EGraph,
        language: RelaxLanguage,
        read: ReadSegment,
        where: tuple[str, str],
        exploration: Exploration,
        rules: Sequence[Rule],
        device: Device,
        options: TensatOptions,
        phases: Phases,
    ) -> None:
        self.graph, self.language, self.read, self.rules = graph, language, read, rules
        self.where, self.exploration = where, exploration
        self.options, self.phases = options, phases
        self.costs = NodeCosts(graph, language, device)
        self.roots = [number for _, number in read.roots]
        self.rounds = 0
        self.choice: Ints | None = None  # the last one

    def optimize(self) -> Optimized:
        """Find the cheapest form of the segment, and others worth racing."""
        solution, rows = self.cheapest()
        chosen = self.candidates(rows) if self.is_worth(solution) else {}
        with self.phases("write"):
            forms = {name: self.write(rows) for name, rows in chosen.items()}
            remarks = self.save("-".join(self.where).replace(" ", "-"))
        return Optimized(forms, self.report(solution, rows, remarks))

    def fill_store(self) -> BlockReport:
        """Measure the kernels that `optimize` measures, and stop there."""
        solution, rows = self.cheapest()
        if self.options.candidates > 1 and self.is_worth(solution):
            self.choose(CAUTION)
        return self.report(solution, rows, ())

    def cheapest(self) -> tuple[Solution, Ints]:
        """Measure the input and find what is cheapest."""
        self.measure(self.input_nodes())
        return self.choose(caution=0.0)

    def is_worth(self, solution: Solution) -> bool:
        """Whether a solution is predicted to gain what can be seen."""
        return solution.cost <= (1.0 - LEAST_GAIN) * self.input_cost()

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
        for _ in range(MOST_ROUNDS):
            self.rounds += 1
            values = self.costs.costs()
            values[~known] *= 1.0 + caution
            problem, rows, _ = problem_of(self.graph, self.roots, values)
            with self.extracting() as progress:
                solution = extract(
                    problem,
                    self.options.extractor,
                    solver=self.options.solver,
                    time_limit=self.options.extract_seconds,
                    start=self.choice,
                    progress=progress,
                )
            if solution.status.endswith("interrupted"):
                raise KeyboardInterrupt  # extraction gives the best so far, a pass just ends
            self.choice = solution.choice
            chosen = rows[solution.choice[solution.choice >= 0]]
            if not self.measure(chosen):
                break
        return solution, chosen

    def candidates(self, cheapest: Ints) -> dict[str, Ints]:
        """Return the rows of the forms that are worth a race, at most `options.candidates`."""
        found = {CHEAPEST: cheapest}
        most = self.options.candidates
        if most > 1:
            _, rows = self.choose(CAUTION)
            _add(found, CAUTIOUS, rows)
        if len(found) < most and self.options.extractor == "ilp":
            # Only kernels whose time is known: a guess is no reason to build another form.
            values = self.costs.costs()
            everything = np.arange(len(values))
            guessed = np.isin(self.costs.node_signature, self.costs.unmeasured(everything))
            values[guessed] = np.inf
            problem, rows_of, _ = problem_of(self.graph, self.roots, values)
            with self.extracting() as progress:
                pool = extract_pool(
                    problem,
                    most,
                    difference=DIFFERENCE,
                    most_cost=MOST_COST,
                    solver=self.options.solver,
                    time_limit=self.options.extract_seconds,
                    start=self.choice,
                    progress=progress,
                )
            for member in pool:
                if len(found) < most:
                    rows = rows_of[member.choice[member.choice >= 0]]
                    _add(found, f"optimized, alternative {len(found)}", rows)
        return found

    @contextmanager
    def extracting(self) -> Iterator[Callable[[float, float], None]]:
        """Show how much of the cost is proven, in per cent."""
        with self.phases("extract"), self.phases.bar("extracting, % proven", 100) as show:
            yield lambda cost, bound: show(int(100 * bound / cost) if cost > 0 else 100)

    def save(self, name: str) -> tuple[str, ...]:
        """Write the e-graph and its costs where the options say; return a remark if that failed."""
        folder = self.options.egraphs
        if folder is None:
            return ()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_egraph(folder / f"{name}.json", self.graph, self.roots, self.costs.costs())
        except OSError as error:
            return (f"the e-graph was not saved: {error}",)
        return ()

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

    def report(self, solution: Solution, rows: Ints, remarks: tuple[str, ...]) -> BlockReport:
        """Collect the figures of this segment."""
        makers = self.graph.node_rule[rows]
        used: dict[str, int] = {}
        for maker in makers[makers >= 0].tolist():
            used[self.rules[maker].name] = used.get(self.rules[maker].name, 0) + 1
        failures = [
            f"{self.costs.describe(number)}: {known.error}"
            for number, known in self.costs.measured.items()
            if known.error not in (None, NO_RECORD)
        ]
        without = sum(known.error == NO_RECORD for known in self.costs.measured.values())
        if without:
            remarks += (f"{without} kernels have no recorded time: only the input uses them",)
        return BlockReport(
            function=self.where[0],
            block=self.where[1],
            operators=len(self.read.nodes),
            exploration=self.exploration,
            cost_before=self.input_cost(),
            cost_after=solution.cost,
            bound=solution.bound,
            gap=solution.gap,
            status=solution.status,
            rounds=self.rounds,
            kernels_measured=self.costs.measured_now,
            kernels_recorded=len(self.costs.measured) - self.costs.measured_now - without,
            kernels_failed=len(failures),
            failures=tuple(failures),
            rules_used=used,
            rewrites=self.rewrites(rows),
            remarks=remarks,
        )

    def rewrites(self, rows: Ints) -> tuple[str, ...]:
        """Return the rewrites that lead to the chosen e-nodes, as text."""
        try:
            path = path_to(self.graph, self.rules, self.roots, rows)
        except PathTooLong as error:
            return (f"not listed: {error}",)
        return tuple(lines(path, self.rules))


def _add(found: dict[str, Ints], name: str, rows: Ints) -> None:
    """Add a form unless it is there already."""
    if all(set(rows.tolist()) != set(other.tolist()) for other in found.values()):
        found[name] = rows
