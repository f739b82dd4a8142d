"""Options of the pass on the command line, one ``--tensat-NAME`` for each field of its options.

They are generated from the fields of `TensatOptions`, so the command line cannot lag behind the
pass.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import types
import typing
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Union

from tvm_tensat.cli.errors import CommandError
from tvm_tensat.passes.options import TensatOptions

_SHARED = ("tuning_records", "cross_compiler", "rpc_tracker", "rpc_key")
"""Options of the command that are the pass's too, unless it is given others."""
_PREFIX = "tensat_option_"
"""Options of the pass are found in the parsed namespace under this prefix and their name."""


def add_tensat_options(group: Any, without: Collection[str] = ()) -> None:
    """Add ``--tensat-NAME`` for each field; options that are not given leave no trace."""
    for field in dataclasses.fields(TensatOptions):
        if field.name not in without:
            _add_option(group, field)


def tensat_options(args: argparse.Namespace) -> TensatOptions:
    """Return the options of the pass that were given, others at their defaults.

    Raises
    ------
    CommandError
        When options were given without ``--tensat``, or with values that the pass refuses.
    """
    given = _given(args)
    flags = [_flag(name) for name in given]
    plain = ("tensat_report", "rpc_tracker", "rpc_key")
    flags += ["--" + name.replace("_", "-") for name in plain if getattr(args, name) is not None]
    if flags and not args.tensat:
        raise CommandError(f"{', '.join(flags)}: needs --tensat; add it, or leave the option out")
    # Costs must be those of the kernels that are deployed, so what builds these is the default.
    return _options(given, **{name: getattr(args, name) for name in _SHARED})


def measuring_options(args: argparse.Namespace) -> TensatOptions:
    """Return the options of the pass for ``tvmc costs measure``.

    Raises
    ------
    CommandError
        When the pass refuses a value.
    """
    return _options(_given(args), cost_store=args.store, tuning_records=args.tuning_records)


def _given(args: argparse.Namespace) -> dict[str, Any]:
    return {
        name.removeprefix(_PREFIX): value
        for name, value in vars(args).items()
        if name.startswith(_PREFIX)
    }


def _options(given: dict[str, Any], **defaults: Any) -> TensatOptions:
    try:
        return TensatOptions(**(defaults | given))
    except (TypeError, ValueError) as error:
        raise CommandError(f"{', '.join(map(_flag, given))}: {error}") from error


def _flag(name: str) -> str:
    return "--tensat-" + name.replace("_", "-")


def _add_option(group: Any, field: dataclasses.Field[Any]) -> None:
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
        dest=_PREFIX + field.name,
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
