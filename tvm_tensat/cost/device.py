"""Where costs are measured, and with what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvm.target import Target

from tvm_tensat.cost.here import HERE
from tvm_tensat.cost.place import Place
from tvm_tensat.cost.roofline import Roofline
from tvm_tensat.cost.store import CostStore


@dataclass(frozen=True)
class Device:
    """Where costs are measured, or None for `store` to only estimate.

    Parameters
    ----------
    target : tvm.target.Target
    roofline : Roofline
    store : CostStore or None
    tuning_records : Path or None
    measures : bool
        Whether kernels that the store does not have are measured; else only the input uses them.
    place : Place
        This machine, or a farm.
    """

    target: Target
    roofline: Roofline
    store: CostStore | None
    tuning_records: Path | None = None
    measures: bool = True
    place: Place = HERE
