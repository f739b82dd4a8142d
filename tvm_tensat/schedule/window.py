"""Windows without channels to sum over: pooling and depthwise convolution.

Each result reads a window of one plane, so that there is no operand to reuse in registers but the
window itself: pixels of a row are the vectors, and the window is unrolled around them.
"""

from __future__ import annotations

from math import prod

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from .machine import VectorUnit
from .rule import CpuRule
from .stages import REDUCE, NotSchedulable, axis_extents, loads, loops_of, mentions, stages_of
from .tile import largest_divisor

PARALLEL_WORK = 100_000
UNROLLED_WINDOW = 49


def _run(wide: int, lanes: int) -> int:
    """Return the pixels of a row that are computed together: up to two vectors."""
    if wide <= 2 * lanes:
        return wide
    divisor = largest_divisor(wide, 2 * lanes)
    return divisor if divisor * 2 >= lanes else wide if wide <= 8 * lanes else lanes


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
        if not _has_window(sch, anchor):
            raise NotSchedulable("no index adds a pixel and a window position")
        if len(loops) < 2:
            raise NotSchedulable("the result has no rows")
        work = area * prod(extent or 64 for extent in axis_extents(sch, output))
        wide = axis_extents(sch, output)[-1]
        if wide == 1:
            raise NotSchedulable("rows of one pixel")
        sch.set_scope(anchor, 0, "local")
        task = sch.fuse(*loops[:-2]) if len(loops) > 2 else loops[0]
        run, row = loops[-1], loops[-2]
        if wide is not None:
            row, run = sch.split(run, [None, _run(wide, unit.lanes(32))])
        sch.compute_at(anchor, row, preserve_unit_loops=True)
        for producer in reversed(stages.producers):
            sch.compute_at(producer, task, preserve_unit_loops=True)
        if work >= PARALLEL_WORK:
            sch.parallel(task)
        vector = unit.vectorize and wide is not None
        if vector:
            sch.vectorize(run)
        inner = list(sch.get_loops(anchor))[-len(kinds) :]
        reduced = [inner[i] for i in window]
        fixed = [loop for i, loop in enumerate(inner) if i not in window]
        if vector:
            sch.reorder(*fixed[:-1], *reduced, fixed[-1])
            if area <= UNROLLED_WINDOW:
                for loop in reduced:
                    sch.unroll(loop)
            sch.vectorize(fixed[-1])
        sch.decompose_reduction(anchor, reduced[0])


def _has_window(sch: Schedule, anchor: SBlockRV) -> bool:
    stmt = sch.get(anchor)
    reduced = [axis.var for axis in stmt.iter_vars if int(axis.iter_type) == REDUCE]
    spatial = [axis.var for axis in stmt.iter_vars if int(axis.iter_type) != REDUCE]
    return any(
        any(mentions([index], r) for r in reduced) and any(mentions([index], s) for s in spatial)
        for load in loads(stmt.body.value)
        for index in load.indices
    )
