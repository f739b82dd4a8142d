"""Weights in the order in which a kernel reads them.

A kernel reads the weights of one tile of columns for all of its reduction, then those of the next.
Stored in that order, they stream through the cache; stored otherwise (OIHW, or the rows of a wide
matrix) each step is on another page. Constant weights are reordered by numpy at compile time, and
the kernel's parameter changes its shape; other weights are copied by the kernel itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from .contraction import Contraction, read_index, weight_is_contiguous
from .stages import NotSchedulable, extent_of

# Rows for each of which a copied weight is used once; with fewer the copy costs more than it saves.
MIN_ROWS_FOR_COPY = 8
# A weight whose rows are longer than so many tiles is copied.
FAR_COLUMNS = 8
# Elements below which a copy stays on one thread.
PARALLEL_ELEMENTS = 262_144


@dataclass(frozen=True)
class WeightOrder:
    """An order of a weight's dimensions, for tiles of some columns.

    Attributes
    ----------
    outer : list[int]
        Dimensions that are neither columns nor reduced (batches), in order.
    column : int
        The dimension of the columns.
    inner : list[int]
        The reduced dimensions, in the order of the kernel's loops.
    columns : int
        Columns in one tile; the dimension's extent where tiles do not divide it.
    """

    outer: list[int]
    column: int
    inner: list[int]
    columns: int

    def index_map(self) -> tirx.IndexMap:
        """Return the order as a map from the indices of the weight to those of the packed one."""
        rank = len(self.outer) + len(self.inner) + 1
        at = [tirx.Var(f"i{d}", "int64") for d in range(rank)]
        outer, inner = [at[d] for d in self.outer], [at[d] for d in self.inner]
        column = at[self.column]
        final = [*outer, column // self.columns, *inner, column % self.columns]
        return tirx.IndexMap(at, final, None)

    def pack(self, weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a weight in this order, contiguous."""
        moved = weight.transpose(*self.outer, self.column, *self.inner)
        at = len(self.outer)
        shape = [*moved.shape[:at], -1, self.columns, *moved.shape[at + 1 :]]
        return np.ascontiguousarray(np.moveaxis(moved.reshape(shape), at + 1, -1))


def weight_order(sch: Schedule, anchor: SBlockRV, c: Contraction, columns: int) -> WeightOrder:
    """Return the order of the weight that suits tiles of `columns` columns.

    Raises
    ------
    NotSchedulable
        Where a dimension of the weight is indexed by anything but one axis.
    """
    variables = [axis.var for axis in sch.get(anchor).iter_vars]
    dims: dict[int, int] = {}
    for dim, index in enumerate(c.weight.indices):
        axes = [i for i, var in enumerate(variables) if index.same_as(var)]
        if axes:
            dims[axes[0]] = dim
        elif extent_of(c.weight.source.shape[dim]) != 1:
            raise NotSchedulable("the weight is not indexed by single axes")
    if c.column not in dims:
        raise NotSchedulable("the weight has no dimension of columns")
    extent = extent_of(c.weight.source.shape[dims[c.column]])
    if extent is None:
        raise NotSchedulable("the weight has a symbolic number of columns")
    inner = [dims[axis] for axis in c.reductions if axis in dims]
    rank = len(c.weight.indices)
    outer = [d for d in range(rank) if d != dims[c.column] and d not in inner]
    return WeightOrder(outer, dims[c.column], inner, columns if extent % columns == 0 else extent)


def should_copy_weight(sch: Schedule, anchor: SBlockRV, c: Contraction, columns: int) -> bool:
    """Return whether a kernel is faster with its own copy of the weight.

    Where columns are not contiguous vectors cannot be loaded without one. Where they are, but the
    next step of the reduction is far away, each step costs a page and a few sets of the cache.

    Raises
    ------
    NotSchedulable
        Where there should be a copy but too few rows would use it.
    """
    rows = prod(c.size(i) for i in c.rows())
    contiguous = weight_is_contiguous(sch, anchor, c)
    shape = [extent_of(size) or 1 for size in c.weight.source.shape]
    if contiguous and (rows < MIN_ROWS_FOR_COPY or shape[-1] <= FAR_COLUMNS * columns):
        return False
    if rows < MIN_ROWS_FOR_COPY:
        raise NotSchedulable("too few rows for a copy of the weight")
    return extent_of(c.weight.source.shape[-1]) is not None


def copy_weight(
    sch: Schedule, anchor: SBlockRV, c: Contraction, columns: int, *, whole: bool
) -> SBlockRV:
    """Insert a copy of the weight in the kernel's order; return its block.

    With `whole` the copy is scheduled, as a stage of its own before the kernel.
    """
    order = weight_order(sch, anchor, c, columns)
    copy = sch.cache_read(anchor, read_index(sch, anchor, c.weight), "global")
    sch.transform_layout(copy, ("write", 0), order.index_map())
    if whole:
        loops = list(sch.get_loops(copy))
        outer = [*order.outer, order.column]
        tiles, lane = sch.split(loops[order.column], [None, order.columns])
        rest = [loop for d, loop in enumerate(loops) if d not in outer]
        sch.reorder(*[loops[d] for d in order.outer], tiles, *rest, lane)
        task = sch.fuse(*[loops[d] for d in order.outer], tiles)
        if prod(extent_of(s) or 1 for s in c.weight.source.shape) >= PARALLEL_ELEMENTS:
            sch.parallel(task)
    return copy


def parameter_of(func: tirx.PrimFunc, c: Contraction) -> int | None:
    """Return which parameter of the kernel is the weight, or None where it is computed inside."""
    for i, param in enumerate(func.params):
        if param.same_as(c.weight.source):
            return i
    return None
