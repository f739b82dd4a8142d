"""The store outlives processes, however they end, and touches no file that is not its own."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from tvm_tensat.cost import CostStore, CostStoreError, Measurement, Setting, StoreKey
from tvm_tensat.cost.store import default_path

SETTING = Setting("llvm", "pipeline", "", "0.27", "machine", "method")
GOOD = Measurement(1.25e-6, 0.01, 20, None)
BAD = Measurement.failure("timed out after 10 s")

WRITER = """
import sys
from pathlib import Path
from tvm_tensat.cost import CostStore, Measurement, Setting, StoreKey
setting = Setting("llvm", "pipeline", "", "0.27", "machine", "method")
name, first, last = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with CostStore(Path(sys.argv[1])) as store:
    for batch in range(first, last):
        keys = [StoreKey(f"{name} {batch} {i}", setting) for i in range(10)]
        store.put_many({key: Measurement(1e-6 * batch + 1e-9, 0.0, 1, None) for key in keys})
        print(batch, flush=True)
"""


def writer(path: Path, name: str, first: int, last: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "costs.sqlite"


def test_what_was_put_comes_back_in_another_instance(path: Path) -> None:
    good, bad = StoreKey("a", SETTING), StoreKey("b", SETTING)
    with CostStore(path) as store:
        store.put_many({good: GOOD, bad: BAD})
    with CostStore(path) as store:
        assert store.get_many([good, bad, StoreKey("c", SETTING)]) == {good: GOOD, bad: BAD}
        assert len(store) == 2


@pytest.mark.parametrize(
    "field", ["target", "pipeline", "tuning_records", "tvm", "machine", "method"]
)
def test_a_time_is_not_found_under_another_setting(field: str) -> None:
    other = replace(SETTING, **{field: "changed"})
    with CostStore(Path(":memory:")) as store:
        store.put_many({StoreKey("a", SETTING): GOOD})
        assert store.get_many([StoreKey("a", other)]) == {}


def test_a_newer_time_replaces_the_older() -> None:
    key = StoreKey("a", SETTING)
    with CostStore(Path(":memory:")) as store:
        store.put_many({key: BAD})
        store.put_many({key: GOOD})
        assert store.get_many([key]) == {key: GOOD}


def test_more_keys_than_a_query_takes() -> None:
    keys = [StoreKey(str(i), SETTING) for i in range(1234)]
    with CostStore(Path(":memory:")) as store:
        store.put_many(dict.fromkeys(keys, GOOD))
        assert store.get_many(keys) == dict.fromkeys(keys, GOOD)


def test_the_path_comes_from_the_environment_or_the_cache_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TVM_TENSAT_COSTS", "/somewhere/c.sqlite")
    assert default_path() == Path("/somewhere/c.sqlite")
    monkeypatch.delenv("TVM_TENSAT_COSTS")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_path() == Path("/cache/tvm_tensat/costs.sqlite")


def refused(path: Path, message: str) -> None:
    """Opening is refused with this message, and the file stays as it is, byte for byte."""
    before = path.read_bytes()
    with pytest.raises(CostStoreError, match=message):
        CostStore(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a store at all, but something that somebody needs")
    refused(path, "no SQLite database")


def test_a_database_of_another_program_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "theirs.sqlite"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE precious (x)")
    theirs.close()
    refused(path, "another program")


def test_a_newer_schema_is_refused_and_kept(path: Path) -> None:
    CostStore(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    refused(path, "schema version 99")


def test_a_damaged_store_is_refused_and_kept(path: Path) -> None:
    with CostStore(path) as store:
        store.put_many({StoreKey(f"kernel {i}" * 20, SETTING): GOOD for i in range(300)})
    content = bytearray(path.read_bytes())
    assert len(content) > 3 * 4096
    content[2 * 4096 : 3 * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    refused(path, "damaged")


def test_a_path_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CostStoreError, match="cannot use"):
        CostStore(tmp_path / "file" / "costs.sqlite")
    with pytest.raises(CostStoreError, match="cannot use"):
        CostStore(tmp_path)


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with CostStore(path) as store:
        assert len(store) == 0


def test_two_processes_write_one_store_from_its_creation_on(path: Path) -> None:
    writers = [writer(path, name, 0, 40) for name in ("left", "right")]
    for process in writers:
        process.communicate(timeout=60)
        assert process.returncode == 0
    keys = [
        StoreKey(f"{name} {batch} {i}", SETTING)
        for name in ("left", "right")
        for batch in range(40)
        for i in range(10)
    ]
    with CostStore(path) as store:
        assert len(store.get_many(keys)) == len(store) == len(keys)


def open_at_once(path: Path, everyone_is_here: Barrier) -> None:
    everyone_is_here.wait(timeout=30)
    CostStore(path).close()


def test_processes_that_create_one_store_at_the_same_moment_all_succeed(tmp_path: Path) -> None:
    processes = get_context("fork")
    for round_ in range(25):
        barrier = processes.Barrier(4)
        arguments = (tmp_path / f"{round_}.sqlite", barrier)
        openers = [processes.Process(target=open_at_once, args=arguments) for _ in range(4)]
        for opener in openers:
            opener.start()
        for opener in openers:
            opener.join()
        assert [opener.exitcode for opener in openers] == [0] * 4


def test_a_killed_writer_leaves_all_its_finished_transactions(path: Path) -> None:
    first = 0
    for round_ in range(3):
        process = writer(path, "w", first, 10**9)
        assert process.stdout is not None
        for _ in range(5):
            process.stdout.readline()
        time.sleep(0.003 * round_)
        os.kill(process.pid, signal.SIGKILL)
        printed = [int(line) for line in process.communicate()[0].split()]
        with CostStore(path) as store:
            count = len(store)
            assert count % 10 == 0, "a transaction is there in part"
            last = max(printed, default=first + 4)
            assert count >= 10 * (last + 1)
            first = count // 10
            keys = [
                StoreKey(f"w {batch} {i}", SETTING) for batch in range(first) for i in range(10)
            ]
            assert len(store.get_many(keys)) == count
