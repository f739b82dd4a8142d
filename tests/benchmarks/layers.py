"""Exploring a model of n identical layers, against one layer: time, e-nodes, memo of templates.

    python -m tests.benchmarks.layers [--layers 1,2,12,48,192,700] [--k-multi 1,2] [--runs 5]
        [--json FILE]

The layer is a transformer's: normalization, attention, two residual sums, gelu, biases, every
weight its own. The largest model has more than 20,000 operators. A rule runs once for all layers,
because equal types and operators give equal signatures; what grows is the work on the tables.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import tvm
from tvm import relax

from tests.benchmarks.exploration import explore_once
from tests.benchmarks.facts import facts
from tvm_tensat.egraph import Limits, Memo
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import plan_function

op = relax.op
TOKENS, FEATURES, HEADS = 16, 64, 4


class _Builder:
    def __init__(self) -> None:
        self.builder = relax.BlockBuilder()
        self.random = np.random.default_rng(0)

    def __call__(self, expr: relax.Expr) -> relax.Var:
        return self.builder.emit(expr)

    def weight(self, *shape: int) -> relax.Expr:
        values = self.random.standard_normal(shape) / shape[0] ** 0.5
        return relax.const(values.astype("float32"))

    def norm(self, x: relax.Var) -> relax.Var:
        scale, shift = self.weight(FEATURES), self.weight(FEATURES)
        return self(op.nn.layer_norm(x, scale, shift, axes=[-1]))

    def linear(self, x: relax.Var, inputs: int, outputs: int) -> relax.Var:
        return self(op.add(self(op.matmul(x, self.weight(inputs, outputs))), self.weight(outputs)))

    def head(self, x: relax.Var) -> relax.Var:
        split = self(op.reshape(self.linear(x, FEATURES, FEATURES), (TOKENS, HEADS, -1)))
        return self(op.permute_dims(split, [1, 0, 2]))

    def layer(self, x: relax.Var) -> relax.Var:
        normal = self.norm(x)
        query, key, value = (self.head(normal) for _ in range(3))
        scores = self(op.matmul(query, self(op.permute_dims(key, [0, 2, 1]))))
        scaled = self(op.multiply(scores, relax.const(np.float32((FEATURES / HEADS) ** -0.5))))
        mixed = self(op.matmul(self(op.nn.softmax(scaled, -1)), value))
        joined = self(op.reshape(self(op.permute_dims(mixed, [1, 0, 2])), (TOKENS, FEATURES)))
        x = self(op.add(x, self.linear(joined, FEATURES, FEATURES)))
        wide = self(op.nn.gelu(self.linear(self.norm(x), FEATURES, 4 * FEATURES)))
        return self(op.add(x, self.linear(wide, 4 * FEATURES, FEATURES)))


def transformer(layers: int) -> tvm.IRModule:
    """A stack of identical layers."""
    emit = _Builder()
    x = relax.Var("x", relax.TensorType((TOKENS, FEATURES), "float32"))
    with emit.builder.function("main", [x]):
        with emit.builder.dataflow():
            value: relax.Var = x
            for _ in range(layers):
                value = emit.layer(value)
            out = emit.builder.emit_output(value)
        emit.builder.emit_func_output(out)
    return emit.builder.get()


@dataclass(frozen=True)
class Row:
    """One model; seconds, `warm` the median, `ratio` to the first model's."""

    layers: int
    k_multi: int
    operators: int
    read: float
    cold: float
    warm: float
    fastest: float
    slowest: float
    ratio: float
    nodes: int
    classes: int
    iterations: int
    stopped: str


def measure(layers: int, k_multi: int, runs: int, one: float | None) -> Row:
    """Explore a stack, cold and warm; `one` is the warm time of the first stack."""
    [segment] = plan_function(transformer(layers)["main"], {}).segments
    language = RelaxLanguage()
    memo = Memo(language)
    limits = Limits(k_multi=k_multi, nodes=10**6, seconds=120.0)
    read, operators, cold = explore_once(segment, language, limits, memo)
    some = [explore_once(segment, language, limits, memo)[2] for _ in range(runs)]
    seconds = [each.seconds for each in some]
    warm = statistics.median(seconds)
    return Row(
        layers,
        k_multi,
        operators,
        read,
        cold.seconds,
        warm,
        min(seconds),
        max(seconds),
        warm / (one or warm),
        cold.nodes,
        cold.classes,
        cold.iterations,
        cold.stopped,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", default="1,2,12,48,192,700", help="numbers, comma-separated")
    parser.add_argument("--k-multi", default="1,2", help="numbers, comma-separated")
    parser.add_argument("--runs", type=int, default=5, help="warm explorations of each")
    parser.add_argument("--json", type=Path, help="also write facts and figures to this file")
    options = parser.parse_args(arguments)
    known = facts()
    print(", ".join(f"{name} {value}" for name, value in known.items()))
    print(
        "| layers | k_multi | operators | read, s | cold, s | warm, s | to the first | e-nodes "
        "| e-classes | iterations | stopped |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    rows: list[Row] = []
    for k_multi in map(int, options.k_multi.split(",")):
        one = None
        for layers in map(int, options.layers.split(",")):
            row = measure(layers, k_multi, options.runs, one)
            one = one or row.warm
            rows.append(row)
            print(
                f"| {row.layers} | {row.k_multi} | {row.operators:,} | {row.read:.2f} "
                f"| {row.cold:.3f} | {row.warm:.3f} ({row.fastest:.3f}, {row.slowest:.3f}) "
                f"| {row.ratio:.1f} | {row.nodes:,} | {row.classes:,} | {row.iterations} "
                f"| {row.stopped} |",
                flush=True,
            )
            if options.json:
                data = {"facts": known, "rows": [asdict(each) for each in rows]}
                options.json.write_text(json.dumps(data, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
