"""``tvmc costs``: look into the store of measured kernels, fill it, carry it, prune it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tvm_tensat.cli.errors import CommandError, one_line
from tvm_tensat.cli.files import check_writable
from tvm_tensat.cost import CostStore, CostStoreError, MeasureError, Setting
from tvm_tensat.cost.store import default_path
from tvm_tensat.cost.upkeep import (
    Record,
    export,
    merge,
    prune,
    records,
    summaries,
    summary_of,
)

_HEADS = (
    *("ID", "TARGET", "MACHINE", "TVM", "SCHEDULES", "RECORDS", "METHOD"),
    *("KERNELS", "FAILED", "NEWEST"),
)
_LONGEST = 32
"""Characters of a machine's name in a line."""


def execute(args: argparse.Namespace) -> None:
    """Do what the arguments ask of the store.

    Raises
    ------
    CommandError
        When the store cannot be used, or nothing can be measured.
    """
    actions = {
        "list": _list,
        "show": _show,
        "export": _export,
        "import": _import,
        "prune": _prune,
        "measure": _measure,
    }
    try:
        actions[args.action](args)
    except CostStoreError as error:
        raise CommandError(one_line(error)) from error


def _list(args: argparse.Namespace) -> None:
    with CostStore(args.store, read_only=True) as store:
        found = summaries(store)
    if args.json:
        print(json.dumps([asdict(summary) for summary in found], indent=1))
        return
    rows = [
        (
            str(each.id),
            _short_target(each.setting),
            _short_machine(each.setting),
            each.setting.tvm,
            each.setting.pipeline[:8],
            each.setting.tuning_records[:8] or "none",
            each.setting.method,
            str(each.kernels),
            str(each.failed),
            each.newest,
        )
        for each in found
    ]
    _print_table(_HEADS, rows)


def _show(args: argparse.Namespace) -> None:
    with CostStore(args.store, read_only=True) as store:
        summary_of(store, args.setting)
        found = [
            record
            for record in records(store, args.setting)
            if args.part in record.kernel and (record.measurement.error or not args.failed)
        ]
    if args.json:
        print(json.dumps([_plain(record) for record in found], indent=1))
        return
    rows = [
        (_time(record), *_certainty(record), record.measured_at, _text(record)) for record in found
    ]
    _print_table(["MS", "SPREAD", "REPEATS", "DATE", "KERNEL"], rows)


def _export(args: argparse.Namespace) -> None:
    check_writable(args.output)
    with CostStore(args.store, read_only=True) as store:
        try:
            written = export(store, args.output, args.setting)
        except OSError as error:
            raise CommandError(f"{args.output}: cannot be written: {error.strerror}") from error
        print(f"{store.path} -> {args.output}: {written.added} kernels")


def _import(args: argparse.Namespace) -> None:
    if not args.file.is_file():
        raise CommandError(f"{args.file}: no such file; expected a cost store")
    with CostStore(args.file, read_only=True) as source, CostStore(args.store) as store:
        merged = merge(store, source)
        print(
            f"{args.file} -> {store.path}: {merged.added} kernels added, {merged.replaced} "
            f"replaced by newer times, {merged.kept} kept"
        )


def _prune(args: argparse.Namespace) -> None:
    conditions: dict[str, Any] = {
        "failed": args.failed,
        "older_than_days": args.older_than,
        "setting": args.setting,
        "other_versions": args.other_versions,
    }
    if not any(value is not None and value is not False for value in conditions.values()):
        raise CommandError(
            "prune: removes nothing by itself; give at least one of --failed, --older-than, "
            "--setting, --other-versions"
        )
    CostStore(args.store, read_only=True).close()  # prune makes no store
    with CostStore(args.store, read_only=args.dry_run) as store:
        count = prune(store, **conditions, dry_run=args.dry_run)
        left = len(store)
        if args.dry_run:
            print(f"{store.path}: {count} kernels would be removed, {left - count} would stay")
        else:
            print(f"{store.path}: {count} kernels removed, {left} left")


def _measure(args: argparse.Namespace) -> None:
    # These import all of the pass, which the other actions need not wait for.
    from tvm_tensat.cli.load import load_model
    from tvm_tensat.cli.target import parse_target
    from tvm_tensat.cli.tensat_options import measuring_options
    from tvm_tensat.passes import fill_store

    if args.input_shapes is not None and len(args.models) > 1:
        raise CommandError("--input-shapes: is for one model; measure the models one by one")
    if args.tuning_records is not None and not args.tuning_records.is_dir():
        raise CommandError(f"--tuning-records {args.tuning_records}: no such folder")
    options = measuring_options(args)
    target = parse_target(args.target)
    path = args.store or default_path()
    before = _count(path)
    outcomes = []
    try:
        for model in args.models:
            report = fill_store(load_model(model, args.input_shapes), target, options)
            outcomes.append(
                {
                    "model": model,
                    "measured": sum(block.kernels_measured for block in report.blocks),
                    "recorded": sum(block.kernels_recorded for block in report.blocks),
                    "failed": sum(block.kernels_failed for block in report.blocks),
                    "failures": [text for block in report.blocks for text in block.failures],
                    "seconds": report.seconds,
                }
            )
            if not args.json:
                _print_outcome(outcomes[-1])
    except MeasureError as error:
        raise CommandError(
            f"--target {args.target}: nothing can be measured: {one_line(error)}; measure on a "
            "machine that has the device, and bring its times by `tvmc costs export` and `import`"
        ) from error
    except KeyboardInterrupt as error:
        kept = f"{_count(path) - before} new kernels are kept in {path}"
        raise KeyboardInterrupt(f"interrupted; {kept}") from error
    if args.json:
        print(json.dumps({"store": str(path), "target": args.target, "models": outcomes}))
    else:
        print(f"{path}: {_count(path)} kernels")


def _count(path: Path) -> int:
    if not path.exists():
        return 0
    with CostStore(path) as store:
        return len(store)


def _print_outcome(outcome: dict[str, Any]) -> None:
    phases = ", ".join(f"{name} {value:.1f}" for name, value in outcome["seconds"].items())
    print(
        f"{outcome['model']}: {outcome['measured']} kernels measured, {outcome['recorded']} from "
        f"the store, {outcome['failed']} failed; time by phase, s: {phases}",
        flush=True,
    )
    for failure in outcome["failures"]:
        print(f"  failed: {failure}")


def _plain(record: Record) -> dict[str, Any]:
    known = asdict(record)
    return {"kernel": known["kernel"], **known["measurement"], "measured_at": known["measured_at"]}


def _time(record: Record) -> str:
    seconds = record.measurement.seconds
    return "failed" if seconds is None else f"{seconds * 1e3:.4f}"


def _certainty(record: Record) -> tuple[str, str]:
    known = record.measurement
    return ("", "") if known.seconds is None else (f"{known.spread:.1%}", str(known.repeats))


def _text(record: Record) -> str:
    error = record.measurement.error
    return record.kernel if error is None else f"{record.kernel}: {error}"


def _short_target(setting: Setting) -> str:
    facts = _facts(setting.target)
    words = [facts.get(name) for name in ("kind", "tag", "mcpu", "arch")]
    return " ".join(str(word) for word in words if word) or setting.target[:_LONGEST]


def _short_machine(setting: Setting) -> str:
    facts = _facts(setting.machine)
    name = str(facts.get("device") or facts.get("cpu") or setting.machine)
    name = name if len(name) <= _LONGEST else name[: _LONGEST - 3] + "..."
    return f"{name}, {facts['threads']} thread(s)" if "threads" in facts else name


def _facts(text: str) -> dict[str, Any]:
    """Return canonical JSON text as data; empty for text of another kind."""
    try:
        facts = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns, of which the last may be as long as it is."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())
