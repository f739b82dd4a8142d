"""Stores are listed, joined, carried and pruned without losing or inventing a measurement."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import tvm

from tests.cost.stores import CPU, FAILURE, GPU, Rows, fill, read, state, took
from tvm_tensat import schedule
from tvm_tensat.cost import CostStore, CostStoreError
from tvm_tensat.cost.setting import METHOD
from tvm_tensat.cost.upkeep import (
    Merged,
    Summary,
    export,
    merge,
    prune,
    records,
    summaries,
    summary_of,
)

OLD, NEW = "2026-01-01 00:00:00", "2026-02-01 00:00:00"
ROWS: Rows = {
    (CPU, "quick"): (took(1), OLD),
    (CPU, "slow"): (took(5), NEW),
    (CPU, "hangs"): (FAILURE, OLD),
    (GPU, "quick"): (took(0.1), OLD),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return fill(tmp_path / "costs.sqlite", ROWS)


def test_a_summary_counts_kernels_and_failures_and_knows_the_newest(path: Path) -> None:
    with CostStore(path, read_only=True) as store:
        assert summaries(store) == [Summary(1, CPU, 3, 1, NEW), Summary(2, GPU, 1, 0, OLD)]
        assert summary_of(store, 2).setting == GPU
        with pytest.raises(CostStoreError, match="has no setting 3; its settings are: 1, 2"):
            summary_of(store, 3)


def test_records_come_slowest_first_and_failures_last(path: Path) -> None:
    with CostStore(path, read_only=True) as store:
        found = records(store, 1)
    assert [record.kernel for record in found] == ["slow", "quick", "hangs"]
    assert found[2].measurement == FAILURE
    assert found[0].measured_at == NEW


def test_a_merge_adds_replaces_by_newer_and_keeps_the_rest(path: Path, tmp_path: Path) -> None:
    theirs: Rows = {
        (GPU, "quick"): (took(0.2), NEW),  # newer than ours
        (CPU, "slow"): (took(6), OLD),  # older
        (CPU, "quick"): (took(2), OLD),  # of the same date
        (CPU, "hangs"): (took(7), NEW),  # a time instead of a failure
        (replace(CPU, tvm="0.28"), "slow"): (took(8), OLD),  # of a setting that we do not have
    }
    other = fill(tmp_path / "other.sqlite", theirs)
    before = state(other)
    with CostStore(path) as store, CostStore(other, read_only=True) as source:
        assert merge(store, source) == Merged(added=1, replaced=2, kept=2)
        assert merge(store, source) == Merged(added=0, replaced=0, kept=5)
    newer = [(GPU, "quick"), (CPU, "hangs"), (replace(CPU, tvm="0.28"), "slow")]
    assert read(path) == ROWS | {key: theirs[key] for key in newer}
    assert state(other) == before


def test_a_store_merged_into_itself_stays(path: Path) -> None:
    with CostStore(path) as store, CostStore(path, read_only=True) as source:
        assert merge(store, source) == Merged(added=0, replaced=0, kept=4)
    assert read(path) == ROWS


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE measurements SET seconds = -1.0 WHERE kernel = 'slow'",
        "UPDATE measurements SET seconds = 9e999 WHERE kernel = 'slow'",
        "UPDATE measurements SET seconds = 'soon' WHERE kernel = 'slow'",
        "UPDATE measurements SET repeats = 'many' WHERE kernel = 'slow'",
        "UPDATE measurements SET measured_at = 'yesterday' WHERE kernel = 'slow'",
        "UPDATE measurements SET kernel = x'00' WHERE kernel = 'slow'",
        "UPDATE measurements SET error = x'00' WHERE kernel = 'hangs'",
    ],
)
def test_rows_that_are_no_measurements_are_refused_and_nothing_is_changed(
    path: Path, tmp_path: Path, spoil: str
) -> None:
    other = fill(tmp_path / "other.sqlite", {key: (m, NEW) for key, (m, _) in ROWS.items()})
    with closing(sqlite3.connect(other, isolation_level=None)) as database:
        database.execute(spoil)
    with CostStore(path) as store, CostStore(other, read_only=True) as source:
        with pytest.raises(CostStoreError, match="holds 1 rows that are no measurements"):
            merge(store, source)
        assert len(store) == len(ROWS)
    assert read(path) == ROWS


def test_an_export_is_one_file_with_the_same_measurements(path: Path, tmp_path: Path) -> None:
    output = tmp_path / "away" / "travels.sqlite"
    output.parent.mkdir()
    with CostStore(path) as writer, CostStore(path, read_only=True) as store:
        writer.database.execute("UPDATE measurements SET spread = spread")  # some of it in the log
        assert export(store, output) == Merged(added=4, replaced=0, kept=0)
        assert [file.name for file in output.parent.iterdir()] == ["travels.sqlite"]
        assert read(output) == ROWS
        export(store, output, only=2)
        assert read(output) == {(GPU, "quick"): ROWS[GPU, "quick"]}
        assert [file.name for file in output.parent.iterdir()] == ["travels.sqlite"]


def test_an_export_replaces_no_store_that_is_in_use(path: Path, tmp_path: Path) -> None:
    other = fill(tmp_path / "other.sqlite", ROWS)
    with CostStore(path, read_only=True) as store, CostStore(other) as in_use:
        for target in (path, other):
            with pytest.raises(CostStoreError, match="is a cost store in use"):
                export(store, target)
        with pytest.raises(CostStoreError, match="has no setting 7"):
            export(store, tmp_path / "new.sqlite", only=7)
        assert len(in_use) == 4
    assert not (tmp_path / "new.sqlite").exists()


Condition = dict[str, object]
TODAY = replace(
    CPU, tvm=tvm.__version__, pipeline=schedule.fingerprint(), method=f"{METHOD}, 8 MiB"
)


@pytest.mark.parametrize(
    ("condition", "goes"),
    [
        ({"failed": True}, lambda setting, text, m: m.error is not None),
        ({"setting": 2}, lambda setting, text, m: setting == GPU),
        ({"older_than_days": 10.5}, lambda setting, text, m: text != "new"),
        ({"other_versions": True}, lambda setting, text, m: setting != TODAY),
        ({"failed": True, "setting": 3}, lambda setting, text, m: (setting, m) == (TODAY, FAILURE)),
        ({"older_than_days": 12, "setting": 2}, lambda setting, text, m: False),
    ],
)
def test_pruning_removes_what_meets_all_conditions_and_no_more(
    tmp_path: Path, condition: Condition, goes: Callable[..., bool]
) -> None:
    now = datetime.now(timezone.utc)
    before, after = (f"{now - timedelta(days=days):%Y-%m-%d %H:%M:%S}" for days in (11, 10))
    rows: Rows = {
        (setting, text): (
            FAILURE if text == "fails" else took(1),
            after if text == "new" else before,
        )
        for setting in (CPU, GPU, TODAY)
        for text in ("old", "fails", "new")
    }
    path = fill(tmp_path / "costs.sqlite", rows)
    left = {key: row for key, row in rows.items() if not goes(*key, row[0])}
    with CostStore(path) as store:
        assert prune(store, **condition, dry_run=True) == len(rows) - len(left)
        assert read(path) == rows
        assert prune(store, **condition) == len(rows) - len(left)
        assert [summary.setting for summary in summaries(store)] == [
            setting for setting in (CPU, GPU, TODAY) if any(key[0] == setting for key in left)
        ]
        [[settings]] = store.database.execute("SELECT count(*) FROM settings")
        assert settings == len({setting for setting, _ in left})
    assert read(path) == left
