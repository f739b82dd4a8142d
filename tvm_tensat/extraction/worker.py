"""The child process of `tvm_tensat.extraction.process`: reads a task, sends messages, ends."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def _without_parent_package() -> None:
    """Make ``tvm_tensat.extraction`` importable without executing ``tvm_tensat/__init__.py``."""
    if sys.path and Path(sys.path[0]) == Path(__file__).parent:
        sys.path.pop(0)  # put there by Python, which was started with this file's path
    package = types.ModuleType("tvm_tensat")
    package.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["tvm_tensat"] = package


def _end_with_parent(stream: IO[bytes]) -> None:
    """End this process when the parent closes the pipe (it ended, or wants no more)."""
    stream.read(1)
    os._exit(1)


def main() -> None:
    """Read the task from standard input, work, and write messages to standard output."""
    messages = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what solvers print must not mix with the messages
    # Loaded while the parent prepares the task.

    import tvm_tensat.extraction.pool  # noqa: F401

    task = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, args=(sys.stdin.buffer,), daemon=True).start()

    def send(message: tuple[Any, ...]) -> None:
        pickle.dump(message, messages)
        messages.flush()

    try:
        _work(task, send)
    except Exception as error:  # such as a solver that is not installed
        send(("failed", f"{type(error).__name__}: {' '.join(str(error).split())}"))
    send(("done",))
    messages.flush()
    os._exit(0)  # solver libraries have been seen to crash while they are unloaded


def _work(task: tuple[Any, ...], send: Callable[[tuple[Any, ...]], None]) -> None:
    name, *arguments = task
    if name == "tensat":
        from tvm_tensat.extraction.tensat import solve_tensat

        solve_tensat(*[*arguments, send])
    elif name == "exact":
        from tvm_tensat.extraction.exact import solve_and_send

        solve_and_send(*[*arguments, send])
    elif name == "pool":
        from tvm_tensat.extraction.pool import solve_pool

        solve_pool(*[*arguments, send])
    else:
        raise ValueError(f"unknown task {name!r}")


if __name__ == "__main__":
    _without_parent_package()
    main()
