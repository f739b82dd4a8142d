"""Kernels without a reduction: elementwise chains, broadcasts, copies, layout changes.

All stages are inlined into the one that writes the result. Its loops are split into a parallel
outer part and an inner run; what the inner run is depends on whether the reads are contiguous.
"""

from __future__ import annotations

from math import prod

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from .contraction import SYMBOLIC_EXTENT
from .machine import VectorUnit
from .rule import CpuRule
from .stages import (
    NotSchedulable,
    axis_extents,
    is_reduction,
    loads,
    loops_of,
    mentions,
    root_blocks,
    walk,
    writes_result,
)

# Elements below which a kernel stays on one thread.
PARALLEL_ELEMENTS = 262_144
# A transpose smaller than this fits the cache; larger ones go in tiles of this edge.
TRANSPOSE_ELEMENTS = 16384
TRANSPOSE_TILE = 16


class Elementwise(CpuRule):
    """Schedule kernels in which no block reduces."""

    def schedule(self, sch: Schedule, unit: VectorUnit) -> None:
        """Schedule the kernel in place; see `CpuRule.schedule`."""
        blocks = root_blocks(sch)
        if any(is_reduction(sch, block) for block in blocks):
            raise NotSchedulable("a block reduces")
        for block in blocks[:-1]:
            if not writes_result(sch, block):
                sch.compute_inline(block)
        for block in root_blocks(sch):
            schedule_injective(sch, block, unit)


def has_branch(sch: Schedule, block: SBlockRV) -> bool:
    """Return whether a block chooses what to read by a condition (a pad, a concat)."""
    return any(
        isinstance(part, tvm.ir.Call) and str(part.op.name).endswith("if_then_else")
        for part in walk(sch.get(block).body.value)
        if hasattr(part, "op") and hasattr(part.op, "name")
    )


def transposed_axis(sch: Schedule, block: SBlockRV) -> int | None:
    """Return the axis along which a block reads neighbours, where it is not the last one."""
    stmt = sch.get(block)
    last = stmt.iter_vars[-1].var
    for load in loads(stmt.body.value):
        if not load.indices or mentions(load.indices[-1:], last):
            continue
        if not mentions(load.indices, last):
            continue
        for i, axis in enumerate(stmt.iter_vars[:-1]):
            if mentions(load.indices[-1:], axis.var):
                return i
    return None


def schedule_injective(sch: Schedule, block: SBlockRV, unit: VectorUnit) -> None:
    """Schedule one block that does not reduce.

    Where it transposes, square tiles keep the cache lines of both sides in use. Elsewhere the
    last axis is the inner loop; a condition in it (pad, concat) is left to LLVM, which moves what
    does not change along the row out of the loop and vectorizes what is left.
    """
    loops = loops_of(sch, block)
    extents = axis_extents(sch, block)
    if not loops:
        return
    count = prod(extent or SYMBOLIC_EXTENT for extent in extents)
    across = transposed_axis(sch, block)
    if across is not None and count >= TRANSPOSE_ELEMENTS:
        inner, extent = loops[-1], extents[-1]
        high, low = sch.split(loops[across], [None, TRANSPOSE_TILE])
        high_inner, low_inner = sch.split(inner, [None, TRANSPOSE_TILE])
        outer = [high if i == across else loop for i, loop in enumerate(loops[:-1])]
        sch.reorder(*outer, high_inner, low, low_inner)
        _parallel(sch, [*outer, high_inner], count)
        return
    if len(loops) == 1 and count >= PARALLEL_ELEMENTS:
        task, inner = sch.split(loops[0], [None, 4096])
        _parallel(sch, [task], count)
    else:
        inner = loops[-1]
        if len(loops) > 1:
            _parallel(sch, loops[:-1], count)
    extent = extents[-1]
    if not unit.vectorize or has_branch(sch, block) or extent is None:
        return
    lanes = unit.lanes(int(sch.get(block).writes[0].source.dtype.bits))
    if extent > lanes and extent % lanes == 0:
        _, inner = sch.split(inner, [None, lanes])
        sch.vectorize(inner)
    elif len(loops) > 1 and 1 < extent <= 4 * lanes:
        sch.vectorize(inner)


def _parallel(sch: Schedule, loops: list[LoopRV], count: int) -> None:
    task = sch.fuse(*loops)
    if count >= PARALLEL_ELEMENTS:
        sch.parallel(task)
