"""Speed-up of whole models: input, TVM's best stock sequence and Tensat, timed in turn.

``python -m tests.benchmarks.speedup [--models a,b] [--json FILE] [--rounds N]``

All modules of a model are built by the same pipeline, schedules included. The stock sequences use
TVM's own passes, but for `fold`; the fastest of them is the one that counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.target import Target

from tests.benchmarks.facts import host_target, print_facts
from tvm_tensat import zoo
from tvm_tensat.passes import guard, optimize, side_by_side
from tvm_tensat.passes.hardware import Hardware
from tvm_tensat.passes.race import race as race_forms
from tvm_tensat.relax.fold import fold_weights

T = relax.transform


@tvm.transform.module_pass(opt_level=0, name="fold")
def fold(module: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """Fold what is computed from weights, as TVM's FoldConstant does.

    FoldConstant compiles and runs an unscheduled kernel for each constant: minutes on a model with
    70 batch norms.
    """
    return fold_weights(module)


STOCK: dict[str, list[Any]] = {
    "decompose": [T.DecomposeOpsForInference("main"), fold],
    "fold batch norm": [
        T.FoldBatchnormToConv2D(),
        T.DecomposeOpsForInference("main"),
        fold,
        T.EliminateCommonSubexpr(),
        T.CanonicalizeBindings(),
    ],
    "combine products": [
        T.FoldBatchnormToConv2D(),
        T.DecomposeOpsForInference("main"),
        T.CombineParallelMatmul(),
        fold,
        T.EliminateCommonSubexpr(),
        T.CanonicalizeBindings(),
        T.DeadCodeElimination(),
    ],
}


def stock_modules(module: tvm.IRModule) -> dict[str, tvm.IRModule]:
    """Apply each stock sequence that does not fail; equal results appear once."""
    found: dict[str, tvm.IRModule] = {}
    for name, passes in STOCK.items():
        try:
            result = tvm.transform.Sequential(passes)(module)
        except Exception as error:  # TVM's passes crash on some models: that is a finding
            print(f"  stock sequence {name!r} fails: {str(error).splitlines()[0]}")
            continue
        if not any(tvm_ffi.structural_equal(result, other) for other in found.values()):
            found[name] = result
    return found


def measure_model(name: str, target: Target, rounds: int | None) -> dict[str, Any]:
    """Optimize a model, then race all of its forms."""
    module = zoo.load(name)
    began = time.perf_counter()
    result = optimize(module, target)
    seconds = time.perf_counter() - began
    stock = stock_modules(module)
    modules = {"input": module, "tensat": result.module, **stock}
    forms = side_by_side.build(modules, target, None, Hardware(tvm.cpu(), target))
    inputs = [
        tvm.runtime.tensor(array, device=tvm.cpu())
        for array in guard.random_inputs(module["main"], 0)
    ]
    depth = len(module["main"].body.blocks[0].bindings)
    timers = {name: form.timer("main", inputs) for name, form in forms.items()}
    outputs = [guard.flatten(forms[name].runner("main", inputs)()) for name in ("input", "tensat")]
    race = race_forms(timers, "main", rounds)
    best = max(range(2, len(timers)), key=lambda k: race.ratios[k])
    block = result.report.blocks[0] if result.report.blocks else None
    return {
        "model": name,
        "verdict": result.report.verdict,
        "differs": guard.difference(outputs[0], outputs[1], depth),
        "operators": block.operators if block else 0,
        "nodes": block.exploration.nodes if block else 0,
        "classes": block.exploration.classes if block else 0,
        "stopped": block.exploration.stopped if block else "",
        "kernels": block.kernels_measured + block.kernels_recorded if block else 0,
        "gap": block.gap if block else 0.0,
        "predicted_ms": [1e3 * block.cost_before, 1e3 * block.cost_after] if block else [],
        "measured_ms": {
            "input": 1e3 * race.seconds[0],
            "stock": 1e3 * race.seconds[best],
            "tensat": 1e3 * race.seconds[1],
        },
        "spread": max(race.spread),
        "stock": list(stock)[best - 2],
        "ratio_to_input": race.ratios[1],
        "ratio_to_stock": race.ratios[1] / race.ratios[best],
        "pass_seconds": seconds,
        "phases": result.report.seconds,
        "report": str(result.report),
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print the table of the README."""
    print(
        "| model | operators | e-nodes | e-classes | kernels | pass without measuring, s "
        "| predicted ms | measured ms: input, stock, Tensat | to input | to stock |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        measuring = sum(row["phases"].get(name, 0.0) for name in ("calibrate", "measure", "race"))
        rest = row["pass_seconds"] - measuring
        predicted = " → ".join(f"{value:.2f}" for value in row["predicted_ms"])
        measured = ", ".join(f"{value:.2f}" for value in row["measured_ms"].values())
        print(
            f"| {row['model']} | {row['operators']} | {row['nodes']:,} | {row['classes']:,} "
            f"| {row['kernels']} | {rest:.1f} | {predicted} | {measured} "
            f"| {row['ratio_to_input']:.3f} | {row['ratio_to_stock']:.3f} |"
        )
    to_input = statistics.geometric_mean(row["ratio_to_input"] for row in rows)
    to_stock = statistics.geometric_mean(row["ratio_to_stock"] for row in rows)
    print(f"\ngeometric means: {to_input:.3f} to the input, {to_stock:.3f} to the stock sequence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(zoo.names()), help="names, comma-separated")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--rounds", type=int, help="timings of each module; by default as many as the pass makes"
    )
    parser.add_argument("--reports", action="store_true", help="print the pass's reports")
    arguments = parser.parse_args()
    target = host_target()
    print_facts(target)
    rows = []
    for name in arguments.models.split(","):
        row = measure_model(name, target, arguments.rounds)
        rows.append(row)
        print(
            f"{name}: {row['verdict']}, {row['ratio_to_input']:.3f} to the input, "
            f"{row['ratio_to_stock']:.3f} to {row['stock']!r}, spread {row['spread']:.1%}, "
            f"pass {row['pass_seconds']:.1f} s",
            flush=True,
        )
        if row["differs"]:
            sys.exit(f"{name}: outputs differ: {row['differs']}")
        if arguments.reports:
            print(row["report"], flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1))
    print_table(rows)


if __name__ == "__main__":
    main()
