"""Measuring kernels: the store first, then worker processes, every result kept as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import psutil
import tvm

from tvm_tensat.cost.kernel import Kernel, Measurement, StoreKey
from tvm_tensat.cost.machine import describe, runs_on_cpu, target_text
from tvm_tensat.cost.pool import Stopped, Worker, machine_lock, wait
from tvm_tensat.cost.setting import rotation_bytes, setting_of
from tvm_tensat.cost.store import CostStore
from tvm_tensat.cost.worker import Samples, Task, build, run

DEFAULT_REPEATS = 50
_MOST_WORKERS = 4
_STOPPED = "stopped before it was measured"


def measure(
    kernels: Sequence[Kernel],
    target: tvm.target.Target,
    *,
    store: CostStore,
    timeout: float = 10.0,
    repeats: int = DEFAULT_REPEATS,
    tuning_records: Path | None = None,
    model_bytes: int | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> list[Measurement]:
    """Return the time of each kernel on this machine, from the store where it is known.

    Kernels that are not in the store are built with the pipeline that models are built with, and
    timed in processes of their own, one at a time. A kernel that fails, crashes, hangs or takes
    too much memory is recorded as failed with the reason.

    Parameters
    ----------
    kernels : sequence of Kernel
        Kernels of equal key are measured once.
    target : tvm.target.Target
        What to build for; kernels run on the CPU, or on device 0 of the target's kind.
    store : CostStore
        Where times are looked up and kept, each as soon as it is known.
    timeout : float
        Seconds that building a kernel may take, and again that timing it may take.
    repeats : int
        Most samples to take of a kernel; fewer suffice when they agree.
    tuning_records : Path, optional
        The user's MetaSchedule records, which the pipeline applies.
    model_bytes : int, optional
        Size of all weights of the model that the kernels belong to: when it is less than the
        last-level cache, weights come from there and not from memory, which can be a factor of
        three for products of a vector. When None, weights come from memory.
    workers : int, optional
        Processes that build at the same time; a choice by cores when None.
    progress : callable, optional
        Called with (kernels done, kernels in all) whenever one is done.
    stop : callable, optional
        Asked many times a second; when it returns True, measuring ends at once, and kernels that
        are not measured by then come back as failed but are not recorded.

    Raises
    ------
    MeasureError
        If there is no device for the target, or no measuring process can be started.
    KeyboardInterrupt
        Passed on within a second; what was measured is in the store.
    """
    setting = setting_of(target, tuning_records, model_bytes)
    keys = [StoreKey(kernel.key, setting) for kernel in kernels]
    known = store.get_many(keys)
    missing = {key: kernel for key, kernel in zip(keys, kernels, strict=True) if key not in known}
    done = len({*keys}) - len(missing)
    total = done + len(missing)

    def tell() -> None:
        if progress is not None:
            progress(done, total)

    tell()
    records = None if tuning_records is None else str(tuning_records.resolve())
    tasks = {
        key: Task(
            module=tvm.ir.save_json(kernel.module),
            weights=kernel.weights,
            target=target_text(target),
            tuning_records=records,
            rotation_bytes=rotation_bytes(target, model_bytes),
        )
        for key, kernel in missing.items()
    }
    measured = _measure_tasks(tasks, timeout, repeats, workers, stop or _never)
    with closing(measured):  # so that Ctrl-C ends the workers at once
        for key, measurement in measured:
            store.put_many({key: measurement})
            known[key] = measurement
            done += 1
            tell()
    return [known.get(key, Measurement.failure(_STOPPED)) for key in keys]


def _measure_tasks(
    tasks: dict[StoreKey, Task],
    timeout: float,
    repeats: int,
    workers: int | None,
    stop: Callable[[], bool],
) -> Generator[tuple[StoreKey, Measurement], None, None]:
    """Yield each measurement as it arrives; end early when `stop` says so."""
    if not tasks or stop():
        return
    count = min(len(tasks), workers or min(_MOST_WORKERS, describe().cores))
    memory = psutil.virtual_memory().available // count
    first = next(iter(tasks.values()))
    # A GPU's driver reserves far more memory than it uses.
    limit = memory if runs_on_cpu(tvm.target.Target(first.target)) else None
    pool = [Worker(first.target, limit, first.tuning_records) for _ in range(count)]
    try:
        for batch in _batches(tasks.items(), count):
            yield from _measure_batch(batch, pool, timeout, repeats, stop)
    except Stopped:
        return
    finally:
        for worker in pool:
            worker.kill()
        for worker in pool:
            worker.close()


def _measure_batch(
    batch: list[tuple[StoreKey, Task]],
    pool: list[Worker],
    timeout: float,
    repeats: int,
    stop: Callable[[], bool],
) -> Iterator[tuple[StoreKey, Measurement]]:
    """Build one kernel in each worker, all at the same time; then time them one by one."""
    staffed = list(zip(batch, pool, strict=False))
    starting = [worker.start() for _, worker in staffed]
    wait(starting, stop)
    for future in starting:
        future.result()
    with machine_lock(exclusive=False, stop=stop):
        building = [worker.call(build, task, timeout=timeout) for (_, task), worker in staffed]
        wait(building, stop)
    for ((key, _), worker), built in zip(staffed, building, strict=True):
        if (reason := built.result()) is not None:
            yield key, Measurement.failure(f"building failed: {reason}")
            continue
        with machine_lock(exclusive=True, stop=stop):
            running = worker.call(run, repeats, timeout=timeout)
            wait([running], stop)
        samples = running.result()
        if isinstance(samples, Samples):
            yield key, Measurement(samples.median, samples.spread, samples.count, None)
        else:
            yield key, Measurement.failure(f"running failed: {samples}")


def _batches(
    items: Iterable[tuple[StoreKey, Task]], size: int
) -> Iterator[list[tuple[StoreKey, Task]]]:
    waiting = list(items)
    for start in range(0, len(waiting), size):
        yield waiting[start : start + size]


def _never() -> bool:
    return False
