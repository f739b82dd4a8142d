"""``tvmc rules list`` and ``tvmc rules verify``: what may be rewritten, and whether it is sound."""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tvm_tensat.cli.errors import CommandError, one_line
from tvm_tensat.egraph.rule import Rule
from tvm_tensat.rules import all_rules, rules_of
from tvm_tensat.taso import RuleFileError, read_rules
from tvm_tensat.verify import HOLDS, Verdict, summary, verify


def execute(args: argparse.Namespace) -> None:
    """List or verify the rules that the arguments name.

    Raises
    ------
    CommandError
        When a rule is not known, a file cannot be read, or a rule does not hold.
    """
    if args.action == "list":
        _list(args)
    else:
        _verify(args)


def _list(args: argparse.Namespace) -> None:
    rules = [rule for rule in all_rules(args.numerics) if args.name in rule.name]
    if not rules:
        raise CommandError(f"no rule has {args.name!r} in its name; `tvmc rules list` shows all")
    described = [_described(rule) for rule in rules]
    if args.json:
        print(json.dumps(described, indent=1))
        return
    for each in described:
        print(f"{each['name']}\n    {each['law']}")
        print(
            f"    {each['keeps']}; {', '.join(each['dtypes']) or 'every dtype'}; {each['source']}"
        )


def _described(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "law": rule.law,
        "kind": rule.kind,
        "keeps": rule.keeps,
        "dtypes": list(rule.dtypes),
        "source": rule.origin,
    }


def _verify(args: argparse.Namespace) -> None:
    rules, lines = _chosen(args.rules)
    verdicts: list[Verdict] = []
    # disable=None: no bar where stderr is no terminal.
    for rule in tqdm(rules, desc="verifying", disable=None, leave=False):
        verdict = verify(rule, args.examples, seconds=args.time_limit, seed=args.seed)
        verdicts.append(verdict)
        if not args.json:
            tqdm.write(str(verdict))
    if args.json:
        print(json.dumps([verdict.to_json() for verdict in verdicts], indent=1))
    else:
        for line in lines:
            print(line)
        for verdict in verdicts:
            if verdict.counterexample is not None:
                print(f"\n{verdict.counterexample.snippet()}")
    bad = [verdict.rule.name for verdict in verdicts if verdict.status != HOLDS]
    if bad or lines:
        some = ", ".join(bad[:3]) + (", ..." if len(bad) > 3 else "")
        also = f"; {len(lines)} lines are no rules" if lines else ""
        raise CommandError(f"{summary(verdicts)}{': ' if some else ''}{some}{also}")
    if not args.json:
        print(summary(verdicts))


def _chosen(wanted: Sequence[str]) -> tuple[list[Rule], list[str]]:
    """Return the rules that were named, all built-in ones when none was; and lines refused."""
    if not wanted:
        return list(all_rules()), []
    rules: list[Rule] = []
    refused: list[str] = []
    for text in wanted:
        path = Path(text)
        if path.suffix == ".py":
            rules += _of_python_file(path)
        elif path.is_file() or path.suffix == ".txt":
            file = _of_text_file(path)
            rules += file.rules
            refused += file.lines()[1:]
        else:
            found = [rule for rule in all_rules() if text in (rule.name, rule.name.split("[")[0])]
            if not found:
                raise CommandError(f"{text}: no such rule or file; `tvmc rules list` shows rules")
            rules += found
    return rules, refused


def _of_text_file(path: Path) -> Any:
    try:
        return read_rules(path)
    except RuleFileError as error:
        raise CommandError(one_line(error)) from error


def _of_python_file(path: Path) -> list[Rule]:
    """Run a Python file; return the rules that it declares at its top level."""
    if not path.is_file():
        raise CommandError(f"{path}: no such file; expected Python with rules at its top level")
    path = path.resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's code raises
        raise CommandError(f"{path}: {type(error).__name__}: {one_line(error)}") from error
    rules = [rule for rule in rules_of(module) if rule.origin.startswith(f"{path}:")]
    if not rules:
        raise CommandError(f"{path}: no rule at its top level; see the README of the rules")
    return rules
