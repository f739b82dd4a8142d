"""The setting that a time belongs to: target, pipeline, records, versions, machine, method."""

from __future__ import annotations

import hashlib
from pathlib import Path

import tvm

from tvm_tensat import schedule
from tvm_tensat.cost.here import HERE
from tvm_tensat.cost.kernel import Setting
from tvm_tensat.cost.machine import target_text
from tvm_tensat.cost.place import Place

METHOD = "rotation 2"
"""Version of how times are taken; it changes with everything in this folder that changes them."""
_LEAST_POWER = 20


def rotation_bytes(
    target: tvm.target.Target, model_bytes: int | None = None, place: Place = HERE
) -> int:
    """Return how many bytes of weights a measurement rotates through.

    In a model whose weights exceed the last-level cache, weights come from memory; to measure that,
    the rotation is about twice the cache. In a smaller model they stay in the cache, and the
    rotation is as large as its weights.

    Parameters
    ----------
    target : tvm.target.Target
        What the kernels run on.
    model_bytes : int, optional
        Size of all weights of the model that the kernels belong to, rounded up here to a power of
        two, so that models of about the same size share times. When None, larger than the cache.
    place : Place, optional
        Where the kernels run; this machine by default.
    """
    cold = place.cold_bytes(target)
    if model_bytes is None:
        return cold
    return min(cold, 1 << max(_LEAST_POWER, (model_bytes - 1).bit_length()))


def setting_of(
    target: tvm.target.Target,
    tuning_records: Path | None = None,
    model_bytes: int | None = None,
    place: Place = HERE,
) -> Setting:
    """Return the setting in which kernels for this target are measured at a place."""
    return Setting(
        target=target_text(target),
        pipeline=schedule.fingerprint(),
        tuning_records="" if tuning_records is None else digest(tuning_records),
        tvm=tvm.__version__,
        machine=place.identity(target),
        method=f"{METHOD}, {rotation_bytes(target, model_bytes, place) >> 20} MiB",
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
