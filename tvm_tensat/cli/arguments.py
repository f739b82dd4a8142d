"""The language of the command line: every option, with its default and unit.

Options of the pass are generated from `TensatOptions`, one ``--tensat-NAME`` for each field, so
that the command line cannot lag behind the pass.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, Union

from tvm_tensat import __version__
from tvm_tensat.cli.errors import CommandError
from tvm_tensat.passes.options import TensatOptions

TENSAT_PREFIX = "tensat_option_"
"""Options of the pass are found in the parsed namespace under this prefix and their name."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `CommandError` instead of printing its usage."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; refuse unknown options here, where the command and its options are known."""
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
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tvm-tensat {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_compile(commands.add_parser("compile", help="model file to shared library"))
    _add_run(commands.add_parser("run", help="run a compiled model, print its time and outputs"))
    return parser


def _add_compile(parser: argparse.ArgumentParser) -> None:
    parser.description = "Compile a model to a shared library that `tvmc run` and TVM load."
    parser.allow_abbrev = False
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
    add("--json", action="store_true", help="print the outcome as one JSON object")
    _add_verbose(parser)
    add("--tensat", action="store_true", help="optimize by equality saturation; print the report")
    add("--tensat-report", type=Path, metavar="FILE", help="write the report as JSON")
    group = parser.add_argument_group("options of the optimization (need --tensat)")
    for field in dataclasses.fields(TensatOptions):
        _add_tensat_option(group, field)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.description = "Run a shared library that `tvmc compile` wrote."
    parser.allow_abbrev = False
    add = parser.add_argument
    add("library", type=Path, metavar="LIBRARY", help="what `tvmc compile` wrote")
    add(
        "--device",
        choices=["cpu", "cuda"],
        help="where to run (default: the kind of device that the library was compiled for)",
    )
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
        type=_positive,
        default=10,
        metavar="N",
        help="measurements to take (default: %(default)s)",
    )
    add(
        "--number",
        type=_positive,
        default=1,
        metavar="N",
        help="runs in each measurement, of which the mean is taken (default: %(default)s)",
    )
    add("--print-top", type=_positive, metavar="N", help="print the N largest values of outputs")
    _add_verbose(parser)


def _add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="say more; on errors, print the traceback"
    )


def tensat_options(args: argparse.Namespace) -> TensatOptions:
    """Return the options of the pass that were given, others at their defaults.

    Raises
    ------
    CommandError
        When options were given without ``--tensat``, or with values that the pass refuses.
    """
    given = {
        name.removeprefix(TENSAT_PREFIX): value
        for name, value in vars(args).items()
        if name.startswith(TENSAT_PREFIX)
    }
    flags = [_flag(name) for name in given]
    if args.tensat_report is not None:
        flags.append("--tensat-report")
    if flags and not args.tensat:
        raise CommandError(f"{', '.join(flags)}: needs --tensat; add it, or leave the option out")
    # Costs must be those of the kernels that are deployed, so the same records are the default.
    given.setdefault("tuning_records", args.tuning_records)
    try:
        return TensatOptions(**given)
    except (TypeError, ValueError) as error:
        raise CommandError(f"{', '.join(flags)}: {error}") from error


def _flag(name: str) -> str:
    return "--tensat-" + name.replace("_", "-")


def _add_tensat_option(group: Any, field: dataclasses.Field[Any]) -> None:
    """Add the option of one field: its type, choices, default and unit come from the field."""
    kind, optional = _value_type(field)
    parse = _boolean if kind is bool else kind
    choices = field.metadata.get("choices")
    unit = field.metadata.get("unit")
    text = (
        f"{field.metadata.get('help', '')} (default: {_shown(getattr(TensatOptions(), field.name))}"
    )
    text += f" {unit})" if unit else ")"
    group.add_argument(
        _flag(field.name),
        dest=TENSAT_PREFIX + field.name,
        default=argparse.SUPPRESS,
        type=_or_none(parse, kind.__name__) if optional else parse,
        metavar="{" + ",".join(map(str, choices)) + "}" if choices else kind.__name__.upper(),
        choices=[*choices, None] if choices and optional else choices,
        help=text.strip().replace("%", "%%"),
    )


def _value_type(field: dataclasses.Field[Any]) -> tuple[type, bool]:
    """Return the type of a field's values, and whether None is one of them."""
    hint = typing.get_type_hints(TensatOptions)[field.name]
    members = [hint]
    if typing.get_origin(hint) in (Union, types.UnionType):
        members = list(typing.get_args(hint))
    optional = type(None) in members
    members = [member for member in members if member is not type(None)]
    literals = typing.get_args(members[0]) if typing.get_origin(members[0]) else ()
    kind = type(literals[0]) if literals else members[0]
    for supported in (bool, int, float, str, Path):
        if kind is supported:
            return kind, optional
    raise TypeError(f"TensatOptions.{field.name}: no command line option for type {hint}")


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)


def _or_none(parse: Callable[[str], Any], name: str) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        return None if text.lower() == "none" else parse(text)

    convert.__name__ = name  # argparse names it in "invalid ... value"
    return convert


def _boolean(text: str) -> bool:
    if re.fullmatch("true|yes|on|1", text, re.IGNORECASE):
        return True
    if re.fullmatch("false|no|off|0", text, re.IGNORECASE):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive integer")
    return int(text)
