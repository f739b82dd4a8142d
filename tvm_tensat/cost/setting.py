"""The setting that a time belongs to: target, pipeline, records, versions, machine, method."""

from __future__ import annotations

import hashlib
from pathlib import Path

import tvm

from tvm_tensat import schedule
from tvm_tensat.cost.kernel import Setting
from tvm_tensat.cost.machine import describe, identity, runs_on_cpu, target_text

METHOD = "rotation 1"
"""Version of how times are taken; it changes with everything in this folder that changes them."""
_LEAST_ROTATION_BYTES = 24 << 20
_MOST_ROTATION_BYTES = 64 << 20


def rotation_bytes(target: tvm.target.Target) -> int:
    """Return how many bytes of weights a measurement rotates through.

    As much as the last-level cache holds, but at least 24 MB, with which NasRNN's sums came out
    right on a machine of unknown share, and at most 64 MB, since filling them takes time.
    """
    if not runs_on_cpu(target):
        return _MOST_ROTATION_BYTES
    return min(_MOST_ROTATION_BYTES, max(_LEAST_ROTATION_BYTES, describe().cache_bytes))


def setting_of(target: tvm.target.Target, tuning_records: Path | None = None) -> Setting:
    """Return the setting in which kernels for this target are measured on this machine."""
    return Setting(
        target=target_text(target),
        pipeline=schedule.fingerprint(),
        tuning_records="" if tuning_records is None else digest(tuning_records),
        tvm=tvm.__version__,
        machine=identity(target),
        method=f"{METHOD}, {rotation_bytes(target) >> 20} MiB",
    )


def digest(path: Path) -> str:
    """Return a digest of a file, or of all files in a folder with their names.

    Raises
    ------
    FileNotFoundError
        If there is nothing at this path.
    """
    if not path.exists():
        raise FileNotFoundError(f"no tuning records at {path}")
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    total = hashlib.sha256()
    for file in files:
        total.update(str(file.relative_to(path)).encode() + b"\0")
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def build_pipeline(target: tvm.target.Target, tuning_records: str | None) -> tvm.transform.Pass:
    """Return the pipeline that kernels are built with: the one that models are built with."""
    records = None if tuning_records is None else Path(tuning_records)
    return schedule.build_pipeline(target, tuning_records=records)
