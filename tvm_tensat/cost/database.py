"""The SQLite file behind a cost store: recognized before it is opened, written by all at once.

The file is in WAL mode: readers never block, writers wait for each other, and a writer that is
killed loses only its open transaction. It carries an application id and a schema version. They are
read from its header, as bytes, before SQLite opens it: opening a database of another program may
already write to it, because SQLite completes what a killed writer left in its log.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

APPLICATION_ID = 0x54454E53
"""Marks an SQLite file as a cost store ("TENS" in ASCII)."""
SCHEMA_VERSION = 1
_TABLES = ("settings", "measurements")
_LOCK_SECONDS = 30.0

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

# Places in the header of an SQLite file, from its documentation ("Database File Format", 1.3).
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES, _VERSION_AT, _APPLICATION_AT = 100, 60, 68

Rows = list[tuple[Any, ...]]


class CostStoreError(Exception):
    """A cost store that cannot be used: what is wrong with which file, and what to do."""


class Database:
    """One open cost store file; statements fail with `CostStoreError`.

    Parameters
    ----------
    path : Path
        Created when missing, unless only read. ``Path(":memory:")`` keeps everything in this
        process only.
    read_only : bool
        Never create or change the file, and refuse one that is missing or holds nothing yet.

    Raises
    ------
    CostStoreError
        If the file is not a cost store, is damaged, has a schema that this version does not know,
        or cannot be opened or created. The file is left as it was.
    """

    def __init__(self, path: Path, read_only: bool = False) -> None:
        self.path = path
        in_memory = str(path) == ":memory:"
        is_store = False if in_memory else self._is_store(read_only)
        if read_only and not is_store:
            raise CostStoreError(
                f"there is no cost store at {path}; `tvmc costs measure` makes one, "
                "TVM_TENSAT_COSTS names another"
            )
        with self._explained():
            # isolation_level=None: transactions are where this package says BEGIN, nowhere else.
            self._connection = sqlite3.connect(
                str(path) if in_memory else path.absolute().as_uri() + _mode(path, read_only),
                timeout=_LOCK_SECONDS,
                isolation_level=None,
                uri=not in_memory,
            )
        try:
            with self._explained():
                self._open(read_only)
        except BaseException:
            self.close()
            raise

    def _is_store(self, read_only: bool) -> bool:
        """Whether the schema is there; False for a file that is missing or still empty."""
        try:
            if not read_only:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("rb") as file:
                head = file.read(_HEADER_BYTES)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise CostStoreError(
                f"cannot use {self.path} as cost store: {error.strerror}; choose another file by "
                "TVM_TENSAT_COSTS"
            ) from error
        if not head:
            return False
        if not head.startswith(_MAGIC) or len(head) < _HEADER_BYTES:
            raise CostStoreError(
                f"{self.path} is no SQLite database, so it is no cost store; it is left as it is: "
                "choose another file by TVM_TENSAT_COSTS, or remove it"
            )
        if _number(head, _APPLICATION_AT) != APPLICATION_ID:
            raise CostStoreError(
                f"{self.path} is an SQLite database of another program; it is left as it is: "
                "choose another file by TVM_TENSAT_COSTS"
            )
        if (version := _number(head, _VERSION_AT)) != SCHEMA_VERSION:
            raise CostStoreError(
                f"{self.path} has schema version {version}, this version of tvm_tensat reads "
                f"version {SCHEMA_VERSION}: choose another file by TVM_TENSAT_COSTS, or use the "
                "version of tvm_tensat that wrote it"
            )
        return True

    def _open(self, read_only: bool) -> None:
        if read_only:
            self._connection.execute("PRAGMA query_only = ON")
        elif self._count_tables() == 0:
            # Before WAL mode, so that the header is in the file itself and no longer in a log.
            with self.transaction():
                if self._count_tables() == 0:  # another process may have been faster
                    for statement in _SCHEMA.split(";"):
                        self._connection.execute(statement)
        verdict = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        if self._count_tables() != len(_TABLES):
            raise sqlite3.DatabaseError(f"it has no tables {' and '.join(_TABLES)}")
        if not read_only:
            self._switch_to_wal()
            self._connection.execute("PRAGMA synchronous = NORMAL")

    def _count_tables(self) -> int:
        found = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return len({name for (name,) in found}.intersection(_TABLES))

    def _switch_to_wal(self) -> None:
        # SQLite does not wait for other processes here, whatever the connection's timeout.
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:  # noqa: PERF203 - trying again is the point
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def execute(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """Run one statement and return its rows."""
        with self._explained():
            return self._connection.execute(statement, values).fetchall()

    def change(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run one statement and return how many rows it changed."""
        with self._explained():
            return self._connection.execute(statement, values).rowcount

    @contextmanager
    def transaction(self, *, writes: bool = True) -> Iterator[None]:
        """Do everything or nothing; see one state of the file throughout."""
        self.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # a full disk has already rolled it back
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise CostStoreError(
                f"cannot use {self.path} as cost store: {error}; check that the file can be "
                "written, is not locked and has room on its disk, or choose another by "
                "TVM_TENSAT_COSTS"
            ) from error
        except sqlite3.DatabaseError as error:
            raise CostStoreError(
                f"the cost store {self.path} is damaged: {error}; it is left as it is: move it "
                "away to start anew, or choose another file by TVM_TENSAT_COSTS"
            ) from error

    def close(self) -> None:
        """Close the file; the database cannot be used afterwards."""
        self._connection.close()


def _number(head: bytes, place: int) -> int:
    return int.from_bytes(head[place : place + 4], "big")


def _mode(path: Path, read_only: bool) -> str:
    """Return how SQLite is to open a file, as the query of its URI."""
    if not read_only:
        return "?mode=rwc"
    # Readers keep notes beside a file in WAL mode; the last one to close removes them if it may
    # write. Where the folder takes no files, nobody else can be writing, unless a log is there.
    if os.access(path.parent, os.W_OK):
        return "?mode=rw"
    log = path.with_name(path.name + "-wal")
    return "?mode=ro" if log.exists() else "?mode=ro&immutable=1"
