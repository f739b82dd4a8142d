"""Exploration of real models: time, size, and what cycle filtering costs.

    python -m tests.benchmarks.exploration [--models a,b] [--k-multi 1,2] [--cycles efficient]
        [--runs 5] [--seconds 20] [--json FILE]

The product's own rules and types, 15 iterations, 50,000 e-nodes. A model is read and explored once
cold, which runs the rules on all their signatures and infers the types of what they make; then as
often as `--runs` says on fresh e-graphs with those known, and the median is given.
``--cycles efficient,vanilla`` reproduces the paper's ablation of cycle filtering.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.benchmarks.facts import facts
from tvm_tensat import zoo
from tvm_tensat.egraph import EGraph, Exploration, Limits, Memo, explore
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import Segment, plan_function
from tvm_tensat.relax.reader import read_segment
from tvm_tensat.rules import all_rules


@dataclass(frozen=True)
class Row:
    """One model in one configuration; times in seconds.

    Attributes
    ----------
    read : float
        Reading the block, its types included.
    infer : float
        What the cold exploration took longer than the warm ones: rules and type inference.
    explore, fastest, slowest : float
        Warm: median, smallest and largest.
    """

    model: str
    k_multi: int
    cycles: str
    operators: int
    read: float
    infer: float
    explore: float
    fastest: float
    slowest: float
    nodes: int
    classes: int
    filtered: int
    iterations: int
    stopped: str


def explore_once(
    segment: Segment, language: RelaxLanguage, limits: Limits, memo: Memo
) -> tuple[float, int, Exploration]:
    """Read and explore; return the seconds of reading, the operators read, and the exploration."""
    graph = EGraph(language)
    began = time.perf_counter()
    read = read_segment(segment, language, graph)
    reading = time.perf_counter() - began
    return reading, len(read.nodes), explore(graph, all_rules("real"), limits, memo=memo)


def measure(model: str, k_multi: int, cycles: str, runs: int, seconds: float) -> Row:
    """Explore a model, cold and warm."""
    [segment] = plan_function(zoo.load(model)["main"], {}).segments
    language = RelaxLanguage()
    memo = Memo(language)
    limits = Limits(k_multi=k_multi, cycles=cycles, seconds=seconds)
    reading, operators, cold = explore_once(segment, language, limits, memo)
    warm = [explore_once(segment, language, limits, memo)[2] for _ in range(runs)]
    times = [each.seconds for each in warm]
    middle = statistics.median(times)
    last = warm[-1]
    return Row(
        model,
        k_multi,
        cycles,
        operators,
        reading,
        cold.seconds - middle,
        middle,
        min(times),
        max(times),
        last.nodes,
        last.classes,
        last.filtered,
        last.iterations,
        last.stopped,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(zoo.names()), help="names, comma-separated")
    parser.add_argument("--k-multi", default="1,2", help="numbers, comma-separated")
    parser.add_argument("--cycles", default="efficient", help="efficient, vanilla, none")
    parser.add_argument("--runs", type=int, default=5, help="warm explorations of each")
    parser.add_argument("--seconds", type=float, default=20.0, help="most time of one exploration")
    parser.add_argument("--json", type=Path, help="also write facts and figures to this file")
    options = parser.parse_args(arguments)
    known = facts()
    print(", ".join(f"{name} {value}" for name, value in known.items()))
    print(f"rules {len(all_rules('real'))}; seconds: median of {options.runs} (smallest, largest)")
    print(
        "| model | k_multi | cycles | operators | read | infer | explore | e-nodes | e-classes "
        "| filtered | iterations | stopped |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    rows = []
    for model in options.models.split(","):
        for k_multi in map(int, options.k_multi.split(",")):
            for cycles in options.cycles.split(","):
                row = measure(model, k_multi, cycles, options.runs, options.seconds)
                rows.append(row)
                print(
                    f"| {row.model} | {row.k_multi} | {row.cycles} | {row.operators} "
                    f"| {row.read:.2f} | {row.infer:.2f} "
                    f"| {row.explore:.3f} ({row.fastest:.3f}, {row.slowest:.3f}) "
                    f"| {row.nodes:,} | {row.classes:,} | {row.filtered:,} | {row.iterations} "
                    f"| {row.stopped} |",
                    flush=True,
                )
                if options.json:
                    data = {"facts": known, "rows": [asdict(each) for each in rows]}
                    options.json.write_text(json.dumps(data, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
