"""What is measured, what comes out, and everything that a measured time depends on."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm_ffi import register_error


@register_error  # so that it keeps its type when it passes through a pass, which is TVM's
class MeasureError(Exception):
    """Measuring is impossible here, whatever the kernel: what fails and what to do."""


@dataclass(frozen=True)
class Kernel:
    """One operator application (or a few that belong together) as a model of its own.

    Parameters
    ----------
    module : tvm.IRModule
        Has a Relax function ``main`` with one dataflow block that applies the operators; its
        parameters are tensors of static shape.
    weights : tuple of bool
        For each parameter, whether it is a constant in the real model and so compiled in as one.
    key : str
        Canonical text of operators, attributes and types, made by the caller: equal keys if and
        only if equal kernels.
    """

    module: tvm.IRModule
    weights: tuple[bool, ...]
    key: str


@dataclass(frozen=True)
class Measurement:
    """How long one application of a kernel takes inside a running model.

    Parameters
    ----------
    seconds : float or None
        Median over the repeats; None if the kernel could not be measured.
    spread : float
        Interquartile range over the median.
    repeats : int
        Number of samples behind the median.
    error : str or None
        Why it failed, in one line.
    """

    seconds: float | None
    spread: float
    repeats: int
    error: str | None

    @staticmethod
    def failure(reason: str) -> Measurement:
        """Return the measurement of a kernel that failed for this reason."""
        return Measurement(seconds=None, spread=0.0, repeats=0, error=reason)


@dataclass(frozen=True)
class Setting:
    """Everything besides the kernel that changes a time. All fields are canonical text.

    Parameters
    ----------
    target : str
        The target as JSON, its host included.
    pipeline : str
        Fingerprint of the build pipeline, schedules included.
    tuning_records : str
        Digest of the user's tuning records; empty without any.
    tvm : str
        TVM's version.
    machine : str
        The device and how many of its threads TVM uses.
    method : str
        How the time was taken (version of the protocol and its parameters).
    """

    target: str
    pipeline: str
    tuning_records: str
    tvm: str
    machine: str
    method: str


@dataclass(frozen=True)
class StoreKey:
    """Identifies a measurement: a kernel's key and the setting it was measured in."""

    kernel: str
    setting: Setting
