"""The roofline: a kernel's time from what it computes and what it moves, without running it.

    seconds = launch + max(flops / peak + transcendentals · each, bytes / bandwidth)

after Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (2009),
with a launch overhead and transcendentals added. It serves where there is no device, and as the
estimate before measuring.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import tvm
from tvm import relax

from tvm_tensat.cost.here import HERE
from tvm_tensat.cost.kernel import Kernel
from tvm_tensat.cost.machine import describe, runs_on_cpu
from tvm_tensat.cost.measure import measure
from tvm_tensat.cost.place import Place
from tvm_tensat.cost.store import CostStore
from tvm_tensat.cost.work import Work


@dataclass(frozen=True)
class Roofline:
    """Four constants of a device.

    Parameters
    ----------
    flops_per_second : float
        What good kernels reach, not what the data sheet says.
    bytes_per_second : float
        Bandwidth for operands the size of activations.
    transcendental_seconds : float
        Time of one exp, tanh or the like.
    launch_seconds : float
        Time of a kernel that does nothing.
    """

    flops_per_second: float
    bytes_per_second: float
    transcendental_seconds: float
    launch_seconds: float

    def seconds(
        self, flops: float, bytes_read: float, bytes_written: float, transcendentals: float
    ) -> float:
        """Estimate the seconds of a kernel; 0 for one that does nothing, since none is launched."""
        if not (flops or bytes_read or bytes_written or transcendentals):
            return 0.0
        compute = flops / self.flops_per_second + transcendentals * self.transcendental_seconds
        traffic = (bytes_read + bytes_written) / self.bytes_per_second
        return self.launch_seconds + max(compute, traffic)

    def seconds_of(self, work: Work) -> float:
        """Estimate the seconds of a kernel that does this work."""
        return self.seconds(work.flops, work.bytes_read, work.bytes_written, work.transcendentals)

    @staticmethod
    def documented(target: tvm.target.Target) -> Roofline:
        """Return constants for this kind of target that were not measured on this machine."""
        if runs_on_cpu(target):
            peak = _CPU_THREAD.flops_per_second * describe().threads
            return replace(_CPU_THREAD, flops_per_second=peak)
        return _GPU

    @staticmethod
    def calibrated(
        target: tvm.target.Target,
        store: CostStore,
        *,
        place: Place = HERE,
        tuning_records: Path | None = None,
        measures: bool = True,
    ) -> Roofline:
        """Return constants measured at a place with four small kernels, once for a store.

        Takes seconds the first time. What cannot be measured, and what the store does not have
        where nothing is measured, keeps its documented constant.

        Raises
        ------
        MeasureError
            If measuring is impossible; see `tvm_tensat.cost.measure`.
        """
        kernels = [_tiny(), _product(), _sum_of_two(), _exponentials()]
        times = measure(
            kernels,
            target,
            store=store,
            place=place,
            tuning_records=tuning_records,
            stop=None if measures else lambda: True,
        )
        tiny, product, sum_of_two, exponentials = (m.seconds for m in times)
        line = Roofline.documented(target)
        if tiny is not None:
            line = replace(line, launch_seconds=tiny)
        launch = line.launch_seconds
        if product is not None and product > launch:
            line = replace(line, flops_per_second=_PRODUCT_FLOPS / (product - launch))
        if sum_of_two is not None and sum_of_two > launch:
            line = replace(line, bytes_per_second=_SUM_BYTES / (sum_of_two - launch))
        if exponentials is not None and exponentials > launch:
            each = (exponentials - launch) / _EXPONENTIALS
            line = replace(line, transcendental_seconds=each)
        return line


# One thread of a server CPU with AVX-512 and this package's schedules: 80-126 GFLOP/s on products,
# gelu 3 ns an element unscheduled, and the VM's 0.3 us a kernel.
_CPU_THREAD = Roofline(
    flops_per_second=80e9,
    bytes_per_second=10e9,
    transcendental_seconds=1.5e-9,
    launch_seconds=0.3e-6,
)
# From NVIDIA's A100 data sheet (19.5 TFLOP/s in float32, 1.55 TB/s), at the three fifths that
# kernels without tuning reach at best; exp runs on units a quarter as many. Not measured.
_GPU = Roofline(
    flops_per_second=0.6 * 19.5e12,
    bytes_per_second=0.6 * 1.55e12,
    transcendental_seconds=4 / (0.6 * 19.5e12 / 2),
    launch_seconds=3e-6,
)

_ROWS, _DEPTH, _COLUMNS = 128, 512, 512
_PRODUCT_FLOPS = 2.0 * _ROWS * _DEPTH * _COLUMNS
_EDGE = 1024
_SUM_BYTES = 3.0 * 4 * _EDGE * _EDGE
_EXPONENTIALS = 256.0 * 256.0


def _tiny() -> Kernel:
    x = _tensor("x", 4)
    return _kernel([x], relax.op.nn.relu(x), "calibration: relu of 4")


def _product() -> Kernel:
    x, w = _tensor("x", _ROWS, _DEPTH), _tensor("w", _DEPTH, _COLUMNS)
    key = f"calibration: matmul of {_ROWS}x{_DEPTH} by {_DEPTH}x{_COLUMNS}"
    return _kernel([x, w], relax.op.matmul(x, w), key, weights=(False, True))


def _sum_of_two() -> Kernel:
    x, y = _tensor("x", _EDGE, _EDGE), _tensor("y", _EDGE, _EDGE)
    return _kernel([x, y], relax.op.add(x, y), f"calibration: add of {_EDGE}x{_EDGE}")


def _exponentials() -> Kernel:
    x = _tensor("x", 256, 256)
    return _kernel([x], relax.op.exp(x), "calibration: exp of 256x256")


def _tensor(name: str, *shape: int) -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, "float32"))


def _kernel(
    params: list[relax.Var], value: relax.Expr, key: str, weights: tuple[bool, ...] | None = None
) -> Kernel:
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return Kernel(builder.get(), weights or (False,) * len(params), key)
