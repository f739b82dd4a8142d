"""Kernels without a reduction: elementwise chains, broadcasts, copies, layout changes.

All stages are inlined into the one that writes the result. Its loops are split into a parallel
outer part and an inner run; what the inner run is depends on whether the reads are contiguous.
"""

from __future__ import annotations

from math import prod

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from .machine import VectorUnit
from .rule import CpuRule
from .stages import NotSchedulable, axis_extents, is_reduction, loops_of, root_blocks, walk, writes_result

# Elements below which a kernel stays on one thread.
PARALLEL_ELEMENTS = 65536


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


def schedule_injective(sch: Schedule, block: SBlockRV, unit: VectorUnit) -> None:
    """Schedule one block that does not reduce."""
    loops = loops_of(sch, block)
    extents = axis_extents(sch, block)
    if not loops:
        return
    branch = has_branch(sch, block)
    count = prod(extent or 64 for extent in extents)
    inner = loops[-1]
    outer = loops[:-1]
    if outer:
        task = sch.fuse(*outer)
        if count >= PARALLEL_ELEMENTS:
            sch.parallel(task)
    elif count >= PARALLEL_ELEMENTS:
        task, inner = sch.split(inner, [None, 4096])
        sch.parallel(task)
    extent = extents[-1]
    if not unit.vectorize or branch or extent is None:
        return
    lanes = unit.lanes(32)
    if extent % lanes == 0 and extent > lanes:
        _, inner = sch.split(inner, [None, lanes])
        sch.vectorize(inner)
    elif 1 < extent <= 64:
        sch.vectorize(inner)
