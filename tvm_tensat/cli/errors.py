"""Errors that a user of the command line can act on, and silence for everything else.

A command ends with one line on stderr: what was wrong, where, and what to do. TVM and LLVM write
warnings to the process's stderr from C++, and TVM's importers print; without ``-v`` these are
held back, so that the one line stands alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator

EXIT_ERROR = 4
EXIT_MISSING_PACKAGE = 5


_PRINTER_NOTE = "# Metadata omitted. Use show_meta=True in script() method to show it."


class CommandError(Exception):
    """What was given, what was expected, what to do: ends the command with exit code 4."""

    exit_code = EXIT_ERROR


class MissingPackageError(CommandError):
    """An optional package is needed and not installed: ends the command with exit code 5."""

    exit_code = EXIT_MISSING_PACKAGE


def one_line(error: BaseException | str, limit: int = 600) -> str:
    """Squeeze a message into one line of at most `limit` characters."""
    text = str(error).replace(_PRINTER_NOTE, "")
    text = " ".join(text.split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."


@contextlib.contextmanager
def quiet(verbose: bool) -> Iterator[None]:
    """Hold back what libraries write to stderr, unless `verbose`; `sys.stderr` keeps working.

    File descriptor 2 goes to a temporary file, for C++ code and child processes. Python code that
    means the user (errors, progress) writes to `sys.stderr`, which goes where it went before.
    """
    if verbose:
        yield
        return
    sys.stderr.flush()
    terminal = os.dup(2)
    python_stderr = sys.stderr
    try:
        with tempfile.TemporaryFile() as spill, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.dup2(spill.fileno(), 2)
            sys.stderr = open(terminal, "w", buffering=1, closefd=False)  # noqa: SIM115
            yield
    finally:
        sys.stderr.flush()
        sys.stderr = python_stderr
        os.dup2(terminal, 2)
        os.close(terminal)


@contextlib.contextmanager
def without_prints() -> Iterator[None]:
    """Swallow what a library prints to stdout from Python."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield
