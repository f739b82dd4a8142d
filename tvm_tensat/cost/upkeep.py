"""A cost store as a whole: what it holds, joining two of them, and throwing out what is stale."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tvm

from tvm_tensat import schedule
from tvm_tensat.cost.kernel import Measurement, Setting
from tvm_tensat.cost.setting import METHOD
from tvm_tensat.cost.store import CostStore, CostStoreError
from tvm_tensat.files import replacing


@dataclass(frozen=True)
class Summary:
    """What a store holds of one setting.

    Parameters
    ----------
    id : int
        The setting's number in this file; another file may number it otherwise.
    setting : Setting
    kernels, failed : int
        Kernels in all, and those of them that could not be measured.
    newest : str
        When the last one was measured, in UTC.
    """

    id: int
    setting: Setting
    kernels: int
    failed: int
    newest: str


@dataclass(frozen=True)
class Record:
    """One kernel of a setting: its key, how long it takes, and when that was measured (UTC)."""

    kernel: str
    measurement: Measurement
    measured_at: str


@dataclass(frozen=True)
class Merged:
    """How many kernels a merge added, replaced by newer times, and left as they were."""

    added: int
    replaced: int
    kept: int


def summaries(store: CostStore) -> list[Summary]:
    """Return what the store holds, setting by setting."""
    rows = store.database.execute(
        "SELECT id, target, pipeline, tuning_records, tvm, machine, method, "
        "count(*), count(error), max(measured_at) "
        "FROM settings JOIN measurements ON setting = id GROUP BY id ORDER BY id"
    )
    return [
        Summary(number, Setting(*fields), kernels, failed, newest)
        for number, *fields, kernels, failed, newest in rows
    ]


def summary_of(store: CostStore, number: int) -> Summary:
    """Return what the store holds of one setting.

    Raises
    ------
    CostStoreError
        If the file has no setting of this number.
    """
    known = {summary.id: summary for summary in summaries(store)}
    if number not in known:
        numbers = ", ".join(map(str, known)) or "none"
        raise CostStoreError(f"{store.path} has no setting {number}; its settings are: {numbers}")
    return known[number]


def records(store: CostStore, number: int) -> list[Record]:
    """Return the kernels of a setting, the slowest first, those that failed at the end."""
    rows = store.database.execute(
        "SELECT kernel, measured_at, seconds, spread, repeats, error FROM measurements "
        "WHERE setting = ? ORDER BY seconds DESC, kernel",
        (number,),
    )
    return [Record(kernel, Measurement(*values), when) for kernel, when, *values in rows]


def merge(store: CostStore, source: CostStore, only: int | None = None) -> Merged:
    """Take over the measurements of another store, all or none; of two times the newer one stays.

    Parameters
    ----------
    store : CostStore
        Where they go.
    source : CostStore
        Where they come from; not changed.
    only : int, optional
        Number of a setting in `source`; all settings when None.

    Raises
    ------
    CostStoreError
        If `source` has no such setting, or holds what no measurement can be.
    """
    added = replaced = kept = 0
    with source.database.transaction(writes=False):
        _check_rows(source)
        chosen = summaries(source) if only is None else [summary_of(source, only)]
        with store.database.transaction():
            for summary in chosen:
                number = store.make_setting_id(summary.setting)
                known = {record.kernel: record.measured_at for record in records(store, number)}
                for record in records(source, summary.id):
                    before = known.get(record.kernel)
                    if before is not None and before >= record.measured_at:
                        kept += 1
                        continue
                    added += before is None
                    replaced += before is not None
                    _put(store, number, record)
    return Merged(added, replaced, kept)


def export(store: CostStore, path: Path, only: int | None = None) -> Merged:
    """Write a store, or one setting of it, to one file that travels; it appears when complete.

    Raises
    ------
    CostStoreError
        If there is no such setting, the file is a store that is in use, or it cannot be written.
    OSError
        If it cannot take its place.
    """
    log = path.with_name(path.name + "-wal")
    if log.exists() or (path.exists() and path.samefile(store.path)):
        raise CostStoreError(f"{path} is a cost store in use; choose another file")
    with CostStore(Path(":memory:")) as copy, replacing(path) as file:
        merged = merge(copy, store, only)
        try:
            copy.database.execute("VACUUM INTO ?", (str(file),))
        except CostStoreError as error:  # which names the copy
            raise CostStoreError(f"{path} cannot be written: {error.__cause__}") from error
    return merged


def prune(
    store: CostStore,
    *,
    failed: bool = False,
    older_than_days: float | None = None,
    setting: int | None = None,
    other_versions: bool = False,
    dry_run: bool = False,
) -> int:
    """Remove the kernels that meet all of the given conditions; return how many.

    Parameters
    ----------
    store : CostStore
    failed : bool
        Only kernels that could not be measured: they will be tried again.
    older_than_days : float, optional
        Only kernels that were measured longer ago.
    setting : int, optional
        Only kernels of this setting.
    other_versions : bool
        Only kernels measured with another TVM, other schedules or another method than today's,
        which are not looked up any more.
    dry_run : bool
        Only count.

    Raises
    ------
    CostStoreError
        If there is no such setting.
    """
    conditions: list[str] = []
    values: list[object] = []
    if failed:
        conditions.append("error IS NOT NULL")
    if older_than_days is not None:
        conditions.append("measured_at < datetime('now', ?)")
        values.append(f"-{older_than_days} days")
    if setting is not None:
        summary_of(store, setting)
        conditions.append("setting = ?")
        values.append(setting)
    if other_versions:
        conditions.append(
            "setting NOT IN (SELECT id FROM settings "
            "WHERE tvm = ? AND pipeline = ? AND method LIKE ?)"
        )
        values += [tvm.__version__, schedule.fingerprint(), f"{METHOD}, %"]
    where = " AND ".join(conditions) or "TRUE"
    if dry_run:
        counted = store.database.execute(f"SELECT count(*) FROM measurements WHERE {where}", values)
        return int(counted[0][0])
    with store.database.transaction():
        removed = store.database.change(f"DELETE FROM measurements WHERE {where}", values)
        store.database.execute(
            "DELETE FROM settings WHERE id NOT IN (SELECT setting FROM measurements)"
        )
    return removed


def _put(store: CostStore, setting: int, record: Record) -> None:
    known = record.measurement
    store.database.execute(
        "INSERT OR REPLACE INTO measurements "
        "(setting, kernel, seconds, spread, repeats, error, measured_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            setting,
            record.kernel,
            known.seconds,
            known.spread,
            known.repeats,
            known.error,
            record.measured_at,
        ),
    )


def _check_rows(store: CostStore) -> None:
    """Refuse what no version of this package has written: SQLite itself keeps values of any type.

    Raises
    ------
    CostStoreError
        If there is such a row.
    """
    [[strange]] = store.database.execute(
        "SELECT count(*) FROM measurements WHERE typeof(kernel) <> 'text' "
        "OR (seconds IS NULL) = (error IS NULL) "
        "OR (seconds IS NOT NULL AND (typeof(seconds) <> 'real' OR seconds NOT BETWEEN 0 AND 1e9)) "
        "OR (error IS NOT NULL AND typeof(error) <> 'text') "
        "OR typeof(spread) <> 'real' OR spread < 0 OR typeof(repeats) <> 'integer' OR repeats < 0 "
        "OR datetime(measured_at) IS NOT measured_at"
    )
    if strange:
        raise CostStoreError(
            f"{store.path} holds {strange} rows that are no measurements: measure anew, or import "
            "another file"
        )
