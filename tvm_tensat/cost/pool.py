"""Worker processes that survive what kernels do to them, and the lock that keeps them honest.

A kernel is built and then timed in the same process. Building may go on in several processes at
once; while a kernel is timed, nothing else may run: `machine_lock` is shared by builders and
exclusive for timers, between all processes of this machine that measure.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NoReturn

from tvm.support.popen_pool import PopenWorker

from tvm_tensat.cost import worker
from tvm_tensat.cost.kernel import MeasureError

_POLL_SECONDS = 0.005
_GRACE_SECONDS = 2.0
"""How much later than the worker's own alarm the pool's time-out comes."""


class Stopped(Exception):
    """The caller wants no more measurements."""


class Worker:
    """One measuring process, started when needed and again after a kernel has broken it.

    Parameters
    ----------
    target : str
        What the process builds for, as JSON.
    memory_bytes : int or None
        How much memory it may take; unlimited when None.
    tuning_records : str or None
        Path of the user's tuning records.
    start : callable
        Prepares the process; takes `memory_bytes`, `target` and `tuning_records`.
    """

    def __init__(
        self,
        target: str,
        memory_bytes: int | None = None,
        tuning_records: str | None = None,
        start: Callable[[int | None, str, str | None], None] = worker.start,
    ) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._process = PopenWorker(stdout=self._stderr, stderr=self._stderr)
        self._start_function = start
        self._start_arguments = (memory_bytes, target, tuning_records)
        self._thread = ThreadPoolExecutor(1)

    def serves(self, target: str, tuning_records: str | None) -> bool:
        """Whether it builds for this target with these records."""
        return self._start_arguments[1:] == (target, tuning_records)

    def start(self) -> Future[None]:
        """Start the process if it is not there; fails with `MeasureError`."""
        return self._thread.submit(self._start)

    def call(self, function: Callable[..., Any], *args: Any, timeout: float) -> Future[Any]:
        """Call a function of `tvm_tensat.cost.worker`; its last argument is the time-out.

        The future's result is the function's, or one line that says how the process ended.
        """
        return self._thread.submit(self._call, function, (*args, timeout), timeout)

    def kill(self) -> None:
        """End the process now, whatever it does; a call in flight returns at once."""
        # PopenWorker.kill would wait for the thread that reads the answer, so the process itself
        # is ended; the reading thread then sees the end of the pipe. Needs TVM 0.27's attribute.
        process = self._process._proc
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process and free everything."""
        self.kill()
        self._thread.shutdown(wait=True)
        self._process.kill()
        self._stderr.close()

    def _start(self) -> None:
        if self._process.is_alive():
            return
        try:
            self._process.send(self._start_function, self._start_arguments)
            self._process.recv()
        except ChildProcessError as error:
            self._fail_to_start(self._last_words(0) or "it ended at once", error)
        except Exception as error:
            self._fail_to_start(worker.last_line(error), error)

    def _fail_to_start(self, reason: str, error: Exception) -> NoReturn:
        self._process.kill()
        raise MeasureError(
            f"no measuring process can be started: {reason}; check that {sys.executable} can "
            "import tvm_tensat, and that this machine can build for (and, unless devices are "
            f"remote, has a device for) {self._start_arguments[1]}"
        ) from error

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], timeout: float) -> Any:
        self._start()
        process = self._process._proc
        written = os.fstat(self._stderr.fileno()).st_size
        try:
            self._process.send(function, args, timeout=timeout + _GRACE_SECONDS)
            return self._process.recv()
        except TimeoutError:
            return f"timed out after {timeout:g} s"
        except ChildProcessError:
            return self._epitaph(process.poll(), timeout, written)

    def _epitaph(self, code: int | None, timeout: float, written: int) -> str:
        """Say in one line how the process ended."""
        if code is not None and hasattr(signal, "SIGALRM") and code == -signal.SIGALRM:
            return f"timed out after {timeout:g} s"
        if code is not None and code < 0:
            how = f"the process was ended by {signal.Signals(-code).name}"
        else:
            how = f"the process ended with exit status {code}"
        said = self._last_words(written)
        return f"{how}: {said}" if said else how

    def _last_words(self, start: int) -> str:
        """Return the first line that the process wrote after this position and that says much."""
        text = os.pread(self._stderr.fileno(), 4096, start).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return next(
            (line for line in lines if "rror" in line or "ault" in line), *lines[:1] or [""]
        )


def wait(futures: list[Future[Any]], stop: Callable[[], bool]) -> None:
    """Wait until all are done; raises `Stopped` as soon as `stop` says so."""
    while not all(future.done() for future in futures):
        if stop():
            raise Stopped
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def machine_lock(exclusive: bool, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Share this machine with builders, or have it alone for timing.

    Advisory, between the processes of one user that use this function; released by the system
    when its holder dies. Not to be taken again by whoever has it. Does nothing where the system
    has no ``flock``.

    Raises
    ------
    Stopped
        If `stop` returns True while waiting.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return

    def is_mine(file: IO[str], kind: int) -> bool:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def take(file: IO[str], kind: int) -> None:
        while not is_mine(file, kind):
            if stop():
                raise Stopped
            time.sleep(_POLL_SECONDS)

    stem = str(Path(tempfile.gettempdir()) / f"tvm-tensat-{os.getuid()}")
    with Path(stem + ".gate").open("a") as gate, Path(stem + ".lock").open("a") as file:
        # Whoever waits holds the gate, so that new builders cannot starve a timer.
        take(gate, fcntl.LOCK_EX)
        take(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield
