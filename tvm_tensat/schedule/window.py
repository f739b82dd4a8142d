"""Windows without channels to sum over: pooling and depthwise convolution.

Each result reads a window of one plane, so that there is no operand to reuse in registers but the
window itself: pixels of a row are the vectors, and the window is unrolled around them. Where the
pixels of a row are no whole number of vectors, LLVM's loop vectorizer does better than vectors of
odd length, so that the row stays a loop over single pixels.
"""

from __future__ import annotations

from math import prod

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from .contraction import SYMBOLIC_EXTENT
from .elementwise import schedule_injective
from .machine import VectorUnit
from .rule import CpuRule
from .stages import (
    REDUCE,
    NotSchedulable,
    axis_extents,
    loads,
    loops_of,
    mentions,
    stages_of,
)

# Reads below which a kernel stays on one thread.
PARALLEL_READS = 4_000_000
# Positions of a window that are unrolled: 7x7.
UNROLLED_WINDOW = 49


class Window(CpuRule):
    """Schedule a pooling or a depthwise convolution."""

    def schedule(self, sch: Schedule, unit: VectorUnit) -> None:
        """Schedule the kernel in place; see `CpuRule.schedule`."""
        stages = stages_of(sch)
        anchor, output = stages.anchor, stages.output
        if not _has_window(sch, anchor):
            raise NotSchedulable("no index adds a pixel and a window position")
        loops, extents = loops_of(sch, output), axis_extents(sch, output)
        wide = extents[-1]
        if len(loops) < 3 or wide == 1:
            raise NotSchedulable("the result has no rows of pixels")
        axes = sch.get(anchor).iter_vars
        window = [i for i, axis in enumerate(axes) if int(axis.iter_type) == REDUCE]
        area = prod(axis_extents(sch, anchor)[i] or SYMBOLIC_EXTENT for i in window)
        reads = area * prod(SYMBOLIC_EXTENT if e is None else e for e in extents)
        lanes = unit.lanes(int(sch.get(output).writes[0].source.dtype.bits))
        lanes = lanes if unit.vectorize and wide is not None and wide % lanes == 0 else 1

        sch.set_scope(anchor, 0, "local")
        plane = sch.fuse(*loops[:-2])
        pixels, vector = sch.split(loops[-1], [None, lanes])
        sch.compute_at(anchor, pixels, preserve_unit_loops=True)
        for producer in reversed(stages.producers):
            sch.compute_at(producer, plane, preserve_unit_loops=True)
        for block in stages.others:
            schedule_injective(sch, block, unit)
        if reads >= PARALLEL_READS:
            sch.parallel(plane)
        inner = list(sch.get_loops(anchor))[-len(axes) :]
        positions = [inner[i] for i in window]
        fixed = [loop for i, loop in enumerate(inner) if i not in window]
        sch.reorder(*fixed[:-1], *positions, fixed[-1])
        if area <= UNROLLED_WINDOW:
            for loop in positions:
                sch.unroll(loop)
        if lanes > 1:
            sch.vectorize(vector)
            sch.vectorize(fixed[-1])
        sch.decompose_reduction(anchor, positions[0])


def _has_window(sch: Schedule, anchor: SBlockRV) -> bool:
    """Return whether an index of the anchor's reads adds a pixel and a window position."""
    stmt = sch.get(anchor)
    reduced = [axis.var for axis in stmt.iter_vars if int(axis.iter_type) == REDUCE]
    spatial = [axis.var for axis in stmt.iter_vars if int(axis.iter_type) != REDUCE]
    return any(
        any(mentions([index], r) for r in reduced) and any(mentions([index], s) for s in spatial)
        for load in loads(stmt.body.value)
        for index in load.indices
    )
