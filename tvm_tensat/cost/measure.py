"""Measuring kernels: the store first, then worker processes, every result kept as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import tvm

from tvm_tensat.cost.here import HERE
from tvm_tensat.cost.kernel import Kernel, Measurement, StoreKey
from tvm_tensat.cost.machine import target_text
from tvm_tensat.cost.place import Limits, Place
from tvm_tensat.cost.setting import rotation_bytes, setting_of
from tvm_tensat.cost.store import CostStore
from tvm_tensat.cost.worker import Task

DEFAULT_REPEATS = 50
_STOPPED = "stopped before it was measured"


def measure(
    kernels: Sequence[Kernel],
    target: tvm.target.Target,
    *,
    store: CostStore,
    place: Place = HERE,
    timeout: float = 10.0,
    repeats: int = DEFAULT_REPEATS,
    tuning_records: Path | None = None,
    model_bytes: int | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> list[Measurement]:
    """Return the time of each kernel, from the store where it is known.

    Kernels that are not in the store are built with the pipeline that models are built with, in
    processes of their own, and timed where `place` says, one at a time on each device. A kernel
    that fails, crashes, hangs or takes too much memory is recorded as failed with the reason.

    Parameters
    ----------
    kernels : sequence of Kernel
        Kernels of equal key are measured once.
    target : tvm.target.Target
        What to build for.
    store : CostStore
        Where times are looked up and kept, each as soon as it is known.
    place : Place, optional
        Where kernels run: this machine, or a `tvm_tensat.cost.Farm` of devices.
    timeout : float
        Seconds that building a kernel may take, and again that timing it may take.
    repeats : int
        Most samples to take of a kernel; fewer suffice when they agree.
    tuning_records : Path, optional
        The user's MetaSchedule records, which the pipeline applies.
    model_bytes : int, optional
        Size of all weights of the model that the kernels belong to: when it is less than the
        last-level cache, weights come from there and not from memory, which can be a factor of
        three for products of a vector. When None, weights come from memory.
    workers : int, optional
        Processes that build at the same time; a choice by cores when None.
    progress : callable, optional
        Called with (kernels done, kernels in all) whenever one is done.
    stop : callable, optional
        Asked many times a second; when it returns True, measuring ends at once, and kernels that
        are not measured by then come back as failed but are not recorded.

    Raises
    ------
    MeasureError
        If there is no device for the target (any more), or no measuring process can be started;
        what was measured is in the store.
    KeyboardInterrupt
        Passed on within a second; what was measured is in the store.
    """
    setting = setting_of(target, tuning_records, model_bytes, place)
    keys = [StoreKey(kernel.key, setting) for kernel in kernels]
    known = store.get_many(keys)
    missing = {key: kernel for key, kernel in zip(keys, kernels, strict=True) if key not in known}
    done = len({*keys}) - len(missing)
    total = done + len(missing)

    def tell() -> None:
        if progress is not None:
            progress(done, total)

    tell()
    records = None if tuning_records is None else str(tuning_records.resolve())
    tasks = {
        key: Task(
            module=tvm.ir.save_json(kernel.module),
            weights=kernel.weights,
            target=target_text(target),
            tuning_records=records,
            rotation_bytes=rotation_bytes(target, model_bytes, place),
        )
        for key, kernel in missing.items()
    }
    measured = place.measure(tasks, Limits(timeout, repeats, workers), stop or _never)
    with closing(measured):  # so that Ctrl-C ends the workers at once
        for key, measurement in measured:
            store.put_many({key: measurement})
            known[key] = measurement
            done += 1
            tell()
    return [known.get(key, Measurement.failure(_STOPPED)) for key in keys]


def _never() -> bool:
    return False
