"""Measured times that outlive the process: one SQLite file, shared by all processes of a user.

Two tables: ``settings`` holds each distinct `Setting` once, ``measurements`` one row for each
(setting, kernel). The file is in WAL mode: readers never block, writers wait for each other, and a
writer that is killed loses only its open transaction. The file carries an application id and a
schema version; a file without them is somebody else's and is never written to.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from types import TracebackType

from tvm_tensat.cost.kernel import Measurement, Setting, StoreKey

APPLICATION_ID = 0x54454E53
"""Marks an SQLite file as a cost store ("TENS" in ASCII)."""
SCHEMA_VERSION = 1
_LOCK_SECONDS = 30.0
_KEYS_A_QUERY = 500

_SCHEMA = f"""
CREATE TABLE settings (
    id INTEGER PRIMARY KEY,
    target TEXT NOT NULL,
    pipeline TEXT NOT NULL,
    tuning_records TEXT NOT NULL,
    tvm TEXT NOT NULL,
    machine TEXT NOT NULL,
    method TEXT NOT NULL,
    UNIQUE (target, pipeline, tuning_records, tvm, machine, method)
);
CREATE TABLE measurements (
    setting INTEGER NOT NULL REFERENCES settings (id),
    kernel TEXT NOT NULL,
    seconds REAL,
    spread REAL NOT NULL,
    repeats INTEGER NOT NULL,
    error TEXT,
    measured_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (setting, kernel),
    CHECK ((seconds IS NULL) <> (error IS NULL))
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""
_SETTING = (
    "target = ? AND pipeline = ? AND tuning_records = ? AND tvm = ? AND machine = ? AND method = ?"
)


class CostStoreError(Exception):
    """A cost store that cannot be used: what is wrong with which file, and what to do."""


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

    Raises
    ------
    CostStoreError
        If the file is not a cost store, is damaged, has a schema that this version does not know,
        or cannot be opened or created. The file is left as it was.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = default_path() if path is None else Path(path)
        in_memory = str(self.path) == ":memory:"
        if not in_memory:
            self._refuse_other_files()
        with self._explained():
            # isolation_level=None: transactions are where this file says BEGIN, nowhere else.
            self._database = sqlite3.connect(
                str(self.path), timeout=_LOCK_SECONDS, isolation_level=None
            )
        try:
            with self._explained():
                self._open()
        except CostStoreError:
            self._database.close()
            raise

    def _refuse_other_files(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("rb") as file:
                head = file.read(16)
        except FileNotFoundError:
            return
        except OSError as error:
            raise CostStoreError(
                f"cannot use {self.path} as cost store: {error.strerror}; choose another file by "
                "TVM_TENSAT_COSTS"
            ) from error
        if head not in (b"", b"SQLite format 3\0"):
            raise CostStoreError(
                f"{self.path} is no SQLite database, so it is no cost store; it is left as it is: "
                "choose another file by TVM_TENSAT_COSTS, or remove it"
            )

    def _open(self) -> None:
        if not self._is_ours():
            # WAL is a property of the file. Whoever is killed between this and the transaction
            # leaves a database without tables, which is initialized by the next one.
            self._switch_to_wal()
            with self._transaction():
                if not self._is_ours():  # another process may have been faster
                    for statement in _SCHEMA.split(";"):
                        self._database.execute(statement)
        self._database.execute("PRAGMA synchronous = NORMAL")
        verdict = self._database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)

    def _switch_to_wal(self) -> None:
        # SQLite does not wait for other processes here, whatever the connection's timeout.
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                self._database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:  # noqa: PERF203 - trying again is the point
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _is_ours(self) -> bool:
        """Whether the schema is there; False for a database that is still empty."""
        # One statement, so that all three are of one moment: another process may be creating them.
        application, version, tables = self._database.execute(
            "SELECT (SELECT application_id FROM pragma_application_id), "
            "(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)"
        ).fetchone()
        if (application, version, tables) == (0, 0, 0):
            return False
        if application != APPLICATION_ID:
            raise CostStoreError(
                f"{self.path} is an SQLite database of another program; it is left as it is: "
                "choose another file by TVM_TENSAT_COSTS"
            )
        if version != SCHEMA_VERSION:
            raise CostStoreError(
                f"{self.path} has schema version {version}, this version of tvm_tensat reads "
                f"version {SCHEMA_VERSION}: choose another file by TVM_TENSAT_COSTS, or use the "
                "version of tvm_tensat that wrote it"
            )
        return True

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise CostStoreError(
                f"cannot use {self.path} as cost store: {error}; check that the file can be "
                "written and is not locked, or choose another by TVM_TENSAT_COSTS"
            ) from error
        except sqlite3.DatabaseError as error:
            raise CostStoreError(
                f"the cost store {self.path} is damaged: {error}; it is left as it is: move it "
                "away to start anew, or choose another file by TVM_TENSAT_COSTS"
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def get_many(self, keys: Sequence[StoreKey]) -> dict[StoreKey, Measurement]:
        """Return what is known about these keys; unknown ones are left out."""
        found: dict[StoreKey, Measurement] = {}
        with self._explained():
            for setting, kernels in _by_setting(keys).items():
                number = self._setting_id(setting)
                if number is None:
                    continue
                for start in range(0, len(kernels), _KEYS_A_QUERY):
                    chunk = kernels[start : start + _KEYS_A_QUERY]
                    marks = ", ".join("?" * len(chunk))
                    rows = self._database.execute(
                        "SELECT kernel, seconds, spread, repeats, error FROM measurements "
                        f"WHERE setting = ? AND kernel IN ({marks})",
                        (number, *chunk),
                    )
                    for kernel, *values in rows:
                        found[StoreKey(kernel, setting)] = Measurement(*values)
        return found

    def get_setting(self, setting: Setting) -> dict[str, Measurement]:
        """Return all that is known in a setting, by the kernel's key."""
        with self._explained():
            rows = self._database.execute(
                "SELECT kernel, seconds, spread, repeats, error FROM measurements "
                f"WHERE setting = (SELECT id FROM settings WHERE {_SETTING})",
                astuple(setting),
            )
            return {kernel: Measurement(*values) for kernel, *values in rows}

    def put_many(self, measurements: Mapping[StoreKey, Measurement]) -> None:
        """Keep these measurements, all or none of them, in place of older ones of the same key."""
        with self._explained(), self._transaction():
            for key, measurement in measurements.items():
                number = self._setting_id(key.setting)
                if number is None:
                    number = self._add_setting(key.setting)
                self._database.execute(
                    "INSERT OR REPLACE INTO measurements "
                    "(setting, kernel, seconds, spread, repeats, error) VALUES (?, ?, ?, ?, ?, ?)",
                    (number, key.kernel, *astuple(measurement)),
                )

    def _setting_id(self, setting: Setting) -> int | None:
        row = self._database.execute(
            f"SELECT id FROM settings WHERE {_SETTING}", astuple(setting)
        ).fetchone()
        return None if row is None else int(row[0])

    def _add_setting(self, setting: Setting) -> int:
        columns = "target, pipeline, tuning_records, tvm, machine, method"
        cursor = self._database.execute(
            f"INSERT INTO settings ({columns}) VALUES (?, ?, ?, ?, ?, ?)", astuple(setting)
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def __len__(self) -> int:
        with self._explained():
            return int(self._database.execute("SELECT count(*) FROM measurements").fetchone()[0])

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        self._database.close()

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
