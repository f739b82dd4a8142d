"""The compilation pipeline: TVM's default one of the target, with kernels scheduled."""

from __future__ import annotations

from pathlib import Path

import tvm
from tvm import relax
from tvm.relax.backend.cpu_generic import pipeline as cpu_generic
from tvm.relax.backend.gpu_generic import pipeline as gpu_generic
from tvm.s_tir import dlight as dl
from tvm.s_tir.dlight import ScheduleRule

from .constants import PackConstantWeights
from .conv2d import Conv2d
from .elementwise import Elementwise
from .machine import is_cpu
from .matmul import Matmul
from .reduction import Reduction
from .window import Window


def cpu_rules() -> list[ScheduleRule]:
    """Return this package's schedule rules for CPU kernels, in the order they are tried.

    They are meant for `tvm.s_tir.dlight.ApplyDefaultSchedule(*cpu_rules())`. A rule that does not
    apply to a kernel, or fails on it, passes it on; a kernel that no rule takes stays unscheduled.
    """
    return [Conv2d(), Matmul(), Window(), Reduction(), Elementwise()]


def build_pipeline(
    target: tvm.target.Target, tuning_records: Path | None = None
) -> tvm.transform.Pass:
    """Return the pipeline that compiles a Relax module for a target.

    It does what TVM's default pipeline of the target does, and schedules kernels: by the user's
    MetaSchedule tuning records where they have the kernel; else by `cpu_rules` on CPUs, after
    constant weights were packed, and by TVM's own dlight rules on GPUs.

    Parameters
    ----------
    target : tvm.target.Target
        The target to compile for.
    tuning_records : Path, optional
        Directory of a MetaSchedule database (`database_workload.json`,
        `database_tuning_record.json`).

    Returns
    -------
    tvm.transform.Pass
        For `tvm.compile(mod, target, relax_pipeline=...)`.
    """
    backend = cpu_generic if is_cpu(target) else gpu_generic
    passes = [*backend.library_dispatch_passes(target)]
    legalize = list(backend.legalize_passes(target))
    tuned = []
    if tuning_records is not None:
        with target:  # the pass asks for the target when it is made
            tuned = [relax.transform.MetaScheduleApplyDatabase(str(tuning_records))]
    if is_cpu(target):
        passes += [*legalize, *tuned, PackConstantWeights(target)]
        # Kernels whose every call has a packed twin are not called any more.
        passes.append(relax.transform.DeadCodeElimination())
        passes += backend.dataflow_lower_passes(target)
        passes.append(dl.ApplyDefaultSchedule(*cpu_rules()))
    else:
        passes += [*legalize[:-1], *tuned, *legalize[-1:]]
        passes += backend.dataflow_lower_passes(target)
    passes += backend.finalize_passes(target)

    @tvm.transform.module_pass(opt_level=0, name="tvm_tensat.schedule.build_pipeline")
    def pipeline(mod: tvm.ir.IRModule, _ctx: tvm.transform.PassContext) -> tvm.ir.IRModule:
        with target:
            return tvm.transform.Sequential(passes)(mod)

    return pipeline
