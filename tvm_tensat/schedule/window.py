"""Windows without channels to sum over: pooling and depthwise convolution.

Each result reads a window of one plane, so that there is no operand to reuse in registers but the
window itself: pixels of a row are the vectors, and the window is unrolled around them.
"""

from __future__ import annotations

from math import prod

from tvm.s_tir import Schedule

from .elementwise import schedule_injective
from .machine import VectorUnit
from .rule import CpuRule
from .stages import NotSchedulable, REDUCE, axis_extents, extent_of, loops_of, stages_of

PARALLEL_WORK = 100_000
UNROLLED_WINDOW = 49
WIDEST_VECTOR = 64


class Window(CpuRule):
    """Schedule a pooling or a depthwise convolution."""

    def schedule(self, sch: Schedule, unit: VectorUnit) -> None:
        """Schedule the kernel in place; see `CpuRule.schedule`."""
        stages = stages_of(sch)
        anchor, output = stages.anchor, stages.output
        kinds = [int(axis.iter_type) for axis in sch.get(anchor).iter_vars]
        extents = axis_extents(sch, anchor)
        window = [i for i, kind in enumerate(kinds) if kind == REDUCE]
        area = prod(extents[i] or 64 for i in window)
        loops = loops_of(sch, output)
        if len(loops) < 2:
            raise NotSchedulable("the result has no rows")
        work = area * prod(extent or 64 for extent in axis_extents(sch, output))
        sch.set_scope(anchor, 0, "local")
        task = sch.fuse(*loops[:-2]) if len(loops) > 2 else loops[0]
        sch.compute_at(anchor, loops[-2], preserve_unit_loops=True)
        for producer in reversed(stages.producers):
            sch.compute_at(producer, task, preserve_unit_loops=True)
        if work >= PARALLEL_WORK:
            sch.parallel(task)
        wide = axis_extents(sch, output)[-1]
        vector = unit.vectorize and wide is not None and 1 < wide <= WIDEST_VECTOR
        if vector:
            sch.vectorize(loops[-1])
        inner = list(sch.get_loops(anchor))[-len(kinds):]
        reduced = [inner[i] for i in window]
        fixed = [loop for i, loop in enumerate(inner) if i not in window]
        if vector:
            sch.reorder(*fixed[:-1], *reduced, fixed[-1])
            if area <= UNROLLED_WINDOW:
                for loop in reduced:
                    sch.unroll(loop)
            sch.vectorize(fixed[-1])
        sch.decompose_reduction(anchor, reduced[0])
