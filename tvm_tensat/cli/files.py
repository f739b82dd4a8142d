"""Files that a command writes: refused early, or replaced as a whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tvm_tensat.cli.errors import CommandError


def check_writable(path: Path | None) -> None:
    """Refuse, before any work is done, a file that could not be written after it.

    Raises
    ------
    CommandError
        When its folder does not exist or takes no files.
    """
    if path is None:
        return
    folder = path.parent
    if not folder.is_dir():
        raise CommandError(f"{path}: the folder {folder} does not exist; create it first")
    if path.is_dir() or not os.access(folder, os.W_OK):
        raise CommandError(f"{path}: cannot be written; choose another name or folder")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a file in the same folder that takes the place of `path` when all went well.

    Readers see the old file or the new one, never a part.
    """
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
