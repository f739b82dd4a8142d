"""The search for the cheapest graph: extract, measure what was chosen, correct, repeat.

Extraction chooses by a sum over e-nodes; what a chosen graph costs is the sum of its kernels as TVM
fuses them. Each graph chosen is measured so, and corrects the costs from which the next one is
chosen, until extraction chooses a graph that is known already, or no graph could be cheaper than
the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tvm_tensat.cost.device import Device
from tvm_tensat.cost.fused import GraphKernel, graph_kernels
from tvm_tensat.cost.nodes import NodeCosts
from tvm_tensat.egraph import FROM_INPUT, EGraph
from tvm_tensat.egraph.egraph import Ints
from tvm_tensat.extraction import Solution, extract, extract_pool
from tvm_tensat.extraction.egraph import problem_of
from tvm_tensat.fusion import Lowering, emitted_graph
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.phases import Phases
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.order import ChosenGraph
from tvm_tensat.relax.reader import ReadSegment

# Most graphs that extraction may choose, one after another.
MOST_ROUNDS = 12

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


@dataclass(frozen=True, eq=False)
class Graph:
    """One choice of e-nodes and what it costs.

    Attributes
    ----------
    rows : (chosen,) int64
        Rows of the e-graph, one for each class needed.
    chosen : ChosenGraph
    kernels : tuple of GraphKernel
        What TVM will run.
    seconds : float
    exact : bool
        Whether each kernel was measured, not only each kernel's largest operator.
    """

    rows: Ints
    chosen: ChosenGraph
    kernels: tuple[GraphKernel, ...]
    seconds: float
    exact: bool


class Reader:
    """Sees rows of an e-graph as a graph in the order of bindings."""

    def __init__(
        self, graph: EGraph, language: RelaxLanguage, read: ReadSegment, device: Device
    ) -> None:
        self.graph, self.language, self.read = graph, language, read
        self.lowering = Lowering(language, device.target)

    def kernels(self, rows: Ints) -> tuple[ChosenGraph, tuple[GraphKernel, ...]]:
        """Return the graph of these rows, of which each class has at most one, and its kernels."""
        graph = self.graph
        choice, row_of = {}, {}
        for row in rows.tolist():
            operator = int(graph.node_operator[row])
            start = int(graph.node_start[row])
            operands = graph.operands[start : start + int(graph.operator_arity[operator])]
            number = graph.find(int(graph.node_class[row]))
            choice[number] = operator, tuple(operands.tolist())
            row_of[number] = row
        chosen = ChosenGraph(self.read, choice, graph.find)
        emitted = emitted_graph(chosen, graph, row_of)
        return chosen, tuple(graph_kernels(emitted, self.language, self.lowering))


class Search:
    """Costs and extractions of one e-graph.

    Parameters
    ----------
    reader : Reader
    given : tuple of GraphKernel
        The input's kernels. They must be found before the e-graph grows: afterwards two e-nodes of
        the input may be in one class.
    device : Device
    options : TensatOptions
    phases : Phases

    Attributes
    ----------
    costs : NodeCosts
    rounds : int
        Extractions so far.
    """

    def __init__(
        self,
        reader: Reader,
        given: tuple[GraphKernel, ...],
        device: Device,
        options: TensatOptions,
        phases: Phases,
    ) -> None:
        self.reader, self.given = reader, given
        self.options, self.phases = options, phases
        self.graph = reader.graph
        self.costs = NodeCosts(self.graph, reader.language, device)
        self.roots = [number for _, number in reader.read.roots]
        self.rounds = 0
        self._choice: Ints | None = None  # the last one
        self._seen: dict[bytes, Graph] = {}
        self.measure(given)
        self.costs.learn(given)

    def input_cost(self) -> float:
        """Return the predicted seconds of the input."""
        return self.costs.seconds(self.given)

    def find(self) -> tuple[Solution, Graph | None, dict[str, Graph]]:
        """Search for what is cheaper than the input.

        Returns
        -------
        Solution
            Of the extraction that ended the search for the cheapest.
        Graph or None
            The cheapest graph, if any is cheaper than the input.
        dict of str to Graph
            Graphs worth a race, the cheapest first; none where it gains too little.
        """
        solution, best = self.choose()
        if best is None or best.seconds > (1.0 - LEAST_GAIN) * self.input_cost():
            return solution, best, {}
        candidates = self.candidates(best)
        return solution, candidates[CHEAPEST], candidates

    def measure(self, kernels: Sequence[GraphKernel]) -> None:
        """Measure what is not measured of these kernels."""
        wanted = self.costs.unmeasured(kernels)
        if wanted:
            with self.phases("measure"), self.phases.bar("measuring", len(wanted)) as show:
                self.costs.measure(wanted, progress=lambda done, _: show(done))

    def evaluate(self, rows: Ints, exact: bool) -> Graph:
        """Return what a choice costs; it corrects the costs of its e-nodes.

        Parameters
        ----------
        rows : (chosen,) int64
        exact : bool
            Whether all of its kernels are measured, or only those whose largest operator was the
            largest in no kernel yet; the others are estimated from that.
        """
        key = np.sort(rows).tobytes()
        known = self._seen.get(key)
        if known is None or (exact and not known.exact):
            chosen, kernels = self.reader.kernels(rows)
            self.measure(kernels if exact else self.costs.without_anchor(kernels))
            self.costs.learn(kernels)
            seconds = self.costs.seconds(kernels)
            known = self._seen[key] = Graph(rows, chosen, kernels, seconds, exact)
        return known

    def choose(self, caution: float = 0.0) -> tuple[Solution, Graph | None]:
        """Extract and measure until the choice is known or nothing could be cheaper.

        Parameters
        ----------
        caution : float
            By how much more than they cost kernels that the input does not have are charged.

        Returns
        -------
        Solution
            Of the last extraction.
        Graph or None
            The cheapest of those that were chosen, measured exactly; None if none was cheaper than
            the input.
        """
        signature = self.costs.node_signature
        given = np.isin(signature, signature[self.graph.node_rule == FROM_INPUT])
        chosen: dict[bytes, Ints] = {}

        def charged(rows: Ints) -> float:
            new = rows[~given[rows]]
            extra = caution * float(self.costs.costs()[new].sum()) if caution else 0.0
            return self.evaluate(rows, exact=False).seconds + extra

        for _ in range(MOST_ROUNDS):
            self.rounds += 1
            values = self.costs.costs()
            values[~given] *= 1.0 + caution
            solution, rows = self.extract(values)
            best = min(chosen.values(), key=charged, default=None)
            least = self.input_cost() if best is None else min(self.input_cost(), charged(best))
            key = np.sort(rows).tobytes()
            if key in chosen or solution.cost >= least * (1.0 - LEAST_GAIN):
                # Its costs are at most what its kernels take: nothing is cheaper than the best.
                if best is None or self.evaluate(best, exact=False).exact:
                    break
                self.evaluate(best, exact=True)
                continue
            chosen[key] = rows
            self.evaluate(rows, exact=False)
        best = min(chosen.values(), key=charged, default=None)
        if best is None or charged(best) >= self.input_cost():
            return solution, None
        return solution, self.evaluate(best, exact=True)

    def extract(self, values: NDArray[np.float64]) -> tuple[Solution, Ints]:
        """Return the cheapest choice for these costs of the e-nodes, and its rows."""
        problem, rows, _ = problem_of(self.graph, self.roots, values)
        with self.extracting() as progress:
            solution = extract(
                problem,
                self.options.extractor,
                solver=self.options.solver,
                time_limit=self.options.extract_seconds,
                start=self._choice,
                progress=progress,
            )
        if solution.status.endswith("interrupted"):
            raise KeyboardInterrupt  # extraction gives the best so far, a pass just ends
        self._choice = solution.choice
        return solution, rows[solution.choice[solution.choice >= 0]]

    def candidates(self, first: Graph) -> dict[str, Graph]:
        """Return the graphs that are worth a race, at most `options.candidates`, by name.

        Parameters
        ----------
        first : Graph
            What `choose` gave.
        """
        most = self.options.candidates
        cautious = self.choose(CAUTION)[1] if most > 1 else None
        others = [first]
        if most > (1 if cautious in (None, first) else 2) and self.options.extractor == "ilp":
            others += self.pool(most)
        others.sort(key=_seconds)
        cheapest = others[0] if cautious is None else min(others[0], cautious, key=_seconds)
        worst = min(MOST_COST * cheapest.seconds, self.input_cost())
        found = {CHEAPEST: cheapest}
        if cautious not in (None, cheapest) and cautious.seconds <= worst:
            found[CAUTIOUS] = cautious
        for graph in others:
            if len(found) < most and graph.seconds <= worst and graph not in found.values():
                found[f"optimized, alternative {len(found)}"] = graph
        return found

    def pool(self, most: int) -> list[Graph]:
        """Return choices that are almost as cheap as the cheapest and differ from it."""
        # Only kernels whose time is known: a guess is no reason to build another form.
        values = self.costs.costs()
        values[self.costs.guessed()] = np.inf
        problem, rows_of, _ = problem_of(self.graph, self.roots, values)
        with self.extracting() as progress:
            pool = extract_pool(
                problem,
                most,
                difference=DIFFERENCE,
                most_cost=MOST_COST,
                solver=self.options.solver,
                time_limit=self.options.extract_seconds,
                start=self._choice,
                progress=progress,
            )
        if pool[-1].status.endswith("interrupted"):
            raise KeyboardInterrupt
        return [
            self.evaluate(rows_of[member.choice[member.choice >= 0]], exact=True) for member in pool
        ]

    @contextmanager
    def extracting(self) -> Iterator[Callable[[float, float], None]]:
        """Show how much of the cost is proven, in per cent."""
        with self.phases("extract"), self.phases.bar("extracting, % proven", 100) as show:
            yield lambda cost, bound: show(int(100 * bound / cost) if cost > 0 else 100)


def _seconds(graph: Graph) -> float:
    return graph.seconds
