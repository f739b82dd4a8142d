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
from typing import Any

from tvm.support.popen_pool import PopenWorker

from tvm_tensat.cost import worker

_POLL_SECONDS = 0.02
_GRACE_SECONDS = 2.0
"""How much later than the worker's own alarm the pool's time-out comes."""


class Stopped(Exception):
    """The caller wants no more measurements."""


class MeasureError(Exception):
    """Measuring is impossible here, whatever the kernel: what fails and what to do."""


class Worker:
    """One measuring process, started when needed and again after a kernel has broken it.

    Parameters
    ----------
    memory_bytes : int or None
        How much memory the process may take; unlimited when None.
    """

    def __init__(self, memory_bytes: int | None) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._process = PopenWorker(stdout=self._stderr, stderr=self._stderr)
        self._memory_bytes = memory_bytes
        self._thread = ThreadPoolExecutor(1)

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
            self._process.send(worker.start, (self._memory_bytes,))
            self._process.recv()
        except Exception as error:
            said = self._last_words(0)
            raise MeasureError(
                f"no measuring process can be started: {said or worker.one_line(error)}; check "
                "that tvm and tvm_tensat can be imported by " + repr(sys.executable)
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
        time.sleep(_POLL_SECONDS / 10)


@contextlib.contextmanager
def machine_lock(exclusive: bool, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Share this machine with builders, or have it alone for timing.

    Advisory, between the processes of one user that use this function; released by the system
    when its holder dies. Does nothing where the system has no ``flock``.

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
    path = Path(tempfile.gettempdir()) / f"tvm-tensat-{os.getuid()}.lock"
    with path.open("a") as file:
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        while True:
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stop():
                    raise Stopped from None
                time.sleep(_POLL_SECONDS)
        yield
