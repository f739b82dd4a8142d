"""Windows without channels to sum over: pooling and depthwise convolution.

Each result reads a window of one plane, so that there is no operand to reuse in registers but the
window itself. What was fastest of eight forms, for windows of 3x3 and 5x1x1 with stride 1 and 2: a
pixel is finished before the next (or a vector of neighbours, where they are whole vectors and read
neighbours), but a depthwise convolution of narrow rows with an epilogue adds up a whole row at each
position of its window. Rows are loops that LLVM vectorizes, since vectors of odd length are slower
than no vectors.
"""

from __future__ import annotations

from math import prod

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from .contraction import SYMBOLIC_EXTENT, factors
from .elementwise import schedule_injective
from .machine import VectorUnit
from .rule import CpuRule
from .stages import (
    REDUCE,
    NotSchedulable,
    axis_extents,
    extent_of,
    is_copy,
    loads,
    loops_of,
    mentions,
    root_blocks,
    stages_of,
    walk,
)

# Reads below which a kernel stays on one thread.
PARALLEL_READS = 4_000_000
# Pixels in a row up to which a depthwise convolution adds up rows.
NARROW = 32
# Positions of a window that are unrolled: 7x7.
UNROLLED_WINDOW = 49


class Window(CpuRule):
    """Schedule a pooling or a depthwise convolution."""

    def schedule(self, sch: Schedule, unit: VectorUnit) -> None:
        """Schedule the kernel in place; see `CpuRule.schedule`."""
        blocks = root_blocks(sch)
        if len(blocks) == 1 and _has_window(sch, blocks[0]):
            _alone(sch, blocks[0])
            return
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
        epilogue = not is_copy(sch, output)
        by_rows = _is_product(sch, anchor) and epilogue and wide is not None and wide <= NARROW
        lanes = unit.lanes(int(sch.get(output).writes[0].source.dtype.bits))
        whole = wide is not None and wide % lanes == 0
        if by_rows or not unit.vectorize or not whole or _has_stride(sch, anchor):
            lanes = 1
        in_plane = _stays_in_plane(sch, anchor)

        sch.set_scope(anchor, 0, "local")
        plane = sch.fuse(*loops[:-2])
        pixels, vector = sch.split(loops[-1], [None, lanes])
        sch.compute_at(anchor, loops[-2] if by_rows else pixels, preserve_unit_loops=True)
        for producer in reversed(stages.producers):
            if in_plane:
                sch.compute_at(producer, plane, preserve_unit_loops=True)
            else:
                schedule_injective(sch, producer, unit)
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


def _alone(sch: Schedule, pool: SBlockRV) -> None:
    """Schedule a pooling without padding or epilogue: LLVM does best with its loops as they are."""
    loops, extents = loops_of(sch, pool), axis_extents(sch, pool)
    reads = prod(SYMBOLIC_EXTENT if e is None else e for e in extents)
    if reads >= PARALLEL_READS:
        sch.parallel(sch.fuse(*loops[:2]))


def _is_product(sch: Schedule, anchor: SBlockRV) -> bool:
    """Return whether the anchor sums products, as a convolution does."""
    try:
        factors(sch.get(anchor).body)
    except NotSchedulable:
        return False
    return True


def _has_stride(sch: Schedule, anchor: SBlockRV) -> bool:
    """Return whether neighbouring results read what are no neighbours."""
    stmt = sch.get(anchor)
    return any(
        isinstance(part, tirx.Mul)
        for load in loads(stmt.body.value)
        for index in load.indices[-1:]
        for part in walk(index)
    )


def _window_dimensions(sch: Schedule, anchor: SBlockRV) -> set[int]:
    """Return in which dimensions, from the last one, -1, an index adds a pixel and a position."""
    stmt = sch.get(anchor)
    moving = [axis for axis in stmt.iter_vars if extent_of(axis.dom.extent) != 1]
    reduced = [axis.var for axis in moving if int(axis.iter_type) == REDUCE]
    spatial = [axis.var for axis in moving if int(axis.iter_type) != REDUCE]
    return {
        dimension - len(load.indices)
        for load in loads(stmt.body.value)
        for dimension, index in enumerate(load.indices)
        if any(mentions([index], var) for var in reduced)
        and any(mentions([index], var) for var in spatial)
    }


def _has_window(sch: Schedule, anchor: SBlockRV) -> bool:
    return bool(_window_dimensions(sch, anchor))


def _stays_in_plane(sch: Schedule, anchor: SBlockRV) -> bool:
    """Return whether planes can be padded one by one, as each is read for its own results only."""
    return _window_dimensions(sch, anchor) <= {-1, -2}
