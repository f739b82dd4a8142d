"""Files that a command writes, refused before any work is done."""

from __future__ import annotations

import os
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
