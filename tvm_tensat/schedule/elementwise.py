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
PARALLEL_ELEMENTS = 1_048_576
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
        kept = []
        for block in blocks[:-1]:
            if writes_result(sch, block):
                schedule_injective(sch, block, unit)
            elif calls_function(sch, block):
                kept.append(block)
            else:
                sch.compute_inline(block)
        loops = loops_of(sch, blocks[-1])
        schedule_injective(sch, blocks[-1], unit)
        if len(loops) < 2:
            for block in kept:
                schedule_injective(sch, block, unit)
            return
        row = next(iter(sch.get_loops(blocks[-1])))
        for block in reversed(kept):
            sch.compute_at(block, row, preserve_unit_loops=True)


def calls_function(sch: Schedule, block: SBlockRV) -> bool:
    """Return whether a block calls a function of the mathematical library (pow, exp).

    Such a call ends every vector, so that the arithmetic around it is better left in loops of its
    own, a row at a time.
    """
    return any(
        isinstance(part, tvm.ir.Call) and not str(part.op.name).endswith("if_then_else")
        for part in walk(sch.get(block).body.value)
        if hasattr(part, "op") and hasattr(part.op, "name")
    )


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
    loops stay as they are, so that LLVM can move what does not change in an inner loop out of it (a
    bias, the condition of a pad or a concat). The last axis becomes vectors where they divide it.
    """
    loops = loops_of(sch, block)
    extents = axis_extents(sch, block)
    if not loops:
        return
    count = prod(extent or SYMBOLIC_EXTENT for extent in extents)
    across = transposed_axis(sch, block)
    if across is not None and count >= TRANSPOSE_ELEMENTS:
        inner = loops[-1]
        high, low = sch.split(loops[across], [None, TRANSPOSE_TILE])
        high_inner, low_inner = sch.split(inner, [None, TRANSPOSE_TILE])
        outer = [high if i == across else loop for i, loop in enumerate(loops[:-1])]
        sch.reorder(*outer, high_inner, low, low_inner)
        _parallel(sch, [*outer, high_inner], count)
        return
    lanes = unit.lanes(int(sch.get(block).writes[0].source.dtype.bits))
    outermost = next((i for i, extent in enumerate(extents) if extent != 1), 0)
    if outermost < len(loops) - 1:
        _parallel(sch, loops[: outermost + 1], count)
    vectors = extents[-1] is not None and extents[-1] % lanes == 0 and extents[-1] > 0
    if unit.vectorize and vectors and not has_branch(sch, block):
        _, vector = sch.split(loops[-1], [None, lanes])
        sch.vectorize(vector)


def _parallel(sch: Schedule, loops: list[LoopRV], count: int) -> None:
    if count >= PARALLEL_ELEMENTS:
        sch.parallel(sch.fuse(*loops))
