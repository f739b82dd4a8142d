"""Products of matrices, batched or not, and of a vector with a matrix."""

from __future__ import annotations

from dataclasses import replace

from tvm.s_tir import Schedule

from . import tile
from .choice import choose, row_is_innermost
from .contraction import Contraction, contraction_of
from .elementwise import schedule_injective
from .machine import VectorUnit
from .packing import copy_weight, should_copy_weight
from .rule import CpuRule
from .stages import NotSchedulable, Stages, stages_of


def prepare(sch: Schedule, _unit: VectorUnit) -> tuple[Stages, Contraction]:
    """Read a product's stages and axes.

    Raises
    ------
    NotSchedulable
        Where the kernel is no product.
    """
    stages = stages_of(sch)
    c = contraction_of(sch, stages.anchor)
    if c.windowed:
        raise NotSchedulable("the anchor has a window")
    return stages, c


class Matmul(CpuRule):
    """Schedule a product as register tiles."""

    narrows_indices = True

    def schedule(self, sch: Schedule, unit: VectorUnit) -> None:
        """Schedule the kernel in place; see `CpuRule.schedule`."""
        stages, c = prepare(sch, unit)
        chosen = choose(c, unit, moved=row_is_innermost(stages, c))
        copy = None
        if should_copy_weight(sch, stages.anchor, c, chosen.columns):
            one_row_axis = len(c.rows()) == 1
            copy = copy_weight(sch, stages.anchor, c, chosen.columns, whole=not one_row_axis)
            c = contraction_of(sch, stages.anchor)
            if one_row_axis:
                chosen = replace(chosen, row_tiles=-(-c.size(chosen.row) // chosen.rows))
            else:
                copy = None
        tile.apply(sch, stages, c, chosen, unit, copy)
        for block in (*stages.producers, *stages.others):
            schedule_injective(sch, block, unit)
