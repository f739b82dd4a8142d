"""Stores with measurements of known dates, and the damage that is done to them."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tvm_tensat.cost import CostStore, Measurement, Setting, StoreKey

CPU = Setting(
    '{"kind": "llvm", "mcpu": "znver3"}',
    "pipeline",
    "",
    "0.27",
    '{"cpu": "a CPU", "threads": 2}',
    "rotation 2, 64 MiB",
)
GPU = Setting(
    '{"arch": "sm_90", "kind": "cuda"}',
    "pipeline",
    "records",
    "0.27",
    '{"cpu": "a CPU", "device": "a GPU"}',
    "rotation 2, 64 MiB",
)
FAILURE = Measurement.failure("timed out after 10 s")

Rows = dict[tuple[Setting, str], tuple[Measurement, str]]


def took(milliseconds: float) -> Measurement:
    return Measurement(milliseconds * 1e-3, 0.05, 20, None)


def fill(path: Path, rows: Rows) -> Path:
    """Write measurements as if they had been made at these dates."""
    with CostStore(path) as store:
        store.put_many({StoreKey(text, setting): m for (setting, text), (m, _) in rows.items()})
        for (setting, text), (_, date) in rows.items():
            store.database.execute(
                "UPDATE measurements SET measured_at = ? WHERE kernel = ? AND setting = ?",
                (date, text, store.setting_id(setting)),
            )
    return path


def read(path: Path) -> Rows:
    """Everything that a store holds, read without this package's own code."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute(
            "SELECT target, pipeline, tuning_records, tvm, machine, method, "
            "kernel, seconds, spread, repeats, error, measured_at "
            "FROM measurements JOIN settings ON setting = id"
        ).fetchall()
    return {(Setting(*row[:6]), row[6]): (Measurement(*row[7:11]), row[11]) for row in rows}


def state(path: Path) -> dict[str, bytes]:
    """The file and whatever SQLite keeps beside it, byte for byte."""
    return {file.name: file.read_bytes() for file in path.parent.glob(f"{path.name}*")}
