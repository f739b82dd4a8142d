"""Measuring survives what kernels do, asks the store first, and keeps what it has."""

import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
import tvm
from tvm import relax

from tests.cost.kernels import TARGET, calling, kernel, matmul, relu, tensor
from tvm_tensat.cost import CostStore, MeasureError, Measurement, measure
from tvm_tensat.cost.here import HERE
from tvm_tensat.cost.machine import target_text
from tvm_tensat.cost.pool import Stopped, Worker, machine_lock
from tvm_tensat.cost.worker import Task, build

LLVM = target_text(TARGET)
HANG_SECONDS = 5.0


@dataclass(frozen=True)
class Campaign:
    """One run of `measure` over all the kernels below: starting workers takes seconds."""

    measurements: dict[str, Measurement]
    progress: list[tuple[int, int]]
    stored: int


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    x, w, table = tensor("x", 8, 8), tensor("w", 64, 64), tensor("table", 3, 5)
    rows = tensor("rows", 7, dtype="int64")
    kernels = [
        relu(8),
        calling("abort"),
        calling("pause"),
        calling("no_such_function"),
        matmul(1, 1 << 21, 1 << 21),  # 16 TiB of weights
        kernel([x], relax.op.split(x, 2, axis=1), "split"),
        kernel([w], relax.op.nn.relu(w), "relu of a weight", (True,)),
        kernel([table, rows], relax.op.take(table, rows, axis=0), "take", (True, False)),
        replace(matmul(1, 4, 4), weights=(True,), key="too few flags"),
        kernel([tensor("x", 4)], relax.op.nn.relu(tensor("x", 4)), "free variable"),
        matmul(1, 32, 32),
        matmul(1, 256, 256),
    ]
    seen: list[tuple[int, int]] = []
    store = CostStore(Path(":memory:"))
    measurements = measure(
        kernels,
        TARGET,
        store=store,
        timeout=HANG_SECONDS,
        workers=2,
        progress=lambda done, total: seen.append((done, total)),
    )
    by_key = {k.key: m for k, m in zip(kernels, measurements, strict=True)}
    return Campaign(by_key, seen, len(store))


@pytest.fixture
def store() -> CostStore:
    return CostStore(Path(":memory:"))


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("calling abort", "SIGABRT"),
        ("calling no_such_function", "SIGSEGV"),
        ("calling pause", f"running failed: timed out after {HANG_SECONDS:g} s"),
        ("matmul 1x2097152 2097152x2097152", "emory"),
        ("too few flags", "2 parameters but 1 weight flags"),
        ("free variable", "building failed"),
    ],
)
def test_a_bad_kernel_is_recorded_with_the_reason(
    campaign: Campaign, key: str, reason: str
) -> None:
    measurement = campaign.measurements[key]
    assert measurement.seconds is None
    assert measurement.error is not None
    assert reason in measurement.error
    assert "\n" not in measurement.error


@pytest.mark.parametrize("key", ["relu (8,)", "split", "relu of a weight", "take"])
def test_a_good_kernel_among_bad_ones_is_measured(campaign: Campaign, key: str) -> None:
    """One result or several, weights only, and integers that must be valid indices."""
    measurement = campaign.measurements[key]
    assert measurement.error is None
    assert measurement.seconds is not None
    assert 0 <= measurement.seconds < 1e-4
    assert measurement.repeats > 0


def test_every_kernel_is_stored_and_told(campaign: Campaign) -> None:
    count = len(campaign.measurements)
    assert campaign.stored == count
    assert campaign.progress == [(done, count) for done in range(count + 1)]


def test_a_larger_product_takes_longer(campaign: Campaign) -> None:
    small = campaign.measurements["matmul 1x32 32x32"].seconds
    large = campaign.measurements["matmul 1x256 256x256"].seconds
    assert small is not None
    assert large is not None
    assert large > 4 * small  # 64 times the work


def test_what_the_store_knows_is_not_measured(store: CostStore) -> None:
    first = measure([relu(8), relu(8)], TARGET, store=store)
    assert len(store) == 1, "kernels of equal key are one"
    again = measure([relu(8)], TARGET, store=store, stop=lambda: True)
    assert first == again * 2
    unknown = measure([relu(9)], TARGET, store=store, stop=lambda: True)[0]
    assert unknown.error is not None and "stopped" in unknown.error
    assert len(store) == 1, "what was stopped is not recorded as failed"


def test_stopping_ends_a_hanging_kernel_within_a_second(store: CostStore) -> None:
    """The second kernel hangs; stopping is asked for as soon as the first is known."""
    started: list[float] = []

    def stop() -> bool:
        if len(store) and not started:
            started.append(time.monotonic())
        return bool(started) and time.monotonic() > started[0] + 0.5

    kernels = [relu(8), calling("pause")]
    good, hanging = measure(kernels, TARGET, store=store, timeout=60.0, workers=1, stop=stop)
    assert time.monotonic() - started[0] - 0.5 < 1.0
    assert good.error is None and hanging.error is not None
    assert len(store) == 1


def test_ctrl_c_keeps_what_was_measured_and_ends_at_once(tmp_path: Path) -> None:
    program = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from tests.cost.kernels import TARGET, calling, relu
from tvm_tensat.cost import CostStore, measure
kernels = [relu(8), calling("pause")]
store = CostStore(Path(sys.argv[1]))
say = lambda done, total: print(done, flush=True)
measure(kernels, TARGET, store=store, timeout=60.0, workers=1, progress=say)
"""
    path = tmp_path / "costs.sqlite"
    command = [sys.executable, "-c", program, str(path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert process.stdout is not None
    while process.stdout.readline().strip() != "1":
        assert process.poll() is None
    time.sleep(0.5)
    pressed = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert time.monotonic() - pressed < 1.5
    assert "KeyboardInterrupt" in errors
    with CostStore(path) as store:
        assert len(store) == 1


def test_a_worker_that_cannot_start_is_no_kernels_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    worker = Worker(LLVM)
    with pytest.raises(MeasureError, match="no measuring process"):
        worker.start().result()
    worker.close()


def test_a_worker_cannot_take_more_memory_than_it_is_given() -> None:
    """The kernel's two weights of 1 GiB would fit into this machine, but not into the limit."""
    greedy = matmul(1, 1 << 14, 1 << 14)
    module = tvm.ir.save_json(greedy.module)
    task = Task(module, greedy.weights, LLVM, None, rotation_bytes=2 << 30)
    worker = Worker(LLVM, memory_bytes=1 << 30)
    reason = worker.call(build, task, timeout=20.0).result()
    worker.close()
    assert reason is not None and "emory" in reason


def test_a_target_without_a_device_is_no_kernels_fault(store: CostStore) -> None:
    if tvm.metal(0).exist:
        pytest.skip("this machine has a Metal device")
    with pytest.raises(MeasureError, match="no metal device"):
        measure([relu(8)], tvm.target.Target("metal"), store=store)
    assert len(store) == 0


@pytest.mark.gpu
def test_a_kernel_is_measured_on_cuda(store: CostStore) -> None:
    if not tvm.cuda(0).exist:
        pytest.skip("no CUDA device on this machine")
    target = tvm.target.Target.from_device(tvm.cuda(0))
    measurement = measure([matmul(64, 256, 256)], target, store=store, timeout=60.0)[0]
    assert measurement.error is None and measurement.seconds is not None
    assert 1e-7 < measurement.seconds < 1e-2


def test_builders_share_the_machine_and_a_timer_has_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # not the lock that others use now

    def free(exclusive: bool) -> bool:
        try:
            with machine_lock(exclusive, stop=lambda: True):
                return True
        except Stopped:
            return False

    with machine_lock(exclusive=False):
        assert free(exclusive=False)
        assert not free(exclusive=True)
    with machine_lock(exclusive=True):
        assert not free(exclusive=False)
        assert not free(exclusive=True)
    assert free(exclusive=True)


def test_processes_are_kept_between_two_calls_and_ended_after_them():
    store = CostStore(Path(":memory:"))
    with HERE.kept():
        pids = []
        for size in (24, 40):
            [time] = measure([relu(size)], TARGET, store=store, workers=1)
            assert time.error is None
            [worker] = HERE._idle
            pids.append(worker._process._proc.pid)
        assert pids[0] == pids[1] and psutil.pid_exists(pids[0])
    assert HERE._idle is None and not psutil.pid_exists(pids[0])
