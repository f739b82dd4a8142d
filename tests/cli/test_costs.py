"""``tvmc costs`` as a process: what it prints, moves, removes, measures and refuses."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.cli.conftest import Command, write_onnx
from tests.cost.stores import CPU, FAILURE, GPU, Rows, fill, read, state, took
from tvm_tensat.cost import CostStore

OLD, NEW = "2026-01-01 00:00:00", "2026-02-01 00:00:00"
ROWS: Rows = {
    (CPU, "matmul of little"): (took(1), OLD),
    (CPU, "matmul of much"): (took(50), NEW),
    (CPU, "conv2d"): (FAILURE, OLD),
    (GPU, "matmul of little"): (took(0.1), OLD),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return fill(tmp_path / "costs.sqlite", ROWS)


def test_list_prints_a_line_for_each_setting(tvmc: Command, path: Path) -> None:
    before = state(path)
    done = tvmc("costs", "list", "--store", path)
    assert done.returncode == 0, done.stderr
    heads, cpu, gpu = done.stdout.splitlines()
    assert " ".join(heads.split()) == (
        "ID TARGET MACHINE TVM SCHEDULES RECORDS METHOD KERNELS FAILED NEWEST"
    )
    assert " ".join(cpu.split()) == (
        f"1 llvm znver3 a CPU, 2 thread(s) 0.27 pipeline none rotation 2, 64 MiB 3 1 {NEW}"
    )
    assert " ".join(gpu.split()) == (
        f"2 cuda sm_90 a GPU 0.27 pipeline records rotation 2, 64 MiB 1 0 {OLD}"
    )
    found = json.loads(tvmc("costs", "list", "--store", path, "--json").stdout)
    assert found[0] == {"id": 1, "setting": asdict(CPU), "kernels": 3, "failed": 1, "newest": NEW}
    assert state(path) == before


def test_show_prints_the_slowest_kernel_first_and_failures_last(tvmc: Command, path: Path) -> None:
    done = tvmc("costs", "show", 1, "--store", path)
    assert done.returncode == 0, done.stderr
    heads, *rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert heads == "MS SPREAD REPEATS DATE KERNEL"
    assert rows == [
        f"50.0000 5.0% 20 {NEW} matmul of much",
        f"1.0000 5.0% 20 {OLD} matmul of little",
        f"failed {OLD} conv2d: timed out after 10 s",
    ]


@pytest.mark.parametrize(
    ("arguments", "kernels"),
    [
        (["matmul"], ["matmul of much", "matmul of little"]),
        (["of little"], ["matmul of little"]),
        (["--failed"], ["conv2d"]),
        (["matmul", "--failed"], []),
    ],
)
def test_show_selects(tvmc: Command, path: Path, arguments: list[str], kernels: list[str]) -> None:
    done = tvmc("costs", "show", 1, *arguments, "--store", path, "--json")
    found = json.loads(done.stdout)
    assert [each["kernel"] for each in found] == kernels
    for each in found:
        measurement, date = ROWS[CPU, each["kernel"]]
        assert each == {"kernel": each["kernel"], **asdict(measurement), "measured_at": date}


def test_what_is_exported_and_imported_elsewhere_is_the_same(
    tvmc: Command, path: Path, tmp_path: Path
) -> None:
    travels, elsewhere = tmp_path / "travels.sqlite", tmp_path / "new" / "costs.sqlite"
    done = tvmc("costs", "export", "--store", path, "-o", travels)
    assert done.stdout == f"{path} -> {travels}: 4 kernels\n"
    assert read(travels) == ROWS
    done = tvmc("costs", "import", travels, "--store", elsewhere)
    assert done.stdout == (
        f"{travels} -> {elsewhere}: 4 kernels added, 0 replaced by newer times, 0 kept\n"
    )
    assert read(elsewhere) == ROWS
    fill(travels, {(GPU, "matmul of little"): (took(3), NEW)})
    done = tvmc("costs", "import", travels, "--store", elsewhere)
    assert "0 kernels added, 1 replaced by newer times, 3 kept" in done.stdout
    tvmc("costs", "export", "--store", elsewhere, "-o", travels, "--setting", 2)
    assert read(travels) == {(GPU, "matmul of little"): (took(3), NEW)}


def test_prune_removes_what_is_asked_for_and_says_how_much(tvmc: Command, path: Path) -> None:
    done = tvmc("costs", "prune", "--store", path, "--failed", "--dry-run")
    assert done.stdout == f"{path}: 1 kernels would be removed, 3 would stay\n"
    assert read(path) == ROWS
    done = tvmc("costs", "prune", "--store", path, "--failed")
    assert done.stdout == f"{path}: 1 kernels removed, 3 left\n"
    assert read(path) == {key: row for key, row in ROWS.items() if row[0] != FAILURE}
    done = tvmc("costs", "prune", "--store", path, "--older-than", 1, "--setting", 2)
    assert done.stdout == f"{path}: 1 kernels removed, 2 left\n"
    assert {setting for setting, _ in read(path)} == {CPU}
    assert tvmc("costs", "prune", "--store", path, "--other-versions").returncode == 0
    assert read(path) == {}


@pytest.mark.parametrize(
    "action", [["list"], ["show", "1"], ["export", "-o", "out.sqlite"], ["prune", "--failed"]]
)
def test_without_a_store_there_is_one_error_and_none_is_made(
    fails: Callable[..., str], tmp_path: Path, action: list[str]
) -> None:
    path = tmp_path / "absent" / "costs.sqlite"
    assert f"there is no cost store at {path}" in fails("costs", *action, "--store", path)
    assert not path.parent.exists()


def _no_database(path: Path) -> None:
    path.write_text("x" * 5000)


def _cut_short(path: Path) -> None:
    fill(path, {(CPU, f"{number}" * 100): (took(1), OLD) for number in range(100)})
    path.write_bytes(path.read_bytes()[:-9000])


def _of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE measurements (setting, kernel)")


def _newer(path: Path) -> None:
    fill(path, ROWS)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_no_database, "is no SQLite database"),
        (_cut_short, "is damaged"),
        (_of_another_program, "another program"),
        (_newer, "has schema version 2"),
    ],
)
def test_files_that_are_no_stores_of_ours_are_refused_and_kept(
    fails: Callable[..., str],
    path: Path,
    tmp_path: Path,
    make: Callable[[Path], None],
    message: str,
) -> None:
    other = tmp_path / "other.sqlite"
    make(other)
    before = state(other)
    assert message in fails("costs", "import", other, "--store", path)
    assert read(path) == ROWS
    for action in (["list"], ["show", 1], ["prune", "--failed"], ["import", path]):
        assert message in fails("costs", *action, "--store", other)
    assert state(other) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prune"], "give at least one of --failed, --older-than, --setting, --other-versions"),
        (["prune", "--older-than", "soon"], "'soon' is no number of days"),
        (["prune", "--older-than", "-1"], "'-1' is no number of days"),
        (["show", "9"], "has no setting 9; its settings are: 1, 2"),
        (["prune", "--setting", "9"], "has no setting 9"),
        (["export", "-o", "absent/e.sqlite"], "the folder absent does not exist"),
        (["import", "absent.sqlite"], "absent.sqlite: no such file"),
        (["measure", "zoo:nothing", "--target", "llvm"], "zoo:nothing"),
        (["measure", "zoo:bert", "--target", "llvm", "--tensat-nodes", "0"], "more than 0"),
        (["measure", "zoo:bert", "--target", "llvm", "--tensat-race", "true"], "unknown argument"),
        (
            ["measure", "a.onnx", "b.onnx", "--target", "llvm", "--input-shapes", "x:[1]"],
            "one model",
        ),
        (["fill"], "invalid choice: 'fill'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    fails: Callable[..., str], path: Path, arguments: list[str], message: str
) -> None:
    assert message in fails("costs", *arguments, "--store", path)
    assert read(path) == ROWS


def test_an_import_onto_a_full_disk_is_one_error_and_changes_nothing(
    path: Path, tmp_path: Path
) -> None:
    """A limit on the size of files is the nearest to a full disk that needs no rights."""
    large = fill(
        tmp_path / "large.sqlite",
        {(CPU, f"{number} " * 200): (took(1), OLD) for number in range(500)},
    )
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000,) * 2); "
        "from tvm_tensat.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "costs", "import", large, "--store", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"tvmc: error: cannot use {path} as cost store: ")
    assert "has room on its disk" in line
    assert read(path) == ROWS


def test_a_reader_that_has_enough_is_no_error(path: Path) -> None:
    tvmc = Path(sys.executable).with_name("tvmc")
    with subprocess.Popen(
        [tvmc, "costs", "show", "1", "--store", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.fixture(scope="module")
def two_onnx(folder: Path) -> Path:
    """Two products of one matrix, which the pass may merge into one."""
    generator = np.random.default_rng(0)
    weights = {n: generator.random((32, 32), dtype=np.float32) for n in "ab"}
    nodes = [helper.make_node("MatMul", ["x", n], [f"out_{n}"], name=n) for n in "ab"]
    outputs = {f"out_{n}": [8, 32] for n in "ab"}
    path = folder / "products.onnx"
    return write_onnx(path, *nodes, inputs={"x": [8, 32]}, outputs=outputs, weights=weights)


def test_measure_fills_a_store_that_compile_then_finds_complete(
    tvmc: Command, folder: Path, two_onnx: Path, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "costs.sqlite"
    arguments = ["--target", "llvm", "--store", path]
    done = tvmc("costs", "measure", two_onnx, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    [model] = outcome["models"]
    assert (outcome["store"], model["model"]) == (str(path), str(two_onnx))
    assert model["measured"] > 0
    assert (model["recorded"], model["failed"], model["failures"]) == (0, 0, [])
    assert {"calibrate", "explore", "measure", "extract"} <= model["seconds"].keys()
    assert not {"build", "check", "race"} & model["seconds"].keys()
    calibration = 4
    assert len(read(path)) == model["measured"] + calibration

    done = tvmc("costs", "measure", two_onnx, two_onnx, *arguments)
    first, second, last = done.stdout.splitlines()
    assert f": 0 kernels measured, {model['measured']} from the store, 0 failed; " in first
    assert first.split(";")[0] == second.split(";")[0]
    assert last == f"{path}: {model['measured'] + calibration} kernels"

    options = ["--tensat", "--tensat-cost-store", path, "--tensat-race", "false"]
    done = tvmc("compile", two_onnx, "--target", "llvm", "-o", "filled.so", "--json", *options)
    blocks = json.loads(done.stdout)["tensat"]["blocks"]
    assert sum(block["kernels_measured"] for block in blocks) == 0
    assert sum(block["kernels_recorded"] for block in blocks) == model["measured"]


def test_a_target_without_a_device_cannot_be_measured(
    fails: Callable[..., str], two_onnx: Path, tmp_path: Path
) -> None:
    path = tmp_path / "costs.sqlite"
    other = '{"kind": "llvm", "mtriple": "riscv64-unknown-linux-gnu"}'
    line = fails("costs", "measure", two_onnx, "--target", other, "--store", path)
    assert "nothing can be measured: no llvm device on this machine" in line
    assert not path.exists()


@pytest.mark.parametrize("command", ["costs measure", "compile"])
def test_ctrl_c_ends_measuring_within_a_second_or_so_and_keeps_what_there_is(
    tmp_path: Path, command: str
) -> None:
    path = tmp_path / "costs.sqlite"
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from tvm_tensat.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    store = ["--store"] if command == "costs measure" else ["--tensat", "--tensat-cost-store"]
    arguments = [*command.split(), "zoo:squeezenet", "--target", "llvm", *store, path]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    deadline = time.monotonic() + 120
    while not _count(path):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    pressed = time.monotonic()
    output, errors = process.communicate(timeout=30)
    assert time.monotonic() - pressed < 3.0
    assert process.returncode == 130
    assert output == ""
    kept = f"; {_count(path)} new kernels are kept in {path}" if command != "compile" else ""
    assert errors == f"tvmc: error: interrupted{kept}\n"
    assert _count(path) > 0


def _count(path: Path) -> int:
    if not path.exists() or not path.stat().st_size:
        return 0
    with CostStore(path, read_only=True) as store:
        return len(store)
