"""What the rest of this folder needs to know of a place where kernels are measured.

There are two: `tvm_tensat.cost.here.Here`, this machine, and `tvm_tensat.cost.farm.Farm`, devices
behind TVM's RPC tracker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import tvm

from tvm_tensat.cost.kernel import Measurement, StoreKey
from tvm_tensat.cost.machine import describe
from tvm_tensat.cost.worker import Task

LEAST_ROTATION_BYTES = 24 << 20
"""Weights are rotated through so much where the last-level cache is small: a virtual machine's
share may be much smaller than what it sees."""
MOST_ROTATION_BYTES = 64 << 20
"""And through so much where it is large, for filling takes time."""
_MOST_BUILDERS = 4


@dataclass(frozen=True)
class Limits:
    """How much may be spent on measuring; see `tvm_tensat.cost.measure`.

    Parameters
    ----------
    timeout : float
        Seconds that building a kernel may take, and again that timing it may take.
    repeats : int
        Most samples to take of a kernel.
    workers : int or None
        Processes that build at the same time; a choice by cores when None.
    """

    timeout: float
    repeats: int
    workers: int | None

    def builders(self, kernels: int) -> int:
        """Return how many processes should build so many kernels at the same time."""
        return min(kernels, self.workers or min(_MOST_BUILDERS, describe().cores))


class Place(Protocol):
    """Where kernels are measured."""

    def identity(self, target: tvm.target.Target) -> str:
        """Return canonical text of everything about the device that changes a kernel's time.

        Raises
        ------
        MeasureError
            If there is no device for the target.
        """

    def cold_bytes(self, target: tvm.target.Target) -> int:
        """Return how many bytes of weights push each other out of the device's caches."""

    def kept(self) -> AbstractContextManager[None]:
        """Keep what takes long to start from one call of `measure` to the next."""

    def measure(
        self, tasks: Mapping[StoreKey, Task], limits: Limits, stop: Callable[[], bool]
    ) -> Generator[tuple[StoreKey, Measurement], None, None]:
        """Yield each measurement as it arrives; end early when `stop` says so.

        Closing the generator ends at once whatever still runs.

        Raises
        ------
        MeasureError
            If it is impossible, or becomes so; what was measured has been yielded.
        """
