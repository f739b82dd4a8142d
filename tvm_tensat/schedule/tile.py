"""The register tile: how a contraction's loops are split, ordered, vectorized and unrolled."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from .contraction import BATCH, COLUMN, ROW, Contraction, read_index
from .machine import VectorUnit
from .stages import Stages, extent_of, loops_of, mentions

# Products below which a kernel stays on one thread: a fork costs 15 to 25 us here, this work 100.
PARALLEL_PRODUCTS = 2_000_000
# Bytes of weights that are swept once for each block of rows, and the columns it has at least: the
# second-level cache of small cores, and enough work for each copied activation.
WEIGHT_BLOCK_BYTES = 128 * 1024
MIN_BLOCK_COLUMNS = 128
# Bytes of activations in one block of rows.
ROW_BLOCK_BYTES = 128 * 1024
# How much longer a row in a cut tile takes.
CUT_PENALTY = 2.0
# What a second piece of code for it costs, and that its rows are one block for the caches.
CUT_OVERHEAD = 0.15
# Bytes of one panel of results for a block of rows, where they are staged.
STAGED_BYTES = 16 * 1024
# A plane of the activation as long as this puts each channel on another page.
PAGE_BYTES = 4096


@dataclass(frozen=True)
class Tile:
    """A register tile and the cache block around it.

    Attributes
    ----------
    row : int
        The row axis that is unrolled, or -1 if there is none.
    rows, columns : int
        Extent of the tile along the row axis and along the column axis.
    lanes : int
        Columns in one vector.
    panels : int
        Tiles of columns that are swept for one block of rows.
    row_tiles : int
        Tiles of rows in one block of rows.
    copy_activation : bool
        Whether a block's activations are first copied into one contiguous piece of memory.
    """

    row: int
    rows: int
    columns: int
    lanes: int
    panels: int
    row_tiles: int
    copy_activation: bool


def largest_divisor(extent: int, limit: int) -> int:
    """Return the largest divisor of `extent` that is at most `limit`."""
    return max(d for d in range(1, max(1, min(extent, limit)) + 1) if extent % d == 0)


def _cycles_per_product(rows: int, vectors: int, extent: int, unit: VectorUnit) -> float:
    """Estimate the cycles of one vector of products in a tile of `rows` x `vectors` accumulators.

    Two products and two loads a cycle, and a latency of four cycles, as on every server core since
    Haswell and Zen 2. A product of rows that do not exist is lost. LLVM spills when no two
    registers are left beside accumulators and weights. Rows of a cut tile take longer.
    """
    products = rows * vectors
    cycles = max(products / 2, (rows + vectors) / 2, 4.0)
    if products + vectors + 2 > unit.registers:
        cycles *= 1.15 if products + vectors + 1 <= unit.registers else 2.0
    waste = 1 + (CUT_OVERHEAD + CUT_PENALTY * (extent % rows) / extent if extent % rows else 0)
    return cycles / products * waste


def _lanes(width: int, most: int, divide: bool) -> int:
    """Choose the lanes of a vector: a full register, or a divisor of the columns near it."""
    if width % most == 0:
        return most
    near = largest_divisor(width, most)
    return near if 2 * near > most or divide or width < most else most


def _shape(c: Contraction, unit: VectorUnit, extent: int, exact: bool) -> tuple[int, int, int]:
    """Choose rows, columns and lanes of the tile; `exact` asks for rows that divide the extent."""
    width = c.column_group or c.size(c.column)
    lanes = _lanes(width, unit.lanes(c.bits), bool(c.column_group))
    tiles = []
    # Powers of two only: TVM 0.27 does not simplify a vector's index // 24, and then gathers.
    for vectors in (1, 2, 4):
        if vectors > 1 and (width % (vectors * lanes) or c.extents[c.column] is None):
            continue
        for rows in range(1, min(extent, 14) + 1):
            if exact and extent % rows:
                continue
            cycles = _cycles_per_product(rows, vectors, extent, unit)
            tiles.append((cycles, -rows * vectors, rows, vectors * lanes))
    _, _, rows, columns = min(tiles)
    return rows, columns, lanes


def choose(c: Contraction, unit: VectorUnit, *, moved: bool) -> Tile:
    """Choose the tile of a contraction for the registers of a target."""
    rows = c.rows()
    if not rows:
        lanes = min(unit.lanes(c.bits), c.size(c.column))
        width = c.column_group or c.size(c.column)
        vectors = largest_divisor(width // lanes, 8) if width % lanes == 0 else 1
        return Tile(-1, 1, vectors * lanes, lanes, _panels(c, vectors * lanes), 1, False)
    row = rows[-1]
    height, columns, lanes = _shape(c, unit, c.size(row), c.windowed or len(c.reductions) > 1)
    panels = _panels(c, columns)
    row_bytes = max(1, height * c.depth * c.bits // 8)
    tiles = max(1, c.size(row) // height)
    row_tiles = largest_divisor(tiles, max(1, ROW_BLOCK_BYTES // row_bytes))
    if moved:
        staged = max(1, height * columns * c.bits // 8)
        row_tiles = largest_divisor(tiles, min(row_tiles, max(1, STAGED_BYTES // staged)))
    if c.size(row) % height:
        row_tiles = tiles + 1
    return Tile(row, height, columns, lanes, panels, row_tiles, _should_copy(c, panels * columns))


def _panels(c: Contraction, columns: int) -> int:
    """Return how many tiles of columns share a block: even shares of all of them."""
    tiles = -(-c.size(c.column) // columns)
    if c.size(c.column) % columns:
        return tiles
    panel_bytes = max(1, columns * c.depth * c.bits // 8)
    fit = max(-(-MIN_BLOCK_COLUMNS // columns), WEIGHT_BLOCK_BYTES // panel_bytes)
    return -(-tiles // -(-tiles // fit))


def _should_copy(c: Contraction, columns: int) -> bool:
    """Return whether the activations of a block are worth copying.

    They are where each channel lies on another page or in the same few sets of the cache, and
    where windows overlap, if enough columns use the copy.
    """
    if columns < 32 or None in c.extents:
        return False
    shape = [extent_of(size) or 1 for size in c.activation.source.shape]
    plane = prod(shape[-2:]) * c.bits // 8
    return c.windowed or (len(shape) > 2 and plane >= PAGE_BYTES)


def row_is_innermost(stages: Stages, c: Contraction) -> bool:
    """Return whether the result is contiguous along the rows, as in NCHW."""
    rows = c.rows()
    at = stages.output_axis
    return bool(rows) and rows[-1] in at and at[rows[-1]] == max(at.values())


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
    outer += _axes(axis, c, ROW, tile.row)
    level, inner = [panel], [column]
    if staging is not None:
        block, run = sch.split(axis[tile.row], [None, tile.row_tiles * tile.rows])
        outer.append(block)
        inner.append(run)
    elif tile.row >= 0:
        block, row_tile, row = sch.split(axis[tile.row], [None, tile.row_tiles, tile.rows])
        outer.append(block)
        level.append(row_tile)
        inner.insert(0, row)
    sch.reorder(*outer, *level, *inner)
    task = sch.fuse(*outer)
    if staging is not None:
        level.append(_stage(sch, staging, panel, c, tile, unit))
        _vectorize_run(sch, inner[-1], tile, unit)
    else:
        _vectors(sch, inner[:-1], inner[-1], tile, unit)
    _hint_cuts(sch, c, tile, level)
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
    """Vectorize a contiguous run of the epilogue where vectors divide it; LLVM does the others."""
    if unit.vectorize and tile.lanes > 1 and tile.row_tiles * tile.rows % tile.lanes == 0:
        _, lane = sch.split(run, [None, tile.lanes])
        sch.vectorize(lane)


def _hint_cuts(sch: Schedule, c: Contraction, tile: Tile, level: list[LoopRV]) -> None:
    """Mark the loops over tiles whose last tile is cut.

    A cut tile has a condition in its inner loops. TVM's LoopPartition gives it code of its own, so
    that the other tiles have none.
    """
    extents = [(c.size(c.column), tile.columns)]
    if tile.row >= 0:
        extents.append((c.size(tile.row), tile.rows))
    for loop, (extent, part) in zip(level, extents, strict=True):
        if extent % part:
            sch.annotate(loop, "pragma_loop_partition_hint", True)


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
