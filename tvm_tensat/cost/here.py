"""Measuring on this machine: kernels are built side by side, and timed one by one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psutil
import tvm

from tvm_tensat.cost.kernel import Measurement, StoreKey
from tvm_tensat.cost.machine import describe, identity, runs_on_cpu
from tvm_tensat.cost.place import LEAST_ROTATION_BYTES, MOST_ROTATION_BYTES, Limits
from tvm_tensat.cost.pool import Stopped, Worker, machine_lock, wait
from tvm_tensat.cost.worker import Samples, Task, build, run


class Here:
    """The CPU of this machine, or its device 0 of the target's kind.

    A `tvm_tensat.cost.place.Place`. Kernels are built and timed in the same processes; while one is
    timed nothing else runs.
    """

    def __init__(self) -> None:
        self._idle: list[Worker] | None = None  # None while no processes are kept

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep processes from one call of `measure` to the next."""
        if self._idle is not None:
            yield
            return
        self._idle = []
        try:
            yield
        finally:
            idle, self._idle = self._idle, None
            _end(idle)

    def identity(self, target: tvm.target.Target) -> str:
        """Return what changes a kernel's time on this machine."""
        return identity(target)

    def cold_bytes(self, target: tvm.target.Target) -> int:
        """Return twice the CPU's last-level cache, within limits; for other devices the most."""
        if not runs_on_cpu(target):
            return MOST_ROTATION_BYTES
        return min(MOST_ROTATION_BYTES, max(LEAST_ROTATION_BYTES, 2 * describe().cache_bytes))

    def measure(
        self, tasks: Mapping[StoreKey, Task], limits: Limits, stop: Callable[[], bool]
    ) -> Generator[tuple[StoreKey, Measurement], None, None]:
        """Yield each measurement as it arrives."""
        if not tasks or stop():
            return
        count = limits.builders(len(tasks))
        memory = psutil.virtual_memory().available // count
        first = next(iter(tasks.values()))
        # A GPU's driver reserves far more memory than it uses.
        limit = memory if runs_on_cpu(tvm.target.Target(first.target)) else None
        pool = self._take(count, first)
        pool += [
            Worker(first.target, limit, first.tuning_records) for _ in range(count - len(pool))
        ]
        try:
            for batch in _batches(tasks.items(), count):
                yield from _measure_batch(batch, pool, limits, stop)
            if self._idle is not None:
                self._idle += pool
                pool = []
        except Stopped:
            return
        finally:
            _end(pool)

    def _take(self, count: int, task: Task) -> list[Worker]:
        """Return processes that were kept and serve for this task, at most so many."""
        idle = self._idle or []
        serving = [w for w in idle if w.serves(task.target, task.tuning_records)][:count]
        for worker in serving:
            idle.remove(worker)
        return serving


HERE = Here()


def _end(workers: Sequence[Worker]) -> None:
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.close()


def _measure_batch(
    batch: list[tuple[StoreKey, Task]],
    pool: list[Worker],
    limits: Limits,
    stop: Callable[[], bool],
) -> Iterator[tuple[StoreKey, Measurement]]:
    """Build one kernel in each worker, all at the same time; then time them one by one."""
    timeout = limits.timeout
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
            running = worker.call(run, limits.repeats, timeout=timeout)
            wait([running], stop)
        samples = running.result()
        if isinstance(samples, Samples):
            yield key, samples.measurement()
        else:
            yield key, Measurement.failure(f"running failed: {samples}")


def _batches(
    items: Iterable[tuple[StoreKey, Task]], size: int
) -> Iterator[list[tuple[StoreKey, Task]]]:
    waiting = list(items)
    for start in range(0, len(waiting), size):
        yield waiting[start : start + size]
