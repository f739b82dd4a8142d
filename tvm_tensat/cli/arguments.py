"""The language of the command line: every option, with its default and unit."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from tvm_tensat import __version__
from tvm_tensat.cli.errors import CommandError


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `CommandError` instead of printing its usage.

    Parameters
    ----------
    fill : callable, optional
        Adds the arguments when they are first needed, so that a command does not pay for others.
    """

    def __init__(self, *, fill: Callable[[Parser], None] | None = None, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)
        self._fill = fill

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; refuse unknown options here, where the command and its options are known."""
        if self._fill is not None:
            self._fill(self)
            self._fill = None
        parsed, unknown = super().parse_known_args(args, namespace)
        for text in unknown:
            near = difflib.get_close_matches(text.partition("=")[0], self._option_string_actions)
            self.error(f"unknown argument {text}" + (f" (is it {near[0]}?)" if near else ""))
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Raise `CommandError` with argparse's message and where to read on."""
        raise CommandError(f"{message}; see {self.prog} --help")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``tvmc``; the parsed namespace says which ``command`` to run."""
    parser = Parser(
        prog="tvmc",
        description="Compile models with Apache TVM, optimized by equality saturation, and run "
        "them. Exit codes: 0; 4 on errors; 5 when an optional package is missing.",
    )
    parser.add_argument("--version", action="version", version=f"tvm-tensat {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("compile", help="model file to shared library", fill=_add_compile)
    commands.add_parser("run", help="run a compiled model, print its time", fill=_add_run)
    commands.add_parser(
        "extract", help="the cheapest graph of an e-graph in a file", fill=_add_extract
    )
    commands.add_parser("rules", help="list rewrite rules, verify them", fill=_add_rules)
    commands.add_parser(
        "costs", help="the store of measured kernels: look, fill, carry, prune", fill=_add_costs
    )
    return parser


def _add_compile(parser: argparse.ArgumentParser) -> None:
    parser.description = "Compile a model to a shared library that `tvmc run` and TVM load."
    add = parser.add_argument
    add(
        "model",
        metavar="MODEL",
        help="a .onnx file; a Relax module as TVMScript text (.py, as module.script("
        "show_meta=True) prints it; parsing evaluates expressions, so it must come from a trusted "
        "source) or as TVM's JSON (.json); or zoo:NAME",
    )
    add(
        "--target",
        required=True,
        help="a kind: llvm (this machine's CPU), cuda (this machine's GPU); JSON, such as "
        '\'{"kind": "llvm", "mcpu": "znver3"}\'; or a tag, such as nvidia/nvidia-h100',
    )
    add("-o", "--output", type=Path, help="the shared library to write (default: MODEL's name.so)")
    add(
        "--input-shapes",
        metavar="SHAPES",
        help='shapes of ONNX inputs, such as "x:[1,3,224,224] y:[1,10]"',
    )
    add(
        "--tuning-records",
        type=Path,
        metavar="DIR",
        help="folder of MetaSchedule records (database_workload.json, "
        "database_tuning_record.json); a kernel with a record uses it",
    )
    _add_rpc(parser, "with --tensat, measure, check and race on the devices that it lends")
    add(
        "--cross-compiler",
        metavar="COMPILER",
        help="what links the library for the target's host, such as aarch64-linux-gnu-g++ "
        "(default: this machine's C++ compiler)",
    )
    add("--json", action="store_true", help="print the outcome as one JSON object")
    add_verbose(parser)
    add("--tensat", action="store_true", help="optimize by equality saturation; print the report")
    add("--tensat-report", type=Path, metavar="FILE", help="write the report as JSON")
    # The pass imports TVM; only this command needs it before it runs.
    from tvm_tensat.cli.tensat_options import add_tensat_options

    add_tensat_options(parser.add_argument_group("options of the optimization (need --tensat)"))


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.description = "Run a shared library that `tvmc compile` wrote."
    add = parser.add_argument
    add("library", type=Path, metavar="LIBRARY", help="what `tvmc compile` wrote")
    add(
        "--device",
        choices=["cpu", "cuda"],
        help="where to run (default: the kind of device that the library was compiled for)",
    )
    _add_rpc(parser, "run on a device that it lends")
    add("-i", "--inputs", type=Path, metavar="FILE", help=".npz with one array for each input")
    add("-o", "--outputs", type=Path, metavar="FILE", help=".npz to write: output_0, output_1, ...")
    add(
        "--fill-mode",
        choices=["random", "zeros", "ones"],
        default="random",
        help="inputs when there is no -i; random is seeded, normal for floats and 0 or 1 for other "
        "types (default: %(default)s)",
    )
    add("--print-time", action="store_true", help="print mean, median, std, min, max in ms")
    add(
        "--repeat",
        type=positive,
        default=10,
        metavar="N",
        help="measurements to take (default: %(default)s)",
    )
    add(
        "--number",
        type=positive,
        default=1,
        metavar="N",
        help="runs in each measurement, of which the mean is taken (default: %(default)s)",
    )
    add("--print-top", type=positive, metavar="N", help="print the N largest values of outputs")
    add_verbose(parser)


def _add_extract(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Extract the cheapest acyclic graph of an e-graph, each e-node counted once, and print "
        "its cost, the proven bound and the choice as JSON. Costs are in the file's unit."
    )
    add = parser.add_argument
    add(
        "egraph",
        type=Path,
        metavar="EGRAPH",
        help="egraph-serialize JSON, as --tensat-egraphs of `tvmc compile` writes it",
    )
    from tvm_tensat.extraction import METHODS, SOLVERS

    add("--method", choices=METHODS, default="ilp", help="default: %(default)s")
    add("--solver", choices=SOLVERS, default="highs", help="default: %(default)s")
    add(
        "--time-limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="the best found by then is printed, with its bound (default: %(default)s)",
    )
    add(
        "--pool",
        type=positive,
        default=1,
        metavar="N",
        help="print up to N graphs: the cheapest, and the next that differ (default: %(default)s)",
    )
    add("-o", "--output", type=Path, metavar="FILE", help="write the JSON there instead")
    add_verbose(parser)


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.description = "List rewrite rules, or look for examples on which they are wrong."
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="name, law, what it keeps, dtypes and source of each")
    listing.add_argument("name", nargs="?", default="", help="only rules with this in their names")
    listing.add_argument(
        "--numerics",
        choices=["real", "exact"],
        default="real",
        help="exact lists those that keep each element's operations (default: %(default)s)",
    )
    listing.add_argument("--json", action="store_true", help="print JSON")
    add_verbose(listing)
    checking = actions.add_parser(
        "verify",
        help="draw examples of each rule and compare both sides",
        description="Draw examples of each rule and compare both sides: their types, in rational "
        "numbers, and as TVM computes them. A counterexample is printed as a Python program. "
        "Exit code 0 if all rules hold; 4 if one fails or was never applied.",
    )
    add = checking.add_argument
    add(
        "rules",
        nargs="*",
        metavar="RULE",
        help="names of rules, .py files that declare rules, or files in TENSAT's text format "
        "(default: all built-in rules). Python files are run",
    )
    add(
        "--examples",
        type=positive,
        default=100,
        metavar="N",
        help="examples of each rule (default: %(default)s)",
    )
    add(
        "--time-limit",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="most time on one rule (default: %(default)s)",
    )
    add("--seed", type=int, default=0, help="of the examples (default: %(default)s)")
    add("--json", action="store_true", help="print JSON, counterexamples included")
    add_verbose(checking)


def _add_costs(parser: argparse.ArgumentParser) -> None:
    from tvm_tensat.cli.costs_arguments import add_costs

    add_costs(parser)


def _add_rpc(parser: argparse.ArgumentParser, use: str) -> None:
    add = parser.add_argument
    add("--rpc-tracker", metavar="HOST:PORT", help=f"TVM's RPC tracker: {use}")
    add("--rpc-key", metavar="KEY", help="the key of its devices")


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Add ``--verbose``, which every command has."""
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="say more; on errors, print the traceback"
    )


def positive(text: str) -> int:
    """Parse a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive integer")
    return int(text)
