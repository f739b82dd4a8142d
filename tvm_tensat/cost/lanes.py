"""Kernels built on this machine and timed on the devices of a tracker, as many at once as devices.

A lane is a process with the thread that drives it: it takes a kernel, builds it, waits for a
device, sends the kernel there and times it. There are as many lanes as devices, and some more that
build meanwhile, as far as this machine has cores for them.

A device that is lost while it has a kernel may have failed for reasons of its own, so the kernel is
tried again on another; one that loses a second device is recorded as failed. (The server of TVM
0.27 ends when a kernel crashes it, and must be started again.) When no device is left, lanes end,
and kernels that were not measured are not recorded.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import psutil

from tvm_tensat.cost import remote
from tvm_tensat.cost.kernel import MeasureError, Measurement
from tvm_tensat.cost.place import Limits
from tvm_tensat.cost.pool import Stopped, Worker, machine_lock
from tvm_tensat.cost.remote import Failed, Lost, Sized
from tvm_tensat.cost.tracker import Grant, Tracker
from tvm_tensat.cost.worker import Samples, Task

_MOST_LOST = 2
"""Devices that a kernel may lose before it is taken to be its own fault."""
_MOST_UNREACHABLE = 3
"""Devices in a row that were free but could not be connected to, before the farm is given up."""
_LEAST_BYTES_PER_SECOND = 2e6
"""What the network and the device's file system carry, at the least: a fast Ethernet's 12.5 MB/s,
shared by some."""
_SILENT_SECONDS = 5.0
"""How much later than a server should end a session its device counts as lost."""
_POLL_SECONDS = 0.05

Key = TypeVar("Key")


class Lanes:
    """Processes that build kernels and time them on devices, each driven by a thread.

    Parameters
    ----------
    tracker : Tracker
        Lends the devices.
    cross_compiler : str or None
        Links for them; see `tvm_tensat.cost.remote.export`.
    limits : Limits
    builders : int
        Processes that may build at the same time.
    count : int
        Lanes.
    example : Task
        Any task, for its target and records.
    """

    def __init__(
        self,
        tracker: Tracker,
        cross_compiler: str | None,
        limits: Limits,
        builders: int,
        count: int,
        example: Task,
    ) -> None:
        self._tracker, self._cross_compiler, self._limits = tracker, cross_compiler, limits
        self._building = threading.Semaphore(builders)
        self._closing = threading.Event()
        memory = psutil.virtual_memory().available // count
        self._workers = [
            Worker(example.target, memory, example.tuning_records, remote.start)
            for _ in range(count)
        ]
        for worker in self._workers:  # starting takes seconds; who fails says so when it is needed
            worker.start()
        self._threads: list[threading.Thread] = []

    def measure(
        self, tasks: Mapping[Key, Task], stop: Callable[[], bool]
    ) -> Iterator[tuple[Key, Measurement]]:
        """Yield each measurement as it arrives.

        Raises
        ------
        MeasureError
            When a lane cannot go on, after all others have done what they had begun.
        Stopped
            If `stop` returns True.
        """
        waiting: queue.SimpleQueue[tuple[Key, Task]] = queue.SimpleQueue()
        results: queue.SimpleQueue[tuple[Key, Measurement] | Exception | None]
        results = queue.SimpleQueue()
        for item in tasks.items():
            waiting.put(item)
        self._threads = [
            threading.Thread(target=self._lane, args=(worker, waiting, results), daemon=True)
            for worker in self._workers[: len(tasks)]
        ]
        for thread in self._threads:
            thread.start()
        running = len(self._threads)
        failure: Exception | None = None
        while running:
            if stop():
                raise Stopped
            try:
                result = results.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if isinstance(result, tuple):
                yield result
                continue
            running -= 1
            if result is not None and not isinstance(result, Stopped):
                failure = failure or result
                self._closing.set()
        if failure is not None:
            raise failure

    def end(self) -> None:
        """End everything now, whatever it does."""
        self._closing.set()
        while any(thread.is_alive() for thread in self._threads):
            for worker in self._workers:
                worker.kill()
            time.sleep(_POLL_SECONDS)
        for worker in self._workers:
            worker.close()

    def _lane(
        self,
        worker: Worker,
        waiting: queue.SimpleQueue[tuple[Key, Task]],
        results: queue.SimpleQueue[tuple[Key, Measurement] | Exception | None],
    ) -> None:
        """Measure what is waiting; put each result, and None or the reason at the end."""
        try:
            while not self._closing.is_set():
                key, task = waiting.get_nowait()
                results.put((key, self._measure(worker, task)))
            results.put(None)
        except queue.Empty:
            results.put(None)
        except Exception as error:
            results.put(error)

    def _measure(self, worker: Worker, task: Task) -> Measurement:
        """Build a kernel and time it on a device, on another one when that is lost."""
        lost: list[str] = []
        while len(lost) < _MOST_LOST:
            library = self._build(worker, task)
            if isinstance(library, Failed):
                return Measurement.failure(f"building failed: {library.reason}")
            try:
                grant, outcome = self._run(worker, library)
            except MeasureError as error:
                if lost:
                    raise MeasureError(f"{error}; a kernel lost {', '.join(lost)}") from error
                raise
            if isinstance(outcome, Samples):
                return outcome.measurement()
            if isinstance(outcome, Failed):
                return Measurement.failure(f"running failed: {outcome.reason}")
            lost.append(f"the device at {grant} ({outcome.reason})")
        return Measurement.failure(f"running failed: lost {' and '.join(lost)}")

    def _build(self, worker: Worker, task: Task) -> Sized | Failed:
        with self._building, machine_lock(exclusive=False, stop=self._closing.is_set):
            self._go_on()
            timeout = self._limits.timeout
            built = worker.call(remote.build, task, self._cross_compiler, timeout=timeout).result()
        return Failed(built) if isinstance(built, str) else built

    def _run(self, worker: Worker, library: Sized) -> tuple[Grant, Samples | Failed | Lost]:
        seconds = self._limits.timeout + library.bytes / _LEAST_BYTES_PER_SECOND
        for _ in range(_MOST_UNREACHABLE):
            self._go_on()
            grant = self._tracker.request(self._closing.is_set)
            outcome = worker.call(
                remote.run, grant, seconds, self._limits.repeats, timeout=seconds + _SILENT_SECONDS
            ).result()
            if isinstance(outcome, str):  # the process ended: the device did not answer in time
                outcome = Lost(outcome, running=True)
            if not isinstance(outcome, Lost) or outcome.running:
                return grant, outcome
        raise MeasureError(f"the device at {grant} cannot be connected to: {outcome.reason}")

    def _go_on(self) -> None:
        if self._closing.is_set():
            raise Stopped
