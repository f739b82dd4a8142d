"""The language of ``tvmc costs``: its actions and their options."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from tvm_tensat.cli.arguments import add_verbose, positive

# Options of the pass that `tvmc costs measure` has under other names, or that measuring ignores.
_NOT_FOR_MEASURING = (
    *("costs", "cost_store", "tuning_records", "egraphs"),
    *("check", "race", "seed", "strict"),
)


def add_costs(parser: argparse.ArgumentParser) -> None:
    """Add the actions; the parsed namespace says which ``action`` to do."""
    parser.description = (
        "Look after the store of measured kernels, one SQLite file. Times belong to a setting: "
        "target, machine, version of TVM, schedules, tuning records and method of measuring."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text, fill in (
        ("list", "one line for each setting in the store", _add_list),
        ("show", "the kernels of one setting, the slowest first", _add_show),
        ("export", "write the store, or one setting of it, to one file that travels", _add_export),
        ("import", "take over the times of another store; the newer of two stays", _add_import),
        ("prune", "remove the kernels that meet all of the given conditions", _add_prune),
        ("measure", "measure the kernels that `tvmc compile --tensat` would", _add_measure),
    ):
        description = text[0].upper() + text[1:] + "."
        actions.add_parser(name, help=text, description=description, fill=fill)


def _add_list(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    parser.add_argument("--json", action="store_true", help="print them as JSON; dates are UTC")


def _add_show(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("setting", type=positive, metavar="ID", help="as `tvmc costs list` numbers it")
    add("part", nargs="?", default="", metavar="PART", help="only kernels with this in their text")
    add("--failed", action="store_true", help="only those that could not be measured")
    add("--json", action="store_true", help="print them as JSON, times in seconds; dates are UTC")
    _add_common(parser)


def _add_export(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="replaced if it exists")
    add("--setting", type=positive, metavar="ID", help="only this setting")
    _add_common(parser)


def _add_import(parser: argparse.ArgumentParser) -> None:
    help_ = "a cost store, as `tvmc costs export` writes it"
    parser.add_argument("file", type=Path, metavar="FILE", help=help_)
    _add_common(parser)


def _add_prune(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--failed", action="store_true", help="could not be measured; they will be tried again")
    add("--older-than", type=_days, metavar="DAYS", help="were measured more than DAYS days ago")
    add("--setting", type=positive, metavar="ID", help="belong to this setting")
    add(
        "--other-versions",
        action="store_true",
        help="were measured with another TVM, other schedules or another method than today's",
    )
    add("--dry-run", action="store_true", help="only say how many")
    _add_common(parser)


def _add_measure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL", help="as `tvmc compile` takes them")
    add("--target", required=True, help="as `tvmc compile` takes it")
    add("--input-shapes", metavar="SHAPES", help="shapes of ONNX inputs, of one model")
    add("--tuning-records", type=Path, metavar="DIR", help="folder of MetaSchedule records")
    add("--json", action="store_true", help="print the outcome as one JSON object")
    _add_common(parser)
    from tvm_tensat.cli.tensat_options import add_tensat_options

    group = parser.add_argument_group("options of the pass that decide which kernels matter")
    add_tensat_options(group, without=_NOT_FOR_MEASURING)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="the store (default: TVM_TENSAT_COSTS, or one in the user's cache directory)",
    )
    add_verbose(parser)


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not 0 <= days < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days")
    return days
