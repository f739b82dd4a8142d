"""``tvmc extract``: the cheapest graph of an e-graph in a file."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from tqdm import tqdm

from tvm_tensat.cli.errors import CommandError, one_line
from tvm_tensat.cli.files import check_writable
from tvm_tensat.extraction import (
    ExtractionError,
    Solution,
    extract,
    extract_pool,
    named_problem_from_json,
)
from tvm_tensat.extraction.serialize import Named
from tvm_tensat.files import replacing


def execute(args: argparse.Namespace) -> None:
    """Extract from the file that the arguments name.

    Raises
    ------
    CommandError
        When it cannot be read, or has no solution.
    """
    check_writable(args.output)
    if args.pool > 1 and args.method != "ilp":
        raise CommandError(f"--pool {args.pool}: needs --method ilp, not {args.method}")
    if not args.egraph.is_file():
        raise CommandError(f"{args.egraph}: no such file; expected an e-graph as JSON")
    try:
        named = named_problem_from_json(args.egraph)
        solutions = _solve(args, named)
    except (ExtractionError, OSError) as error:
        text = one_line(error)
        where = "" if str(args.egraph) in text else f"{args.egraph}: "
        raise CommandError(f"{where}{text}") from error
    outcome = {
        "egraph": str(args.egraph),
        "nodes": len(named.nodes),
        "classes": len(named.classes),
        "solver": args.solver,
    }
    first, *others = [_plain(named, solution) for solution in solutions]
    outcome |= first
    if args.pool > 1:
        outcome["others"] = others
    text = json.dumps(outcome, indent=1)
    if args.output is None:
        print(text)
        return
    with replacing(args.output) as file:
        file.write_text(text + "\n", encoding="utf-8")


def _solve(args: argparse.Namespace, named: Named) -> list[Solution]:
    # disable=None: no bar where stderr is no terminal.
    with tqdm(desc="extracting", bar_format="{desc}", disable=None, leave=False) as bar:

        def show(cost: float, bound: float) -> None:
            bar.set_description_str(f"extracting: cost {cost:.6g}, bound {bound:.6g}")

        settings: dict[str, Any] = {
            "solver": args.solver,
            "time_limit": args.time_limit,
            "progress": show,
        }
        if args.pool == 1:
            return [extract(named.problem, args.method, **settings)]
        return extract_pool(named.problem, args.pool, **settings)


def _plain(named: Named, solution: Solution) -> dict[str, Any]:
    facts = asdict(solution)
    del facts["choice"]
    return facts | {"choice": named.choice(solution.choice)}
