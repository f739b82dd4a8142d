"""The engine beside egglog, on the terms of real models under the same laws.

    python -m tests.benchmarks.peers [--models bert,nasrnn,nasnet_a] [--iterations 2] [--runs 3]
        [--json FILE]

Needs egglog from PyPI (the extra ``bench``). The configuration is egglog's: no cycle filter, no
back-off, no limit, and pairs of siblings in both orders and with themselves. So both must end with
equally many e-nodes; the counts are compared, and a difference is an error. The laws are TASO's
for the operators of these models, without types: both engines see the same untyped operators.
Multi-pattern laws take part in all iterations. Parsing is not timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from unittest import mock

from tests.benchmarks.facts import facts
from tests.egraph.toy import Law, Pattern, ToyLanguage, as_rule
from tvm_tensat import zoo
from tvm_tensat.egraph import EGraph, Limits, explore, multi
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import plan_function
from tvm_tensat.relax.reader import read_segment

Node = tuple[str, tuple[int, ...]]  # an operator's name, numbers of earlier nodes
MODELS = ("bert", "nasrnn", "nasnet_a")


def nodes_of(model: str) -> list[Node]:
    """The e-nodes of a model; operators with different attributes have different names."""
    [segment] = plan_function(zoo.load(model)["main"], {}).segments
    language = RelaxLanguage()
    graph = EGraph(language)
    read_segment(segment, language, graph)
    numbers: dict[str, dict[int, int]] = {}
    nodes: list[Node] = []
    for row, number in enumerate(graph.usable().tolist()):
        assert row == number, "the e-graph is as it was read"
        operator = int(graph.node_operator[row])
        name = language.operator(operator).name.rpartition(".")[2]
        if name in ("leaf", "weight", "scalar"):
            nodes.append((f"leaf{row}", ()))
            continue
        same = numbers.setdefault(name, {})
        name = f"{name}{same.setdefault(operator, len(same))}"
        arity = int(graph.operator_arity[operator])
        begin = int(graph.node_start[row])
        children = tuple(graph.operands[begin : begin + arity].tolist())
        nodes.append((f"{name}_{arity}", children))
    return nodes


def laws_for(nodes: Sequence[Node]) -> list[Law]:
    """The laws of the operators that occur."""
    names = dict.fromkeys(name for name, children in nodes if children)
    linear = [name for name in names if name.startswith(("matmul", "conv2d"))]
    elementwise = [name for name in names if name.startswith(("relu", "tanh", "sigmoid"))]
    sums = [name for name in names if name.startswith("add")]
    products = [name for name in names if name.startswith("multiply")]
    both_ways: list[tuple[Pattern, Pattern]] = []
    found: list[Law] = []
    for op in sums + products:
        both_ways.append(((op, "x", "y"), (op, "y", "x")))
        both_ways.append(((op, (op, "x", "y"), "z"), (op, "x", (op, "y", "z"))))
    for plus in sums:
        for op in linear + products:
            both_ways.append(((op, (plus, "x", "y"), "z"), (plus, (op, "x", "z"), (op, "y", "z"))))
            both_ways.append(((op, "x", (plus, "y", "z")), (plus, (op, "x", "y"), (op, "x", "z"))))
    for op in linear:
        joined = (op, "x", ("join", "a", "b"))
        found.append(Law(((op, "x", "a"), (op, "x", "b")), (("first", joined), ("second", joined))))
        if op.startswith("matmul"):
            both_ways.append(((op, (op, "x", "y"), "z"), (op, "x", (op, "y", "z"))))
            stacked = (op, ("stack", "a", "b"), "x")
            found.append(
                Law(((op, "a", "x"), (op, "b", "x")), (("top", stacked), ("bottom", stacked)))
            )
    for op in elementwise:
        fields = ("first", "second", "top", "bottom")
        both_ways += [((op, (field, "x")), (field, (op, "x"))) for field in fields]
    found.append(Law((("first", ("join", "x", "y")),), ("x",)))
    found.append(Law((("second", ("join", "x", "y")),), ("y",)))
    for left, right in both_ways:
        found += [Law((left,), (right,)), Law((right,), (left,))]
    return list(dict.fromkeys(found))


def ours(nodes: Sequence[Node], some: Sequence[Law], iterations: int) -> tuple[float, int]:
    """Seconds and e-nodes of this engine."""
    language = ToyLanguage()
    graph = EGraph(language)
    classes: list[int] = []
    for name, children in nodes:
        attrs = {} if children else {"id": name}
        operator, _ = language.make(name if children else "leaf", attrs, (0,) * len(children))
        classes.append(graph.add(operator, [classes[child] for child in children], 0))
    multi.sources_of.cache_clear()
    with mock.patch.object(multi, "interchangeable", lambda *_: False):
        rules = [as_rule(law, f"law{k}") for k, law in enumerate(some)]
        limits = Limits(iterations, 10**9, 3600.0, iterations, 10**12, "none")
        result = explore(graph, rules, limits)
    multi.sources_of.cache_clear()
    return result.seconds, result.nodes


def theirs(nodes: Sequence[Node], some: Sequence[Law], iterations: int) -> tuple[float, int]:
    """Seconds and e-nodes of egglog."""
    from egglog.bindings import EGraph as Egglog

    engine = Egglog()
    arity = {name: len(children) for name, children in nodes if children}
    for law in some:
        for pattern in (*law.sources, *law.targets):
            arity |= dict(_arities(pattern))
    lines = ["(sort E)", "(constructor leaf (i64) E)"]
    lines += [f"(constructor op_{name} ({'E ' * count}) E)" for name, count in arity.items()]
    lines += [_as_egglog(law) for law in some]
    for number, (name, children) in enumerate(nodes):
        operands = " ".join(f"$n{child}" for child in children)
        lines.append(
            f"(let $n{number} ({f'op_{name} {operands}' if children else f'leaf {number}'}))"
        )
    engine.run_program(*engine.parse_program("\n".join(lines)))
    run = engine.parse_program(f"(run {iterations})")
    began = time.perf_counter()
    engine.run_program(*run)
    seconds = time.perf_counter() - began
    [sizes] = engine.run_program(*engine.parse_program("(print-size)"))
    tables = {"leaf", *(f"op_{name}" for name in arity)}
    return seconds, sum(count for name, count in sizes.sizes if name in tables)


def _arities(pattern: Pattern) -> list[tuple[str, int]]:
    if isinstance(pattern, str):
        return []
    inner = [pair for child in pattern[1:] for pair in _arities(child)]
    return [(pattern[0], len(pattern) - 1), *inner]


def _text(pattern: Pattern) -> str:
    if isinstance(pattern, str):
        return pattern
    return f"(op_{pattern[0]} {' '.join(map(_text, pattern[1:]))})"


def _as_egglog(law: Law) -> str:
    if len(law.sources) == 1:
        return f"(rewrite {_text(law.sources[0])} {_text(law.targets[0])})"
    facts_ = " ".join(f"(= r{k} {_text(source)})" for k, source in enumerate(law.sources))
    unions = " ".join(f"(union r{k} {_text(target)})" for k, target in enumerate(law.targets))
    return f"(rule ({facts_}) ({unions}))"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="names, comma-separated")
    parser.add_argument("--iterations", default="1,2", help="numbers, comma-separated")
    parser.add_argument("--runs", type=int, default=3, help="runs of each engine, in turn")
    parser.add_argument("--json", type=Path, help="also write facts and figures to this file")
    options = parser.parse_args(arguments)
    known = facts() | {"egglog": version("egglog")}
    print(", ".join(f"{name} {value}" for name, value in known.items()))
    print("| model | iterations | laws | e-nodes | ours, s | egglog, s | times as fast |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for model in options.models.split(","):
        nodes = nodes_of(model)
        some = laws_for(nodes)
        for iterations in map(int, options.iterations.split(",")):
            times: dict[str, list[float]] = {"ours": [], "egglog": []}
            counts = set()
            for _ in range(options.runs):
                for name, engine in (("ours", ours), ("egglog", theirs)):
                    seconds, count = engine(nodes, some, iterations)
                    times[name].append(seconds)
                    counts.add(count)
            if len(counts) > 1:
                print(f"{model}: the engines differ in e-nodes: {sorted(counts)}", file=sys.stderr)
                return 1
            [count] = counts
            mine, other = (statistics.median(each) for each in times.values())
            rows.append(
                {"model": model, "iterations": iterations, "laws": len(some), "nodes": count}
                | {f"{name}_seconds": each for name, each in times.items()}
                | {"ratio": other / mine}
            )
            print(
                f"| {model} | {iterations} | {len(some)} | {count:,} | {mine:.3f} | {other:.3f} "
                f"| {other / mine:.1f} |",
                flush=True,
            )
            if options.json:
                options.json.write_text(json.dumps({"facts": known, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
