"""The register tile: how a contraction's loops are split, ordered, vectorized and unrolled."""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from .choice import Tile, row_is_innermost
from .contraction import BATCH, COLUMN, ROW, Contraction, read_index
from .machine import VectorUnit
from .stages import Stages, extent_of, loops_of, mentions

# Products below which a kernel stays on one thread: a fork costs 15 to 25 us here, this work 100.
PARALLEL_PRODUCTS = 2_000_000
# Tells TVM's LoopPartition to give the last, cut iteration code of its own.
CUT_HINT = "pragma_loop_partition_hint"


def apply(
    sch: Schedule,
    stages: Stages,
    c: Contraction,
    tile: Tile,
    unit: VectorUnit,
    weight_copy: SBlockRV | None = None,
) -> None:
    """Schedule the anchor and its epilogue as register tiles.

    The output block is tiled, and the anchor is computed inside the tile, in a buffer so small that
    LLVM keeps it in registers through the whole reduction. Where the result is contiguous along
    the rows, the registers pass through a second small buffer, in which the epilogue reads them
    the other way. A copy of the weight, if the kernel makes one, is made for each block of columns.
    """
    moved = row_is_innermost(stages, c)
    output, anchor = stages.output, stages.anchor
    loops = loops_of(sch, output)
    axis = {i: loops[at] for i, at in stages.output_axis.items()}
    spare = [loop for i, loop in enumerate(loops) if i not in stages.output_axis.values()]
    staging = sch.cache_write(anchor, 0, "local") if moved else None
    sch.set_scope(anchor, 0, "local")

    group, panel, column = sch.split(axis[c.column], [None, tile.panels, tile.columns])
    outer = [*spare, *_axes(axis, c, BATCH, -1), *_axes(axis, c, COLUMN, c.column), group]
    others = _axes(axis, c, ROW, tile.row)
    outer += [] if tile.whole else others
    level, inner, row_tile = [panel], [column], panel
    if staging is not None:
        run = axis[tile.row]
        if c.size(tile.row) % tile.rows == 0:
            block, run = sch.split(run, [None, tile.row_tiles * tile.rows])
            outer.append(block)
        inner += [*(others if tile.whole else []), run]
    elif tile.row >= 0:
        block, row_tile, row = sch.split(axis[tile.row], [None, tile.row_tiles, tile.rows])
        outer.append(block)
        # Columns innermost: then the epilogue reads and writes long runs of each row. In tiles of
        # one row after the other, each in another plane, a residual costs more than the product.
        level = [panel, *others, row_tile] if tile.whole else [row_tile, panel]
        inner.insert(0, row)
    sch.reorder(*outer, *level, *inner)
    task = sch.fuse(*outer)
    if staging is not None:
        row_tile = _stage(sch, staging, panel, c, tile, unit)
        level.append(row_tile)
        _vectorize_run(sch, inner[-1], tile, unit)
    else:
        _vectors(sch, inner[:-1], inner[-1], tile, unit)
    _hint_cuts(sch, c, tile, panel, row_tile)
    sch.compute_at(anchor, level[-1], preserve_unit_loops=True)
    if tile.copy_activation:
        _copy_activation(sch, anchor, c, task, unit)
    if weight_copy is not None:
        sch.compute_at(weight_copy, task, preserve_unit_loops=True)
        _vectorize_copy(sch, weight_copy, tile, unit)
    if c.products >= PARALLEL_PRODUCTS:
        sch.parallel(task)
    _reduce(sch, anchor, c, tile, unit)


def _stage(
    sch: Schedule,
    staging: SBlockRV,
    panel: LoopRV,
    c: Contraction,
    tile: Tile,
    unit: VectorUnit,
) -> LoopRV:
    """Tile the copy out of the registers; return its loop over tiles of rows.

    It collects one panel of columns for a whole block of rows, so that the epilogue after it has
    long contiguous runs.
    """
    sch.set_scope(staging, 0, "local")
    sch.compute_at(staging, panel, preserve_unit_loops=True)
    loops = list(sch.get_loops(staging))[-len(c.roles) :]
    fixed = [loop for i, loop in enumerate(loops) if i not in (tile.row, c.column)]
    row_tile, row = sch.split(loops[tile.row], [None, tile.rows])
    sch.reorder(*fixed, row_tile, row, loops[c.column])
    _vectors(sch, [row], loops[c.column], tile, unit)
    return row_tile


def _vectorize_run(sch: Schedule, run: LoopRV, tile: Tile, unit: VectorUnit) -> None:
    """Vectorize a contiguous run of the epilogue; what is left after the last vector is apart."""
    extent = extent_of(sch.get(run).extent)
    if unit.vectorize and tile.lanes > 1 and extent is not None and extent >= tile.lanes:
        vector, lane = sch.split(run, [None, tile.lanes])
        sch.vectorize(lane)
        if extent % tile.lanes:
            sch.annotate(vector, CUT_HINT, True)


def _hint_cuts(sch: Schedule, c: Contraction, tile: Tile, panel: LoopRV, row_tile: LoopRV) -> None:
    """Mark the loops over tiles whose last tile is cut.

    A cut tile has a condition in its inner loops. TVM's LoopPartition gives it code of its own, so
    that the other tiles have none.
    """
    if c.size(c.column) % tile.columns:
        sch.annotate(panel, CUT_HINT, True)
    if tile.row >= 0 and c.size(tile.row) % tile.rows:
        sch.annotate(row_tile, CUT_HINT, True)


def _axes(axis: dict[int, LoopRV], c: Contraction, role: str, but: int) -> list[LoopRV]:
    """Return the output's loops along the axes of one role, but one."""
    return [axis[i] for i, r in c.roles.items() if r == role and i != but and i in axis]


def _copy_activation(
    sch: Schedule, anchor: SBlockRV, c: Contraction, task: LoopRV, unit: VectorUnit
) -> None:
    copy = sch.cache_read(anchor, read_index(sch, anchor, c.activation), "global")
    sch.compute_at(copy, task, preserve_unit_loops=True)
    last = list(sch.get_loops(copy))[-1]
    extent = extent_of(sch.get(last).extent)
    if unit.vectorize and extent is not None and extent <= 64:
        sch.vectorize(last)


def _vectorize_copy(sch: Schedule, copy: SBlockRV, tile: Tile, unit: VectorUnit) -> None:
    """Copy vectors where the weight's last axis is that of the columns."""
    stmt = sch.get(copy)
    loop = list(sch.get_loops(copy))[-1]
    extent = extent_of(sch.get(loop).extent)
    in_tile = mentions(stmt.body.indices[-1:], stmt.iter_vars[-1].var)
    if unit.vectorize and in_tile and extent is not None and extent % tile.lanes == 0:
        _, lane = sch.split(loop, [None, tile.lanes])
        sch.vectorize(lane)


def _vectors(
    sch: Schedule, rows: list[LoopRV], column: LoopRV, tile: Tile, unit: VectorUnit
) -> None:
    """Make a tile's loops straight code: rows unrolled, columns in vectors."""
    sch.reorder(*rows, column)
    for row in rows:
        sch.unroll(row)
    if tile.columns > tile.lanes:
        vector, column = sch.split(column, [None, tile.lanes])
        sch.unroll(vector)
    if unit.vectorize and tile.lanes > 1:
        sch.vectorize(column)


def _reduce(sch: Schedule, anchor: SBlockRV, c: Contraction, tile: Tile, unit: VectorUnit) -> None:
    """Put the reduction outside of the tile's rows and columns."""
    loops = list(sch.get_loops(anchor))[-len(c.extents) :]
    reductions = [loops[i] for i in c.reductions]
    fixed = [loops[i] for i in c.roles if i not in (tile.row, c.column)]
    rows = [loops[tile.row]] if tile.row >= 0 else []
    sch.reorder(*fixed, *reductions, *rows, loops[c.column])
    _vectors(sch, rows, loops[c.column], tile, unit)
    sch.decompose_reduction(anchor, reductions[0])
