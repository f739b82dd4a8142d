"""How large a contraction's register tile and cache blocks are, from the registers of a target."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .contraction import Contraction
from .machine import VectorUnit
from .stages import Stages, extent_of

# Bytes of weights that are swept once for each block of rows, and the columns it has at least: the
# second-level cache of small cores, and enough work for each copied activation.
WEIGHT_BLOCK_BYTES = 128 * 1024
MIN_BLOCK_COLUMNS = 128
# Bytes of activations in one block of rows.
ROW_BLOCK_BYTES = 128 * 1024
# Bytes of all activations up to which one block has all of them, and up to which it may have.
WHOLE_BYTES = 256 * 1024
LARGEST_WHOLE_BYTES = 1024 * 1024
# Bytes of a second-level cache.
CACHE_BYTES = 512 * 1024
# How much longer a column in a cut tile takes: it runs without vectors.
CUT_COLUMN_PENALTY = 16.0
# What a second piece of code for it costs, and that its rows are one block for the caches.
CUT_OVERHEAD = 0.15
# LLVM loads so many neighbouring activations as one odd vector: ten times slower.
GATHERED_ROWS = 3
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
    whole : bool
        Whether one block has all rows, those of other row axes too.
    copy_activation : bool
        Whether a block's activations are first copied into one contiguous piece of memory.
    """

    row: int
    rows: int
    columns: int
    lanes: int
    panels: int
    row_tiles: int
    whole: bool
    copy_activation: bool


def largest_divisor(extent: int, limit: int) -> int:
    """Return the largest divisor of `extent` that is at most `limit`."""
    return max(d for d in range(1, max(1, min(extent, limit)) + 1) if extent % d == 0)


def _cycles(rows: int, vectors: int, unit: VectorUnit) -> float:
    """Estimate the cycles of one step of a tile of `rows` x `vectors` accumulators.

    Two products a cycle, as on every server core since Haswell and Zen 2, and up to two loads;
    weights come from the second-level cache, at one load a cycle, activations at 1.5 (fitted on
    Zen 3). Fewer than ten products wait for those of the last step, whose latency is four cycles;
    a fifth is lost to uneven arrival. LLVM spills when no two registers are left beside
    accumulators and weights.
    """
    products = rows * vectors
    cycles = max(products / 2, rows / 1.5 + vectors, 5.0)
    if products + vectors + 2 > unit.registers:
        cycles *= 1.15 if products + vectors + 1 <= unit.registers else 2.0
    return cycles


def _cycles_per_product(rows: int, vectors: int, extent: int, unit: VectorUnit) -> float:
    """Estimate the cycles of one vector of products, with the tile that is cut at the end."""
    cycles = extent // rows * _cycles(rows, vectors, unit)
    if extent % rows:
        cycles += _cycles(extent % rows, vectors, unit)
        cycles *= 1 + CUT_OVERHEAD
    return cycles / (extent * vectors)


def _lanes(width: int, most: int, divide: bool) -> int:
    """Choose the lanes of a vector: a full register, or half of one where that divides."""
    if divide or width < most:
        return largest_divisor(width, most)
    return most if width % most == 0 or width % (most // 2) else most // 2


def _shape(
    c: Contraction, unit: VectorUnit, extent: int, *, exact: bool, moved: bool
) -> tuple[int, int, int]:
    """Choose rows, columns and lanes of the tile; `exact` asks for rows that divide the extent."""
    width = c.column_group or c.size(c.column)
    lanes = _lanes(width, unit.lanes(c.bits), bool(c.column_group))
    tiles = []
    # Powers of two only: TVM 0.27 does not simplify a vector's index // 24, and then gathers.
    for vectors in (1, 2, 4):
        cut = width % (vectors * lanes)
        if vectors > 1 and ((cut and c.column_group) or c.extents[c.column] is None):
            continue
        waste = 1 + (CUT_OVERHEAD + CUT_COLUMN_PENALTY * cut / width if cut else 0)
        for rows in range(1, min(extent, 14) + 1):
            if (exact or cut) and extent % rows:
                continue
            if moved and GATHERED_ROWS in (rows, extent % rows):
                continue
            cycles = _cycles_per_product(rows, vectors, extent, unit) * waste
            tiles.append((cycles, -rows * vectors, -rows, vectors * lanes))
    _, _, rows, columns = min(tiles)
    return -rows, columns, lanes


def choose(c: Contraction, unit: VectorUnit, *, moved: bool) -> Tile:
    """Choose the tile of a contraction for the registers of a target."""
    rows = c.rows()
    if not rows:
        lanes = min(unit.lanes(c.bits), c.size(c.column))
        width = c.column_group or c.size(c.column)
        vectors = largest_divisor(width // lanes, 8) if width % lanes == 0 else 1
        return Tile(-1, 1, vectors * lanes, lanes, _panels(c, vectors * lanes), 1, False, False)
    row = rows[-1]
    extent = c.row_group or c.size(row)
    height, columns, lanes = _shape(c, unit, extent, exact=c.row_group > 0, moved=moved)
    panels = _panels(c, columns)
    row_bytes = max(1, height * c.depth * c.bits // 8)
    tiles = max(1, c.size(row) // height)
    row_tiles = largest_divisor(tiles, max(1, ROW_BLOCK_BYTES // row_bytes))
    if moved:
        staged = max(1, height * columns * c.bits // 8)
        row_tiles = largest_divisor(tiles, min(row_tiles, max(1, STAGED_BYTES // staged)))
    if c.size(row) % height:
        row_tiles = tiles + 1
    copy = _should_copy(c, panels * columns)
    whole = _is_whole(c, row, columns, panels)
    return Tile(row, height, columns, lanes, panels, row_tiles, whole, copy)


def _is_whole(c: Contraction, row: int, columns: int, panels: int) -> bool:
    """Return whether one block of a windowed contraction should have all rows.

    Then each panel of weights is swept over all activations while it is in the second-level cache;
    else the weights of a block's panels are swept for each row of the image. The latter reads more
    where the activations are few, and the weights too many for that cache.
    """
    sizes = [extent_of(size) for size in c.activation.source.shape]
    if None in sizes or not c.windowed:
        return False
    size = c.bits // 8
    activations = prod(extent or 1 for extent in sizes) * size
    if activations <= WHOLE_BYTES:
        return True
    block = panels * columns * c.depth * size
    if activations > LARGEST_WHOLE_BYTES or block <= CACHE_BYTES:
        return False
    sweeps = prod(c.size(i) for i in c.rows() if i != row)
    return (
        activations * -(-c.size(c.column) // columns) <= sweeps * c.size(c.column) * c.depth * size
    )


def _panels(c: Contraction, columns: int) -> int:
    """Return how many tiles of columns share a block: even shares of all of them."""
    tiles = -(-c.size(c.column) // columns)
    if c.size(c.column) % columns:
        return tiles
    panel_bytes = max(1, columns * c.depth * c.bits // 8)
    fit = max(-(-MIN_BLOCK_COLUMNS // columns), WEIGHT_BLOCK_BYTES // panel_bytes)
    even = -(-tiles // -(-tiles // fit))
    exact = largest_divisor(tiles, fit)
    # Blocks that divide the tiles need no condition around each vector.
    return exact if 2 * exact >= even else even


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
