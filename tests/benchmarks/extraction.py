"""Extraction on e-graphs from files: cost, proven bound and time of every method.

    python -m tests.benchmarks.extraction --data DIR [--json FILE] [--methods ...] [--solvers ...]

reads every egraph-serialize ``*.json`` under DIR (smallest first), such as TENSAT's e-graphs in the
public extraction-gym data. Costs are in the unit of the file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tvm_tensat.extraction import METHODS, ExtractionError, extract, problem_from_json


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    options = _parser().parse_args(arguments)
    files = sorted(options.data.rglob("*.json"), key=lambda path: (path.stat().st_size, path))
    files = [path for path in files if options.only is None or path.stem in options.only]
    if not files:
        print(f"no *.json under {options.data}", file=sys.stderr)
        return 1
    facts = _facts()
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    print(
        f"{'graph':18} {'e-nodes':>7} {'classes':>7} {'method':18} {'solver':6} {'cost':>12}"
        f" {'bound':>12} {'gap':>9} {'seconds':>8}  status"
    )
    results = []
    for path in files:
        try:
            problem = problem_from_json(path)
        except ExtractionError as error:
            print(f"{path.stem:18} skipped: {error}")
            continue
        for method in options.methods:
            for solver in options.solvers if method.startswith("ilp") else ["-"]:
                row = _measure(path.stem, problem, method, solver, options.time_limit)
                results.append(row)
                print(
                    f"{row['graph']:18} {row['nodes']:7} {row['classes']:7} {method:18}"
                    f" {solver:6} {row['cost']:12.9g} {row['bound']:12.9g} {row['gap']:9.2g}"
                    f" {row['seconds']:8.2f}  {row['status']}",
                    flush=True,
                )
    if options.json is not None:
        options.json.write_text(json.dumps({"facts": facts, "results": results}, indent=1))
    return 0


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with *.json e-graphs")
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
