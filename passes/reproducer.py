"""What is needed to look into a wrong result: both modules, on disk."""

from __future__ import annotations

import tempfile
from datetime import datetime, timezone
from pathlib import Path

import tvm

from tvm_tensat.cost.store import default_path


def save_reproducer(before: tvm.IRModule, after: tvm.IRModule, why: str) -> Path:
    """Write a module and its wrong replacement beside the default cost store.

    The folder appears under its name when it is complete.

    Parameters
    ----------
    before, after : tvm.IRModule
        Written as ``before.json`` and ``after.json``, for `tvm.ir.load_json`.
    why : str
        Written as ``why.txt``.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    root = default_path().parent / "failures"
    root.mkdir(parents=True, exist_ok=True)
    began = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H-%M-%S")
    folder = Path(tempfile.mkdtemp(prefix=f".{began}-", dir=root))
    (folder / "before.json").write_text(tvm.ir.save_json(before))
    (folder / "after.json").write_text(tvm.ir.save_json(after))
    (folder / "why.txt").write_text(why + "\n")
    return folder.rename(root / folder.name.removeprefix("."))
