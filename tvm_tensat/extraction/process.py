"""A solver process that can be stopped: time limits hold and Ctrl-C works whatever a solver does.

A solver's library call cannot be interrupted from Python, and one that crashes takes its process
with it. So it runs in a child process. The child gets one pickled task on its standard input and
sends pickled messages back on its standard output while it works; it ends by itself when the
parent goes away, because its standard input is then closed.

The child is started by path and does not execute ``tvm_tensat/__init__.py``: it needs numpy, scipy
and mip, but not TVM, whose import takes seconds.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, Any

_END = object()


class Child:
    """A solver process that loads its libraries and waits for a task, for one `run_in_process`.

    Loading takes half a second: whoever knows that a task will come starts the child before
    preparing it. Leaving the ``with`` block ends the process.
    """

    def __init__(self) -> None:
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process: subprocess.Popen[bytes] | None = None
        self.reason = ""  # why there is no process
        try:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("worker.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                # What can be imported here can be imported there.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # a terminal's Ctrl-C is for the parent
            )
        except (OSError, TypeError) as error:  # no interpreter of its own: embedded, or moved away
            self.reason = f"a solver process cannot be started ({error})"

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        self.errors.close()


def run_in_process(
    task: tuple[Any, ...], deadline: float, child: Child | None = None
) -> Generator[Any, None, None]:
    """Run a task in a child process and yield its messages until it ends or time is up.

    Parameters
    ----------
    task : tuple
        What `tvm_tensat.extraction.worker` understands: a name and its arguments.
    deadline : float
        In `time.monotonic` seconds; the child is killed then.
    child : Child, optional
        One that was started before.

    Yields
    ------
    object
        The child's messages. A last message ``("failed", reason)`` is added when the child ended
        without ``("done",)``: it crashed or was killed at the deadline.
    """
    with child or Child() as started:
        if started.process is None:
            yield ("failed", started.reason)
        else:
            yield from _messages(started.process, task, deadline, started.errors)


def _messages(
    child: subprocess.Popen[bytes], task: tuple[Any, ...], deadline: float, errors: IO[bytes]
) -> Iterator[Any]:
    assert child.stdin is not None and child.stdout is not None
    arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(child.stdout, arrived.put), daemon=True).start()
    threading.Thread(target=_write, args=(child.stdin, task), daemon=True).start()
    while True:
        try:
            message = arrived.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            yield ("failed", "time limit")
            return
        if message is _END:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else "no message"
            yield ("failed", f"the solver process ended with code {child.wait()} ({reason})")
            return
        yield message
        if message == ("done",):
            return


def _read(stream: IO[bytes], put: Callable[[Any], None]) -> None:
    try:
        while True:
            put(pickle.load(stream))
    except Exception:  # end of file, or a message cut short by a crash
        put(_END)


def _write(stream: IO[bytes], task: tuple[Any, ...]) -> None:
    with contextlib.suppress(OSError, ValueError):  # the child died: the reader reports it
        pickle.dump(task, stream)
        stream.flush()
