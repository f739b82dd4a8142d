"""Extraction on e-graphs from files: cost, proven bound and time of every method.

    python -m tests.benchmarks.extraction --data DIR [--json FILE] [--methods ...] [--solvers ...]
    python -m tests.benchmarks.extraction --grow 200000 [--json FILE] ...

The first reads every egraph-serialize ``*.json`` under DIR (smallest first), such as TENSAT's
e-graphs in the public extraction-gym data, or those that ``tests.benchmarks.ablation --egraphs``
keeps; a file that lies alone in a folder is named by the folder. Costs are in the unit of the file.

The second makes e-graphs that grow to so many e-nodes, and prints for each the time of every phase
and the peak of memory: deep networks with skip connections, random acyclic e-graphs and random
cyclic ones (seeds are fixed). Each is solved in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.extraction.oracle import deep_network, random_problem
from tvm_tensat.extraction import METHODS, ExtractionError, Problem, extract, problem_from_json
from tvm_tensat.extraction.choice import exact_cost, trim
from tvm_tensat.extraction.greedy import greedy_dag
from tvm_tensat.extraction.local import local_search
from tvm_tensat.extraction.reductions import reduce_problem
from tvm_tensat.extraction.restrict import restrict
from tvm_tensat.extraction.solve import LOCAL_SHARE


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    options = _parser().parse_args(arguments)
    if options.grow is not None:
        return _grow(options)
    if options.data is None:
        print("give --data DIR or --grow E-NODES", file=sys.stderr)
        return 2
    files = sorted(options.data.rglob("*.json"), key=lambda path: (path.stat().st_size, path))
    files = [path for path in files if options.only is None or _name(path) in options.only]
    if not files:
        print(f"no *.json under {options.data}", file=sys.stderr)
        return 1
    facts = _facts()
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    print(
        f"{'graph':24} {'e-nodes':>7} {'classes':>7} {'method':18} {'solver':6} {'cost':>12}"
        f" {'bound':>12} {'gap':>9} {'seconds':>8}  status"
    )
    results = []
    for path in files:
        try:
            problem = problem_from_json(path)
        except ExtractionError as error:
            print(f"{_name(path):24} skipped: {error}")
            continue
        for method in options.methods:
            for solver in options.solvers if method.startswith("ilp") else ["-"]:
                row = _measure(_name(path), problem, method, solver, options.time_limit)
                results.append(row)
                print(
                    f"{row['graph']:24} {row['nodes']:7} {row['classes']:7} {method:18}"
                    f" {solver:6} {row['cost']:12.9g} {row['bound']:12.9g} {row['gap']:9.2g}"
                    f" {row['seconds']:8.2f}  {row['status']}",
                    flush=True,
                )
    if options.json is not None:
        options.json.write_text(json.dumps({"facts": facts, "results": results}, indent=1))
    return 0


def _name(path: Path) -> str:
    alone = len(list(path.parent.glob("*.json"))) == 1
    return path.parent.name if alone else path.stem


def _measure(graph: str, problem: Any, method: str, solver: str, limit: float) -> dict[str, Any]:
    solver = "highs" if solver == "-" else solver
    found = asdict(extract(problem, method, solver=solver, time_limit=limit))
    del found["choice"]
    return {
        "graph": graph,
        "nodes": len(problem.node_class),
        "classes": problem.class_count,
        "solver": solver,
        "time_limit": limit,
        **found,
    }


FAMILIES: dict[str, Callable[[int], Problem]] = {
    # A class has 8 e-nodes in the first family, about 2.5 in the others.
    "deep network": lambda nodes: deep_network(nodes // 8),
    "random, acyclic": lambda nodes: random_problem(1, round(nodes / 2.5), back=0.0),
    "random, cyclic": lambda nodes: random_problem(1, round(nodes / 2.5), back=0.3),
}


def _grow(options: argparse.Namespace) -> int:
    facts = _facts()
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    print(
        "| family | e-nodes | greedy, s | local search, s | its cost to greedy's | reductions, s "
        "| e-nodes left | peak, MiB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    context = multiprocessing.get_context("spawn")
    for family in FAMILIES:
        sizes = [options.grow // part for part in (64, 16, 4, 1)]
        for size in sizes:
            with context.Pool(1) as pool:
                row = pool.apply(_phases, (family, size, options.time_limit))
            rows.append(row)
            print(
                f"| {family} | {row['nodes']:,} | {row['greedy']:.2f} | {row['local']:.2f}"
                f"{'' if row['finished'] else ' (limit)'} | {row['local_cost']:.3f} "
                f"| {row['reductions']:.2f} | {row['left']:,} | {row['peak_mib']:.0f} |",
                flush=True,
            )
        small, large = rows[-2], rows[-1]
        for phase in ("greedy", "reductions"):
            growth = math.log(large[phase] / small[phase]) / math.log(
                large["nodes"] / small["nodes"]
            )
            print(f"  {family}, {phase}: e-nodes to the power of {growth:.2f} in the last step")
    if options.json is not None:
        options.json.write_text(json.dumps({"facts": facts, "results": rows}, indent=1))
    return 0


def _phases(family: str, size: int, limit: float) -> dict[str, Any]:
    """Time greedy extraction, local search and reductions on one e-graph."""
    problem = FAMILIES[family](size)
    began = time.perf_counter()
    greedy = greedy_dag(problem)
    after_greedy = time.perf_counter()
    found, finished = local_search(problem, greedy, time.monotonic() + LOCAL_SHARE * limit)
    after_local = time.perf_counter()
    first, kept = trim(problem, greedy), trim(problem, found)
    assert first is not None and kept is not None
    small = restrict(problem, greedy >= 0)
    reduced = reduce_problem(
        small.problem, exact_cost(problem, kept), time.monotonic() + 10 * limit
    )
    return {
        "family": family,
        "nodes": len(problem.node_class),
        "greedy": after_greedy - began,
        "local": after_local - after_greedy,
        "local_cost": exact_cost(problem, kept) / exact_cost(problem, first),
        "finished": finished,
        "reductions": time.perf_counter() - after_local,
        "left": len(reduced.problem.node_class),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with *.json e-graphs")
    parser.add_argument("--grow", type=int, metavar="E-NODES", help="largest e-graph to make")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--solvers", nargs="+", default=["highs"], help="highs, cbc, gurobi")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each (60)")
    parser.add_argument("--only", nargs="+", help="names of graphs (files without .json)")
    return parser


def _facts() -> dict[str, str]:
    facts = {
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "?",
        "python": platform.python_version(),
    }
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        names = [line for line in cpu.read_text().splitlines() if line.startswith("model name")]
        facts["cpu"] = names[0].partition(":")[2].strip() if names else "?"
    return facts | {
        name: _version(name) for name in ("mip", "highsbox", "cbcbox", "numpy", "scipy")
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


if __name__ == "__main__":
    sys.exit(main())
