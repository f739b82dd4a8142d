"""Reductions and normalizations: sum, mean, max, softmax, layer norm, RMS norm.

Every stage of such a kernel works on the same rows, so each row passes through all stages while it
is in the cache, and rows run in parallel. A sum along contiguous memory is split over the lanes of
vectors (`rfactor`), which changes the order of the additions, as every vectorized sum does.
"""

from __future__ import annotations

from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from .choice import largest_divisor
from .elementwise import has_branch, schedule_injective
from .machine import VectorUnit
from .rule import CpuRule
from .stages import (
    REDUCE,
    NotSchedulable,
    axis_extents,
    extent_of,
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
# Vectors over which a sum is split: the latency of an addition is four cycles, at two a cycle.
VECTORS = 4


class Reduction(CpuRule):
    """Schedule a kernel whose stages share leading axes, row by row."""

    def schedule(self, sch: Schedule, unit: VectorUnit) -> None:
        """Schedule the kernel in place; see `CpuRule.schedule`."""
        blocks = root_blocks(sch)
        if not any(is_reduction(sch, block) for block in blocks):
            raise NotSchedulable("no block reduces")
        beside = [block for block in blocks if not sch.get_producers(block)]
        beside = [b for b in beside if writes_result(sch, b) and not is_reduction(sch, b)]
        blocks = [block for block in blocks if block not in beside]
        if any(writes_result(sch, block) for block in blocks[:-1]):
            raise NotSchedulable("the kernel has several results")
        for block in beside:
            schedule_injective(sch, block, unit)
        work = max(prod(e or 64 for e in axis_extents(sch, block)) for block in blocks)
        blocks = [b for b in blocks[:-1] if not _inlined(sch, b)] + blocks[-1:]
        if is_reduction(sch, blocks[-1]):
            blocks.append(sch.cache_write(blocks[-1], 0, "global"))
        lead = _shared_axes(sch, blocks)
        stages: list[SBlockRV] = []
        for block in blocks:
            if is_reduction(sch, block):
                stages += _over_lanes(sch, block, unit)
            stages.append(block)
        if lead:
            task = sch.fuse(*loops_of(sch, blocks[-1])[:lead])
            for block in reversed(stages[:-1]):
                sch.compute_at(block, task, preserve_unit_loops=True)
            if work >= PARALLEL_ELEMENTS:
                sch.parallel(task)
        for block in stages[:-1]:
            if not lead and is_reduction(sch, block):
                continue  # its loops are not in the order of its axes
            loops = list(sch.get_loops(block))[-len(sch.get(block).iter_vars) :]
            _vectorize(sch, block, dict(enumerate(loops)), unit)
        own = list(sch.get_loops(stages[-1]))[1 if lead else 0 :]
        _vectorize(sch, stages[-1], dict(enumerate(own, lead)), unit)


def _inlined(sch: Schedule, block: SBlockRV) -> bool:
    """Inline a block that costs nothing to compute again; return whether it was."""
    if is_reduction(sch, block):
        return False
    calls = any(isinstance(part, tvm.ir.Call) for part in walk(sch.get(block).body.value))
    if calls and len(sch.get_consumers(block)) > 1:
        return False
    sch.compute_inline(block)
    return True


def _shared_axes(sch: Schedule, blocks: list[SBlockRV]) -> int:
    """Return how many leading axes are spatial and of the same extent in all blocks."""
    heads = []
    for block in blocks:
        axes = [
            None if int(axis.iter_type) == REDUCE else axis.dom.extent
            for axis in sch.get(block).iter_vars
        ]
        heads.append(axes)
    limit = min(_contiguous_axis(sch, block) for block in blocks)
    shared = 0
    for column in zip(*heads, strict=False):
        if any(e is None or not tvm_ffi.structural_equal(e, column[0]) for e in column):
            break
        shared += 1
    return min(shared, limit)


def _contiguous_axis(sch: Schedule, block: SBlockRV) -> int:
    """Return the axis along which a reduction reads neighbours, if it does not reduce that axis."""
    stmt = sch.get(block)
    if not is_reduction(sch, block) or not isinstance(stmt.body, tirx.BufferStore):
        return len(stmt.iter_vars)
    for load in _reduced_loads(stmt):
        for i, axis in enumerate(stmt.iter_vars):
            spatial = int(axis.iter_type) != REDUCE and extent_of(axis.dom.extent) != 1
            if spatial and load.indices and mentions(load.indices[-1:], axis.var):
                return i
    return len(stmt.iter_vars)


def _reduced_loads(stmt: Any) -> list[TensorLoad]:
    """Return the loads of a reduction that move with a reducing axis."""
    reduced = [axis.var for axis in stmt.iter_vars if int(axis.iter_type) == REDUCE]
    found = loads(stmt.body.value)
    return [load for load in found if any(mentions(load.indices, var) for var in reduced)]


def _over_lanes(sch: Schedule, block: SBlockRV, unit: VectorUnit) -> list[SBlockRV]:
    """Split a reduction along contiguous memory over lanes; return the block that was split off."""
    stmt = sch.get(block)
    if not isinstance(stmt.body, tirx.BufferStore) or not unit.vectorize:
        return []
    reduced = [i for i, axis in enumerate(stmt.iter_vars) if int(axis.iter_type) == REDUCE]
    last = [load.indices[-1] for load in _reduced_loads(stmt)]
    if len(reduced) == len(stmt.iter_vars) or not mentions(last, stmt.iter_vars[reduced[-1]].var):
        return []
    loops = loops_of(sch, block)
    adjacent = reduced == list(range(reduced[0], reduced[0] + len(reduced)))
    if not adjacent or reduced[-1] != len(loops) - 1:
        return []
    extents = [extent_of(stmt.iter_vars[i].dom.extent) for i in reduced]
    if None in extents:
        return []
    lanes = unit.lanes(int(stmt.writes[0].source.dtype.bits))
    extent = prod(e or 1 for e in extents)
    width = largest_divisor(extent, VECTORS * lanes)
    if width * 2 < lanes:
        return []
    loop = sch.fuse(*[loops[i] for i in reduced])
    _, lane = sch.split(loop, [None, width])
    return [sch.rfactor(lane, len(stmt.writes[0].source.shape))]


def _vectorize(sch: Schedule, block: SBlockRV, loops: dict[int, LoopRV], unit: VectorUnit) -> None:
    """Vectorize a block along its last spatial axis where its memory is contiguous there."""
    stmt = sch.get(block)
    store = stmt.body
    if not unit.vectorize or not isinstance(store, tirx.BufferStore) or not store.indices:
        return
    if has_branch(sch, block):
        return
    spatial = [i for i, axis in enumerate(stmt.iter_vars) if int(axis.iter_type) != REDUCE]
    last = [i for i in spatial if mentions([store.indices[-1]], stmt.iter_vars[i].var)]
    if not last or last[-1] not in loops:
        return
    loop = loops[last[-1]]
    extent = extent_of(sch.get(loop).extent)
    if extent is None or extent == 1:
        return
    reduced = [loop for i, loop in loops.items() if i not in spatial]
    lanes = unit.lanes(int(store.buffer.dtype.bits))
    if extent > VECTORS * lanes:
        if extent % lanes:
            return
        outer, loop = sch.split(loop, [None, lanes])
        if reduced:
            sch.reorder(outer, *reduced, loop)
    elif reduced:
        sch.reorder(*reduced, loop)
    sch.vectorize(loop)
    if reduced:
        sch.decompose_reduction(block, reduced[0])
