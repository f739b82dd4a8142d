"""Do predicted costs say what compiled models take, and do they choose well?

``python -m tests.benchmarks.costs [--models a,b] [--graphs N] [--json FILE] [--plot FILE]``

Of each model, graphs out of its e-graph are predicted and measured: the input, what the search
chooses, and choices by costs with random factors. *Fused* is this package's prediction, the sum of
kernels measured as TVM fuses them; *single* is the paper's, the sum of operators measured one by
one. Measured latencies are taken in turn, in batches that all contain the input; a graph's latency
is the input's over all batches times the graph's ratio to it. Kernels and graphs are timed at
different moments, so a machine that changes its speed shows as a common factor: errors are given
as they are, and with the input's own factor divided out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from scipy.stats import spearmanr
from tvm.target import Target

from tests.benchmarks.facts import host_target, print_facts
from tvm_tensat import zoo
from tvm_tensat.cost import CostStore
from tvm_tensat.cost.device import Device
from tvm_tensat.cost.fused import GraphKernel, kernel_of
from tvm_tensat.cost.roofline import Roofline
from tvm_tensat.cost.signatures import FREE
from tvm_tensat.egraph import EGraph, Limits, explore
from tvm_tensat.extraction import extract
from tvm_tensat.extraction.egraph import problem_of
from tvm_tensat.passes import TensatOptions, guard, side_by_side
from tvm_tensat.passes.hardware import Hardware
from tvm_tensat.passes.phases import Phases
from tvm_tensat.passes.race import race
from tvm_tensat.passes.search import Reader, Search
from tvm_tensat.relax.fold import fold_weights
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.order import ChosenGraph
from tvm_tensat.relax.plan import plan_function
from tvm_tensat.relax.reader import read_segment
from tvm_tensat.relax.writer import rebuild, write_chosen
from tvm_tensat.rules import all_rules

BATCH = 6  # graphs that are built and timed together, besides the input
NOISE = 0.7  # standard deviation of the logarithm of the random factors
MOST_SLOWER = 2.0  # random choices that are predicted to take longer than this are left out


Figures = dict[str, float]  # seconds by graph


@dataclass(frozen=True)
class Row:
    """What was found about one model."""

    model: str
    measured: Figures
    fused: Figures
    single: Figures
    signatures: int
    kernels: int
    rounds: int
    measuring: float
    measuring_again: float
    kernels_again: int


class SingleReader(Reader):
    """Sees each operator as a kernel of its own, as the paper does."""

    def kernels(self, rows: Any) -> tuple[ChosenGraph, tuple[GraphKernel, ...]]:
        chosen, fused = super().kernels(rows)
        if not fused:
            return chosen, ()
        emitted = fused[0].emitted
        members = sorted(member for kernel in fused for member in kernel.members)
        return chosen, tuple(kernel_of(emitted, (m,), self.language) for m in members)


@dataclass
class Model:
    """A zoo model, its e-graph, and the searches by both kinds of costs."""

    name: str
    target: Target
    device: Device
    module: tvm.IRModule = field(init=False)

    def __post_init__(self) -> None:
        self.module = zoo.load(self.name)
        self.plan = plan_function(self.module["main"], {})
        (self.segment,) = self.plan.segments
        self.fused = self.search(Reader)
        self.single = self.search(SingleReader)

    def search(self, kind: type[Reader]) -> Search:
        language = RelaxLanguage()
        graph = EGraph(language)
        read = read_segment(self.segment, language, graph)
        graph.rebuild()
        reader = kind(graph, language, read, self.device)
        _, given = reader.kernels(np.flatnonzero(graph.node_alive))
        explore(graph, all_rules("real"), Limits(k_multi=1))
        return Search(reader, given, self.device, TensatOptions(), Phases())

    def random_choices(self, count: int, generator: np.random.Generator) -> list[Any]:
        """Return rows of choices that differ, by costs with random factors for each signature."""
        search = self.fused
        found: dict[bytes, Any] = {}
        costs = search.costs.costs()
        for _ in range(20 * count):
            factor = np.exp(NOISE * generator.standard_normal(len(search.costs.signatures)))
            noisy = costs * factor[search.costs.node_signature]
            problem, rows, _ = problem_of(search.graph, search.roots, noisy)
            choice = extract(problem, "greedy-dag").choice
            chosen = rows[choice[choice >= 0]]
            if costs[chosen].sum() <= MOST_SLOWER * search.input_cost():
                found[np.sort(chosen).tobytes()] = chosen
            if len(found) == count:
                break
        return list(found.values())

    def written(self, search: Search, rows: Any) -> tvm.IRModule:
        chosen, _ = search.reader.kernels(rows)
        result = tvm.IRModule(self.module.functions, attrs=self.module.attrs)
        bindings = write_chosen(search.reader.read, chosen)
        new = rebuild(self.plan, {self.segment: bindings})
        result[self.module.get_global_var("main")] = new
        return fold_weights(result)

    def single_seconds(self, rows: Any) -> float:
        """Return the sum of a graph's operators, each measured alone.

        Both searches read and explored the same, so rows mean the same in them.
        """
        _, kernels = self.single.reader.kernels(rows)
        self.single.measure(kernels)
        return self.single.costs.seconds(kernels)


def timed(model: tvm.IRModule, modules: dict[str, tvm.IRModule], target: Target) -> Figures:
    """Time modules in batches that contain the input; return seconds of each and the input's."""
    arguments = [
        tvm.runtime.tensor(array, device=tvm.cpu())
        for array in guard.random_inputs(model["main"], 0)
    ]
    depth = len(model["main"].body.blocks[0].bindings)
    ratios: Figures = {}
    input_seconds = []
    names = list(modules)
    for start in range(0, len(names), BATCH):
        batch = {"input": model} | {name: modules[name] for name in names[start : start + BATCH]}
        forms = side_by_side.build(batch, target, None, Hardware(tvm.cpu(), target))
        outputs = {
            name: guard.flatten(form.runner("main", arguments)()) for name, form in forms.items()
        }
        for name in batch:
            if difference := guard.difference(outputs["input"], outputs[name], depth):
                sys.exit(f"{name} computes something else: {difference}")
        timers = {name: form.timer("main", arguments) for name, form in forms.items()}
        found = race(timers, "main")
        input_seconds.append(found.seconds[0])
        ratios |= dict(zip(found.modules[1:], found.ratios[1:], strict=True))
    middle = statistics.median(input_seconds)
    return {"input": middle} | {name: middle / ratio for name, ratio in ratios.items()}


def measure_model(name: str, target: Target, device: Device, count: int, seed: int) -> Row:
    """Predict and measure graphs of one model."""
    model = Model(name, target, device)
    _, best = model.fused.choose()
    measuring = model.fused.phases.seconds.get("measure", 0.0)
    kernels, rounds = model.fused.costs.measured_now, model.fused.rounds
    _, by_single = model.single.choose()
    graphs = {"fused": best.rows} if best is not None else {}
    if by_single is not None:
        graphs["single"] = by_single.rows
    drawn = model.random_choices(count, np.random.default_rng(seed))
    graphs |= {f"random {k}": rows for k, rows in enumerate(drawn)}
    fused = {key: model.fused.evaluate(rows, exact=True).seconds for key, rows in graphs.items()}
    single = {key: model.single_seconds(rows) for key, rows in graphs.items()}
    modules = {key: model.written(model.fused, rows) for key, rows in graphs.items()}
    measured = timed(model.module, modules, target)
    again = Model(name, target, device).fused
    again.choose()
    return Row(
        model=name,
        measured=measured,
        fused=fused | {"input": model.fused.input_cost()},
        single=single | {"input": model.single.input_cost()},
        signatures=int((model.fused.costs._kind != FREE).sum()),
        kernels=kernels,
        rounds=rounds,
        measuring=measuring,
        measuring_again=again.phases.seconds.get("measure", 0.0),
        kernels_again=again.costs.measured_now,
    )


def errors(predicted: Figures, measured: Figures, factor: float) -> list[float]:
    """Return the relative errors of predictions that are multiplied by a factor."""
    return [abs(factor * predicted[key] / measured[key] - 1.0) for key in measured]


def print_table(rows: list[Row]) -> None:
    print(
        "| model | graphs | error fused: as is, relative to input | single: as is, relative "
        "| rank correlation fused, single | chosen by fused, by single: times as fast as the input "
        "| kernels measured, of signatures | measuring, s: first, again |"
    )
    print("|---|---|---|---|---|---|---|---|")
    everything: dict[str, list[float]] = {}
    for row in rows:
        cells = [row.model, str(len(row.measured))]
        ranks = []
        for kind, predicted in (("fused", row.fused), ("single", row.single)):
            own = row.measured["input"] / predicted["input"]
            plain = errors(predicted, row.measured, 1.0)
            relative = errors(predicted, row.measured, own)
            everything.setdefault(kind, []).extend(plain)
            everything.setdefault(kind + ", relative to the input", []).extend(relative)
            cells.append(f"{statistics.median(plain):.1%}, {statistics.median(relative):.1%}")
            keys = list(row.measured)
            rank = spearmanr([predicted[k] for k in keys], [row.measured[k] for k in keys])
            ranks.append(f"{rank.statistic:.3f}")
        cells.append(", ".join(ranks))
        speed = [
            f"{row.measured['input'] / row.measured[kind]:.3f}" if kind in row.measured else "input"
            for kind in ("fused", "single")
        ]
        cells.append(", ".join(speed))
        cells.append(f"{row.kernels}, {row.signatures}")
        cells.append(
            f"{row.measuring:.1f}, {row.measuring_again:.2f} ({row.kernels_again} kernels)"
        )
        print(f"| {' | '.join(cells)} |")
    graphs = sum(len(row.measured) for row in rows)
    print(f"\nmedian absolute error over {graphs} graphs:")
    for kind, values in everything.items():
        high = np.percentile(values, 90)
        print(f"  {kind}: {statistics.median(values):.1%} (90% of them below {high:.1%})")


def plot(rows: list[Row], path: Path) -> None:
    """Draw predicted against measured latency, both axes logarithmic, as SVG."""
    points = [
        (row.measured[key], predicted[key], color)
        for row in rows
        for predicted, color in ((row.single, "#d95f02"), (row.fused, "#1b9e77"))
        for key in row.measured
    ]
    low = min(min(x, y) for x, y, _ in points) / 1.2
    high = max(max(x, y) for x, y, _ in points) * 1.2
    place = lambda value: 40 + 520 * np.log(value / low) / np.log(high / low)  # noqa: E731
    dots = "".join(
        f'<circle cx="{place(x):.1f}" cy="{600 - place(y):.1f}" r="3" fill="{color}"/>'
        for x, y, color in points
    )
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 600" font-family="sans-serif" '
        'font-size="13"><rect width="600" height="600" fill="white"/>'
        '<line x1="40" y1="560" x2="560" y2="40" stroke="#999"/>'
        f"{dots}"
        f'<text x="200" y="590">measured, {1e3 * low:.2f} to {1e3 * high:.0f} ms</text>'
        '<text x="60" y="60" fill="#1b9e77">predicted: kernels as TVM fuses them</text>'
        '<text x="60" y="80" fill="#d95f02">predicted: operators one by one</text></svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="squeezenet,shufflenet,bert,nasrnn,resnet50")
    parser.add_argument("--graphs", type=int, default=24, help="random choices of each model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", type=Path, help="cost store; by default the user's")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--plot", type=Path, help="write a picture to this SVG file")
    options = parser.parse_args()
    target = host_target()
    print_facts(target)
    print(f"seed: {options.seed}\n")
    store = CostStore(options.store)
    device = Device(target, Roofline.calibrated(target, store), store)
    rows = []
    for name in options.models.split(","):
        with device.place.kept():
            rows.append(measure_model(name, target, device, options.graphs, options.seed))
        print_table(rows[-1:])
        sys.stdout.flush()
        if options.json:
            options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    print("\nall models\n")
    print_table(rows)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
