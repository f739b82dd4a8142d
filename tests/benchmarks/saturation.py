"""Time of saturation against the number of e-nodes, on toy families that grow.

    python -m tests.benchmarks.saturation [--json FILE] [--runs 5] [--largest 1000000]

Families: sums that are reordered by associativity and commutativity (many matches a rule), fans of
products that share an operand (multi-patterns: quadratically many pairs), and deep stacks of
layers (few matches, long paths, cycles to filter). Each is explored with 100 more rules that never
match, as most rules do on most graphs.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import resource
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.benchmarks.facts import facts
from tests.egraph.toy import Law, ToyLanguage, as_rule
from tvm_tensat.egraph import EGraph, Exploration, Limits, explore
from tvm_tensat.egraph.rule import Rule

COMMUTATIVE = as_rule(Law((("add", "x", "y"),), (("add", "y", "x"),)), "commutative")
ASSOCIATIVE = as_rule(
    Law((("add", ("add", "x", "y"), "z"),), (("add", "x", ("add", "y", "z")),)), "associative"
)
FACTORED = as_rule(
    Law((("add", ("mul", "x", "y"), ("mul", "x", "z")),), (("mul", "x", ("add", "y", "z")),)),
    "factored",
)
INVOLUTION = as_rule(Law((("neg", ("neg", "x")),), ("x",)), "involution")
NEGATED = as_rule(Law((("mul", ("neg", "x"), "y"),), (("neg", ("mul", "x", "y")),)), "negated")
SIBLINGS = as_rule(
    Law(
        (("mul", "x", "a"), ("mul", "x", "b")),
        (
            (("get", (("index", 0),)), ("split", ("mul", "x", ("cat", "a", "b")))),
            (("get", (("index", 1),)), ("split", ("mul", "x", ("cat", "a", "b")))),
        ),
    ),
    "siblings",
)


def idle_rules(count: int) -> list[Rule]:
    """Rules whose operators occur in part or not at all."""
    rules = []
    for k in range(count):
        source = ("add", (f"absent{k}", "x"), "y") if k % 2 else (f"absent{k}", ("mul", "x", "y"))
        rules.append(as_rule(Law((source,), ("x",)), f"idle{k}"))
    return rules


Case = tuple[EGraph, list[Rule], Limits]


def term(graph: EGraph, name: str, *classes: int) -> int:
    """Add a toy operator on classes; a leaf of that name when there are none."""
    attrs = {} if classes else {"id": name}
    operator, _ = graph.language.make(name if classes else "leaf", attrs, (0,) * len(classes))
    return graph.add(operator, classes, 0)


def sums(nodes: int) -> Case:
    """Sums of 8 terms, which saturate at 6,069 e-nodes each but for the last, until the limit."""
    graph = EGraph(ToyLanguage())
    for number in range(1 + nodes // 6069):
        total = term(graph, f"a{number}")
        for k in range(7):
            total = term(graph, "add", total, term(graph, f"b{number}-{k}"))
    return graph, [COMMUTATIVE, ASSOCIATIVE], _limits(nodes)


def chain(nodes: int) -> Case:
    """One sum, longer with the limit, until the limit."""
    graph = EGraph(ToyLanguage())
    total = term(graph, "a")
    for k in range(max(10, math.isqrt(nodes) // 4)):
        total = term(graph, "add", total, term(graph, f"b{k}"))
    return graph, [COMMUTATIVE, ASSOCIATIVE], _limits(nodes)


def fan(nodes: int) -> Case:
    """Products of one operand; each pair makes five e-nodes."""
    graph = EGraph(ToyLanguage())
    x = term(graph, "x")
    for k in range(math.isqrt(2 * nodes // 5)):
        term(graph, "mul", x, term(graph, f"a{k}"))
    return graph, [SIBLINGS], _limits(2 * nodes)


def stack(nodes: int) -> Case:
    """Layers x -> -(x w + x v) x, with rules that close cycles; until saturation."""
    graph = EGraph(ToyLanguage())
    x = term(graph, "x")
    for k in range(max(2, nodes // STACK_NODES_PER_LAYER)):
        both = (term(graph, "mul", x, term(graph, f"{name}{k}")) for name in "vw")
        x = term(graph, "mul", term(graph, "neg", term(graph, "add", *both)), x)
    return graph, [COMMUTATIVE, FACTORED, INVOLUTION, NEGATED, SIBLINGS], _limits(2 * nodes)


FAMILIES: dict[str, Callable[[int], Case]] = {
    "sums": sums,
    "chain": chain,
    "fan": fan,
    "stack": stack,
}
STACK_NODES_PER_LAYER = 30  # after exploration, measured
SIZES = (1_000, 10_000, 100_000, 1_000_000)
IDLE = 100


def _limits(nodes: int) -> Limits:
    return Limits(nodes=nodes, seconds=600.0, matches=10**9)


@dataclass(frozen=True)
class Measurement:
    """Explorations of one graph.

    Attributes
    ----------
    family : str
    input_nodes, nodes, classes, filtered, iterations : int
    stopped : str
    seconds, fastest, slowest : float
        Median, smallest and largest of the runs.
    peak_gib : float
        Most memory of the process, its libraries and all runs included.
    """

    family: str
    input_nodes: int
    nodes: int
    classes: int
    filtered: int
    iterations: int
    stopped: str
    seconds: float
    fastest: float
    slowest: float
    peak_gib: float


def measure_apart(family: str, nodes: int, runs: int) -> Measurement:
    """Measure in a process of its own, whose memory is then that of this graph."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (family, nodes, runs))


def measure(family: str, nodes: int, runs: int) -> Measurement:
    """Explore fresh graphs of a family until about this many e-nodes."""
    idle = idle_rules(IDLE)
    seconds: list[float] = []
    result: Exploration | None = None
    before = 0
    for _ in range(runs):
        graph, rules, limits = FAMILIES[family](nodes)
        before = graph.node_count
        result = explore(graph, [*rules, *idle], limits)
        seconds.append(result.seconds)
    assert result is not None, "runs is at least 1"
    return Measurement(
        family,
        before,
        result.nodes,
        result.classes,
        result.filtered,
        result.iterations,
        result.stopped,
        statistics.median(seconds),
        min(seconds),
        max(seconds),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    )


def exponent(some: Sequence[Measurement]) -> float:
    """Fit b of seconds = a * nodes^b by least squares of the logarithms."""
    nodes = [math.log(each.nodes) for each in some]
    seconds = [math.log(each.seconds) for each in some]
    return statistics.linear_regression(nodes, seconds).slope


def idle_iteration(rules: int, nodes: int, runs: int) -> float:
    """Median seconds of an exploration, set-up included, of one iteration without a match."""
    graph = EGraph(ToyLanguage())
    total = term(graph, "x")
    for k in range(nodes // 2):
        total = term(graph, "add", total, term(graph, f"b{k}"))
    idle = idle_rules(rules)
    return statistics.median(
        explore(graph, idle, Limits(nodes=10**6)).seconds for _ in range(max(runs, 3))
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write facts and measurements to this file")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="largest size, in e-nodes")
    parser.add_argument("--family", choices=FAMILIES, action="append")
    options = parser.parse_args(arguments)
    known = facts()
    print(", ".join(f"{name} {value}" for name, value in known.items()))
    idle = {str(n): idle_iteration(150, n, options.runs) for n in (500, 5_000, 50_000)}
    for size, seconds in idle.items():
        print(f"150 rules set up, one iteration, no match, {size} e-nodes: {seconds * 1e3:.1f} ms")
    print(
        f"{'family':7} {'input':>6} {'e-nodes':>8} {'classes':>8} {'hidden':>7} {'iterations':>10}"
        f" {'seconds':>8} {'fastest':>8} {'slowest':>8} {'GiB':>5}  stopped"
    )
    results, exponents = [], {}
    for family in options.family or FAMILIES:
        sizes = [size for size in SIZES if size <= options.largest]
        some = [measure_apart(family, size, options.runs) for size in sizes]
        for row in some:
            print(
                f"{family:7} {row.input_nodes:6} {row.nodes:8} {row.classes:8} {row.filtered:7}"
                f" {row.iterations:10} {row.seconds:8.3f} {row.fastest:8.3f} {row.slowest:8.3f}"
                f" {row.peak_gib:5.2f}  {row.stopped}",
                flush=True,
            )
        results += some
        if len(some) > 1:
            exponents[family] = exponent(some)
            print(f"{family:7} seconds ~ e-nodes^{exponents[family]:.2f}")
    if options.json is not None:
        report = {
            "facts": known,
            "idle_iteration_seconds": idle,
            "exponents": exponents,
            "results": [asdict(row) for row in results],
        }
        options.json.write_text(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
