"""Convolutions: a register tile of output channels times pixels.

The output channels are the vectors, so that every width, stride and dilation runs at the same
speed; the weight must be contiguous along them, which `packing` sees to. A 1x1 convolution without
stride is a product, and its pixels are made one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from . import tile
from .choice import choose, row_is_innermost
from .contraction import Contraction, contraction_of
from .elementwise import schedule_injective
from .machine import VectorUnit
from .packing import copy_weight, should_copy_weight
from .rule import CpuRule
from .stages import NotSchedulable, Stages, extent_of, match_output, stages_of

# Products in one result up to which transposing the result in registers is what costs most.
SHALLOW = 256
# Share of the pixels that may be left over after the last whole vector: they run without vectors.
LEFT_OVER = 0.01


def prepare(sch: Schedule, unit: VectorUnit) -> tuple[Stages, Contraction]:
    """Read a convolution's stages and axes, with the pixels merged where they can be.

    Raises
    ------
    NotSchedulable
        Where the kernel is no convolution.
    """
    stages = stages_of(sch)
    c = contraction_of(sch, stages.anchor)
    if len(c.activation.indices) < 3 or len(c.reductions) < 2:
        raise NotSchedulable("the anchor has no window")
    if flatten_pixels(sch, stages, c):
        output_axis = match_output(sch, stages.output, stages.anchor)
        stages = replace(stages, output_axis=output_axis)
        c = contraction_of(sch, stages.anchor)
        if pixels_are_columns(c, unit):
            c = contraction_of(sch, stages.anchor, swapped=True)
    return stages, c


def pixels_are_columns(c: Contraction, unit: VectorUnit) -> bool:
    """Return whether a 1x1 convolution is faster with its pixels in the vectors.

    So it is where a group's output channels are no whole vectors, and for few input channels if
    the pixels are whole vectors, nearly.
    """
    lanes = unit.lanes(c.bits)
    if c.column_group % lanes:
        return True
    pixels = c.size(c.rows()[-1])
    return c.depth <= SHALLOW and pixels % lanes <= LEFT_OVER * pixels


class Conv2d(CpuRule):
    """Schedule a convolution of any layout, stride, dilation and number of groups."""

    narrows_indices = True

    def schedule(self, sch: Schedule, unit: VectorUnit) -> None:
        """Schedule the kernel in place; see `CpuRule.schedule`."""
        stages, c = prepare(sch, unit)
        chosen = choose(c, unit, moved=row_is_innermost(stages, c))
        if should_copy_weight(sch, stages.anchor, c, chosen.columns):
            copy_weight(sch, stages.anchor, c, chosen.columns, whole=True)
            c = contraction_of(sch, stages.anchor)
        tile.apply(sch, stages, c, chosen, unit)
        for block in (*stages.producers, *stages.others):
            schedule_injective(sch, block, unit)


def flatten_pixels(sch: Schedule, stages: Stages, c: Contraction) -> bool:
    """Make one axis of the pixels where they are read and written as one contiguous run.

    Returns whether it did. Then the axes of the anchor and of the output are others.
    """
    rows = c.rows()
    extents = [c.extents[i] for i in c.reductions]
    if len(rows) != 2 or sum(extent != 1 for extent in extents) != 1:
        return False
    high, wide = rows
    width, height = c.extents[wide], c.extents[high]
    if width is None or height is None or wide != high + 1:
        return False
    if not _reads_whole_planes(sch, stages.anchor, c, high, wide):
        return False
    at = stages.output_axis
    store = sch.get(stages.anchor).body
    axes = len(c.roles)
    if at.get(wide) != at.get(high, -2) + 1 or len(store.indices) != axes:
        return False
    if sorted(c.roles) != list(range(axes)):
        return False
    unit = [i for i in c.reductions if c.extents[i] == 1]
    output_rank = len(sch.get(stages.output).iter_vars)
    sch.transform_block_layout(stages.anchor, _merge(len(c.extents), high, width, unit))
    sch.transform_layout(stages.anchor, ("write", 0), _merge(axes, high, width))
    sch.transform_block_layout(stages.output, _merge(output_rank, at[high], width))
    return True


def _reads_whole_planes(
    sch: Schedule, anchor: SBlockRV, c: Contraction, high: int, wide: int
) -> bool:
    """Return whether pixel (y, x) of the result reads pixel (y, x) of planes of the same width."""
    variables = [axis.var for axis in sch.get(anchor).iter_vars]
    unit = [variables[i] for i in c.reductions if c.extents[i] == 1]

    def is_axis(index: Any, axis: int) -> bool:
        if isinstance(index, tirx.Add) and any(index.b.same_as(u) for u in unit):
            index = index.a
        return bool(index.same_as(variables[axis]))

    indices = c.activation.indices
    return any(
        is_axis(indices[d], high)
        and is_axis(indices[d + 1], wide)
        and extent_of(c.activation.source.shape[d + 1]) == c.extents[wide]
        for d in range(len(indices) - 1)
    )


def _merge(
    rank: int, at: int, width: int, dropped: Collection[int] = ()
) -> Callable[..., tuple[Any, ...]]:
    """Return the index map that merges axes `at` and `at + 1` and drops some of extent 1."""

    def merged(*index: Any) -> tuple[Any, ...]:
        both = index[at] * width + index[at + 1]
        parts = [*index[:at], both, None, *index[at + 2 :]]
        return tuple(p for i, p in enumerate(parts) if p is not None and i not in dropped)

    return _with_arity(merged, rank)


def _with_arity(map_index: Callable[..., tuple[Any, ...]], rank: int) -> Any:
    """Return the map as TVM's IndexMap, which wants to know the number of its arguments."""
    names = [tirx.Var(f"i{d}", "int64") for d in range(rank)]
    return tirx.IndexMap(names, list(map_index(*names)), None)
