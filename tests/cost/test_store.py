"""The store outlives processes, however they end, and touches no file that is not its own."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from itertools import count
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from tests.cost.stores import state
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
    before = state(path)
    for read_only in (False, True):
        with pytest.raises(CostStoreError, match=message):
            CostStore(path, read_only=read_only)
    assert state(path) == before


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


def test_the_log_of_another_program_that_was_killed_is_not_touched(tmp_path: Path) -> None:
    """Opening such a database would move what is in the log into the file."""
    path, live = tmp_path / "theirs.sqlite", tmp_path / "live"
    with closing(sqlite3.connect(live, isolation_level=None)) as theirs:
        theirs.execute("PRAGMA journal_mode = WAL")
        theirs.execute("CREATE TABLE precious (x)")
        for end in ("", "-wal"):
            shutil.copy(f"{live}{end}", f"{path}{end}")
    assert (tmp_path / "theirs.sqlite-wal").stat().st_size > 0
    refused(path, "another program")


def test_a_store_without_its_tables_is_refused_and_kept(path: Path) -> None:
    CostStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute("DROP TABLE measurements")
    refused(path, "damaged: it has no tables settings and measurements")


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


def test_a_reader_creates_nothing(path: Path) -> None:
    with pytest.raises(CostStoreError, match="no cost store at"):
        CostStore(path, read_only=True)
    assert not path.parent.exists()
    path.parent.mkdir()
    path.touch()
    with pytest.raises(CostStoreError, match="no cost store at"):
        CostStore(path, read_only=True)
    assert state(path) == {path.name: b""}


def test_a_reader_changes_nothing_and_leaves_nothing_beside_the_file(path: Path) -> None:
    key = StoreKey("a", SETTING)
    with CostStore(path) as store:
        store.put_many({key: GOOD})
    before = state(path)
    with CostStore(path, read_only=True) as reader:
        assert reader.get_many([key]) == {key: GOOD}
        with pytest.raises(CostStoreError, match="readonly"):
            reader.put_many({key: BAD})
    assert state(path) == before


def test_a_reader_sees_what_a_writer_has_just_written(path: Path) -> None:
    with CostStore(path) as writer, CostStore(path, read_only=True) as reader:
        for number in range(3):
            key = StoreKey(str(number), SETTING)
            writer.put_many({key: GOOD})
            assert reader.get_many([key]) == {key: GOOD}


def test_a_store_in_a_folder_that_takes_no_files_can_be_read(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    key = StoreKey("a", SETTING)
    with CostStore(path) as store:
        store.put_many({key: GOOD})
    path.parent.chmod(0o500)
    try:
        with CostStore(path, read_only=True) as reader:
            assert reader.get_many([key]) == {key: GOOD}
        with pytest.raises(CostStoreError, match="cannot use"):
            CostStore(path.with_name("new.sqlite"))
    finally:
        path.parent.chmod(0o700)


def test_a_full_disk_is_one_error_and_costs_only_the_last_transaction(path: Path) -> None:
    keys = [StoreKey(f"{number} " * 100, SETTING) for number in range(200)]
    with CostStore(path) as store:
        store.put_many(dict.fromkeys(keys[:10], GOOD))
        store.database.execute("PRAGMA max_page_count = 10")  # SQLite's own way to feign it
        with pytest.raises(CostStoreError, match=r"disk is full; check that .* has room") as caught:
            store.put_many(dict.fromkeys(keys, GOOD))
        assert "\n" not in str(caught.value)
        assert len(store) == 10
        store.database.execute("PRAGMA max_page_count = 1000")
        store.put_many(dict.fromkeys(keys, GOOD))
        assert len(store) == 200


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


def write_forever(path: Path, name: str, first: int, finished: int) -> None:
    """Write batch after batch of ten; say the number of each that is written, as a line."""
    with CostStore(path) as store:
        for batch in count(first):
            keys = [StoreKey(f"{name} {batch} {i}", SETTING) for i in range(10)]
            store.put_many(dict.fromkeys(keys, GOOD))
            os.write(finished, b"%d\n" % batch)


@pytest.mark.parametrize("seed", range(3))
def test_writers_killed_at_random_moments_lose_no_finished_transaction(
    path: Path, seed: int
) -> None:
    """Two write from the file's creation on, and are killed one shortly after the other."""
    moments = random.Random(seed)
    last = {"left": -1, "right": -1}  # the last batch that is known to be there
    for _ in range(15):
        writers, pipes = {}, {}
        for name in last:
            pipes[name], end = os.pipe()
            arguments = (path, name, last[name] + 1, end)
            writers[name] = get_context("fork").Process(target=write_forever, args=arguments)
            writers[name].start()
            os.close(end)
        time.sleep(0.15 * moments.random())
        for name in moments.sample(sorted(writers), 2):
            writers[name].kill()
            time.sleep(0.01 * moments.random())
        for name, pipe in pipes.items():
            writers[name].join()
            assert writers[name].exitcode == -signal.SIGKILL
            with os.fdopen(pipe, encoding="ascii") as lines:
                last[name] = max([last[name], *map(int, lines)])
        with CostStore(path) as store:
            assert store.database.execute("PRAGMA integrity_check") == [("ok",)]
            found = store.database.execute("SELECT kernel FROM measurements")
        batches = Counter(kernel.rsplit(" ", 1)[0] for (kernel,) in found)
        assert set(batches.values()) <= {10}, "a transaction is there in part"
        for name in last:
            assert {f"{name} {batch}" for batch in range(last[name] + 1)} <= batches.keys()
            there = [int(text.split()[1]) for text in batches if text.startswith(name)]
            last[name] = max(there, default=-1)
    assert sum(last.values()) > 20


def test_readers_are_never_kept_waiting_or_shown_half_a_transaction(path: Path) -> None:
    process = writer(path, "w", 0, 10**9)
    assert process.stdout is not None
    process.stdout.readline()
    counts = []
    longest = 0.0
    for _ in range(200):
        began = time.monotonic()
        with CostStore(path, read_only=True) as reader:
            counts.append(len(reader))
        longest = max(longest, time.monotonic() - began)
    assert process.poll() is None
    process.kill()
    process.communicate()
    assert counts == sorted(counts) and counts[-1] > counts[0]
    assert all(count % 10 == 0 for count in counts)
    assert longest < 5.0
