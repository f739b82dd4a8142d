"""The paper's ablations of extraction, as one table: greedy against ILP, and kinds of ILP.

    python -m tests.benchmarks.ablation [--models a,b] [--k-multi 1,2,3] [--time-limit 60]
        [--egraphs DIR] [--json FILE]

For each model and `k_multi`, with measured costs, after the evaluation of TENSAT (MLSys 2021):

- greedy DAG extraction against ILP on the e-graph whose cycles were filtered: predicted cost, and
  latency of the compiled graphs, timed in turn with the input's;
- on the filtered e-graph the published program without cycle constraints, on the unfiltered one
  that with real and with integer order variables, and this package's exact method on both: time
  and status within the time limit. With ``--egraphs`` the e-graphs are kept as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tvm
from tvm.target import Target

from tests.benchmarks.facts import facts, host_target
from tvm_tensat import zoo
from tvm_tensat.extraction import Problem, extract, problem_from_json
from tvm_tensat.passes import guard, optimize, side_by_side
from tvm_tensat.passes.hardware import Hardware
from tvm_tensat.passes.race import race

MODELS = ("bert", "nasrnn", "nasnet_a", "resnext50", "squeezenet", "vgg19", "inception_v3")

PROGRAMS = (
    ("filtered", "ilp"),
    ("filtered", "ilp-no-cycles"),
    ("unfiltered", "ilp"),
    ("unfiltered", "ilp-tensat-real"),
    ("unfiltered", "ilp-tensat-integer"),
)


@dataclass(frozen=True)
class Choice:
    """Greedy against ILP on one e-graph; costs and latencies in seconds, ratios to the input."""

    model: str
    k_multi: int
    nodes: int
    input_cost: float
    greedy_cost: float
    ilp_cost: float
    input_latency: float
    greedy_speedup: float
    ilp_speedup: float
    spread: float


@dataclass(frozen=True)
class Solved:
    """One program on one e-graph."""

    model: str
    k_multi: int
    egraph: str
    nodes: int
    method: str
    cost: float
    gap: float
    seconds: float
    status: str


def explore_and_choose(
    model: str, k_multi: int, target: Target, folder: Path
) -> tuple[Choice, dict[str, Problem]]:
    """Run the pass with either extractor, race the results, and read the e-graphs back."""
    module = zoo.load(model)
    settings = {"k_multi": k_multi, "check": False, "race": False, "candidates": 1}
    runs = {}
    for name, extractor, cycles in (
        ("greedy", "greedy-dag", "efficient"),
        ("filtered", "ilp", "efficient"),
        ("unfiltered", "ilp", "none"),
    ):
        runs[name] = optimize(
            module,
            target,
            extractor=extractor,
            cycles=cycles,
            egraphs=folder / f"{model}-k{k_multi}-{name}",
            **settings,
        )
    problems = {
        name: problem_from_json(folder / f"{model}-k{k_multi}-{name}" / "main-segment-0.json")
        for name in ("filtered", "unfiltered")
    }
    forms = side_by_side.build(
        {"input": module, "greedy": runs["greedy"].module, "ilp": runs["filtered"].module},
        target,
        None,
        Hardware(tvm.cpu(), target),
    )
    inputs = [tvm.runtime.tensor(each) for each in guard.random_inputs(module["main"], 0)]
    timed = race({name: form.timer("main", inputs) for name, form in forms.items()}, "main")
    greedy, ilp = runs["greedy"].report.blocks[0], runs["filtered"].report.blocks[0]
    choice = Choice(
        model,
        k_multi,
        ilp.exploration.nodes,
        ilp.cost_before,
        greedy.cost_after,
        ilp.cost_after,
        timed.seconds[0],
        timed.ratios[1],
        timed.ratios[2],
        max(timed.spread),
    )
    return choice, problems


def solve(model: str, k_multi: int, problems: dict[str, Problem], limit: float) -> list[Solved]:
    """Solve both e-graphs by the programs of the ablation."""
    rows = []
    for egraph, method in PROGRAMS:
        problem = problems[egraph]
        found = extract(problem, method, time_limit=limit)
        rows.append(
            Solved(
                model,
                k_multi,
                egraph,
                len(problem.node_class),
                method,
                found.cost,
                found.gap,
                found.seconds,
                found.status,
            )
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="names, comma-separated")
    parser.add_argument("--k-multi", default="1,2,3", help="numbers, comma-separated")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds a program (60)")
    parser.add_argument("--egraphs", type=Path, help="folder in which the e-graphs are kept")
    parser.add_argument("--json", type=Path, help="also write facts and figures to this file")
    options = parser.parse_args(arguments)
    known = facts()
    print(", ".join(f"{name} {value}" for name, value in known.items()))
    choices: list[Choice] = []
    solved: list[Solved] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.egraphs or Path(scratch)
        for model in options.models.split(","):
            for k_multi in map(int, options.k_multi.split(",")):
                choice, problems = explore_and_choose(model, k_multi, host_target(), folder)
                choices.append(choice)
                solved += solve(model, k_multi, problems, options.time_limit)
                print(f"{model}, k_multi {k_multi}: done", file=sys.stderr, flush=True)
                if options.json:
                    data = {
                        "facts": known,
                        "time_limit": options.time_limit,
                        "choices": [asdict(each) for each in choices],
                        "programs": [asdict(each) for each in solved],
                    }
                    options.json.write_text(json.dumps(data, indent=1))
    print_tables(choices, solved)
    return 0


def print_tables(choices: list[Choice], solved: list[Solved]) -> None:
    """Print both tables."""
    print(
        "| model | k_multi | e-nodes | predicted ms: input, greedy, ILP | input measured, ms "
        "| greedy, times as fast | ILP, times as fast | spread |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in choices:
        costs = ", ".join(
            f"{1e3 * cost:.3f}" for cost in (row.input_cost, row.greedy_cost, row.ilp_cost)
        )
        print(
            f"| {row.model} | {row.k_multi} | {row.nodes:,} | {costs} "
            f"| {1e3 * row.input_latency:.2f} | {row.greedy_speedup:.3f} | {row.ilp_speedup:.3f} "
            f"| {row.spread:.0%} |"
        )
    print("\n| model | k_multi | e-graph | e-nodes | method | cost, ms | gap | s | status |")
    print("|---|---|---|---|---|---|---|---|---|")
    for each in solved:
        print(
            f"| {each.model} | {each.k_multi} | {each.egraph} | {each.nodes:,} | {each.method} "
            f"| {1e3 * each.cost:.4f} | {each.gap:.2%} | {each.seconds:.2f} | {each.status} |"
        )


if __name__ == "__main__":
    sys.exit(main())
