"""Measured times that outlive the process: one SQLite file, shared by all processes of a user.

Two tables: ``settings`` holds each distinct `Setting` once, ``measurements`` one row for each
(setting, kernel). `tvm_tensat.cost.database` guards the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from types import TracebackType

from tvm_tensat.cost.database import CostStoreError, Database
from tvm_tensat.cost.kernel import Measurement, Setting, StoreKey

__all__ = ["CostStore", "CostStoreError", "default_path"]

_KEYS_A_QUERY = 500
_SETTING = (
    "target = ? AND pipeline = ? AND tuning_records = ? AND tvm = ? AND machine = ? AND method = ?"
)


def default_path() -> Path:
    """Return where costs are kept: ``$TVM_TENSAT_COSTS``, or in the user's cache directory."""
    if chosen := os.environ.get("TVM_TENSAT_COSTS"):
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tvm_tensat" / "costs.sqlite"


class CostStore:
    """Measurements by `StoreKey`, in one SQLite file.

    An instance belongs to the thread that made it; any number of processes may use one file.

    Parameters
    ----------
    path : Path, optional
        The file, created when missing; `default_path` when None. ``Path(":memory:")`` keeps
        everything in this process only.
    read_only : bool
        Never create or change the file, and refuse one that is missing or holds nothing yet.

    Attributes
    ----------
    path : Path
    database : Database

    Raises
    ------
    CostStoreError
        If the file is not a cost store, is damaged, has a schema that this version does not know,
        or cannot be opened or created. The file is left as it was.
    """

    def __init__(self, path: Path | None = None, *, read_only: bool = False) -> None:
        self.path = default_path() if path is None else Path(path)
        self.database = Database(self.path, read_only)

    def get_many(self, keys: Sequence[StoreKey]) -> dict[StoreKey, Measurement]:
        """Return what is known about these keys; unknown ones are left out."""
        found: dict[StoreKey, Measurement] = {}
        for setting, kernels in _by_setting(keys).items():
            number = self.setting_id(setting)
            if number is None:
                continue
            for start in range(0, len(kernels), _KEYS_A_QUERY):
                chunk = kernels[start : start + _KEYS_A_QUERY]
                marks = ", ".join("?" * len(chunk))
                rows = self.database.execute(
                    "SELECT kernel, seconds, spread, repeats, error FROM measurements "
                    f"WHERE setting = ? AND kernel IN ({marks})",
                    (number, *chunk),
                )
                for kernel, *values in rows:
                    found[StoreKey(kernel, setting)] = Measurement(*values)
        return found

    def get_setting(self, setting: Setting) -> dict[str, Measurement]:
        """Return all that is known in a setting, by the kernel's key."""
        rows = self.database.execute(
            "SELECT kernel, seconds, spread, repeats, error FROM measurements WHERE setting = ?",
            (self.setting_id(setting),),
        )
        return {kernel: Measurement(*values) for kernel, *values in rows}

    def put_many(self, measurements: Mapping[StoreKey, Measurement]) -> None:
        """Keep these measurements, all or none of them, in place of older ones of the same key."""
        with self.database.transaction():
            for key, measurement in measurements.items():
                self.database.execute(
                    "INSERT OR REPLACE INTO measurements "
                    "(setting, kernel, seconds, spread, repeats, error) VALUES (?, ?, ?, ?, ?, ?)",
                    (self.make_setting_id(key.setting), key.kernel, *astuple(measurement)),
                )

    def setting_id(self, setting: Setting) -> int | None:
        """Return the number of a setting in this file, None if it has none."""
        rows = self.database.execute(f"SELECT id FROM settings WHERE {_SETTING}", astuple(setting))
        return int(rows[0][0]) if rows else None

    def make_setting_id(self, setting: Setting) -> int:
        """Return the number of a setting in this file, a new one if it has none."""
        number = self.setting_id(setting)
        if number is not None:
            return number
        self.database.execute(
            "INSERT INTO settings (target, pipeline, tuning_records, tvm, machine, method) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            astuple(setting),
        )
        return int(self.database.execute("SELECT last_insert_rowid()")[0][0])

    def __len__(self) -> int:
        return int(self.database.execute("SELECT count(*) FROM measurements")[0][0])

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        self.database.close()

    def __enter__(self) -> CostStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _by_setting(keys: Iterable[StoreKey]) -> dict[Setting, list[str]]:
    kernels: dict[Setting, list[str]] = {}
    for key in keys:
        kernels.setdefault(key.setting, []).append(key.kernel)
    return kernels
