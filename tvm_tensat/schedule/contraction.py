"""Products and convolutions as one thing: a sum of products of an activation and a weight.

Each axis of the result reads either the activation (a *row*: the rows of a matmul, the pixels of
a convolution), or the weight (a *column*: output features), or both (a batch, a group). The
register tile is the same for all of them: some vectors of columns, contiguous in the weight, times
some rows, each a scalar of the activation that is broadcast. `contraction_of` finds the axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from .stages import REDUCE, NotSchedulable, extent_of, mentions, walk

ROW, COLUMN, BATCH = "row", "column", "batch"

# The extent that a symbolic axis is taken for when a tile is chosen.
SYMBOLIC_EXTENT = 64


@dataclass(frozen=True)
class Contraction:
    """The axes of a sum of products.

    Attributes
    ----------
    roles : dict[int, str]
        For each spatial iterator of the block `ROW`, `COLUMN` or `BATCH`.
    extents : list[int | None]
        Extents of all iterators, None where symbolic.
    reductions : list[int]
        The iterators that reduce: window positions first, channels last. With the channels
        innermost LLVM cannot see that neighbouring window positions share activations; where it
        sees that, it unrolls them together and spills most registers.
    windowed : bool
        Whether an index of the activation adds a row and a reduction, as in a convolution.
    activation, weight : TensorLoad
        The two factors.
    column : int
        The column axis that is vectorized.
    column_group : int
        Columns that share one group's activations: a tile must not cross its multiples. 0 where
        there are no groups.
    row_group : int
        The same for rows, where the factors are swapped.
    bits : int
        Bits of an element of the result.
    """

    roles: dict[int, str]
    extents: list[int | None]
    reductions: list[int]
    windowed: bool
    activation: TensorLoad
    weight: TensorLoad
    column: int
    column_group: int
    row_group: int
    bits: int

    def size(self, axis: int) -> int:
        """Return the extent of an axis, with a guess for symbolic ones."""
        extent = self.extents[axis]
        return SYMBOLIC_EXTENT if extent is None else extent

    @property
    def depth(self) -> int:
        """The number of products in one element of the result."""
        return prod(self.size(axis) for axis in self.reductions)

    @property
    def products(self) -> int:
        """The number of products in the whole result."""
        return self.depth * prod(self.size(axis) for axis in self.roles)

    def rows(self) -> list[int]:
        """Return the row axes that have an extent."""
        return [i for i, role in self.roles.items() if role == ROW and self.extents[i] != 1]


def _strip_cast(expr: Any) -> Any:
    while isinstance(expr, tirx.Cast):
        expr = expr.value
    return expr


def factors(store: Any) -> tuple[TensorLoad, TensorLoad]:
    """Return the two loads whose product a block accumulates."""
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add):
        raise NotSchedulable("the anchor does not accumulate a sum")
    product = _strip_cast(store.value.b)
    if not isinstance(product, tirx.Mul):
        raise NotSchedulable("the anchor does not accumulate products")
    a, b = _strip_cast(product.a), _strip_cast(product.b)
    if not isinstance(a, TensorLoad) or not isinstance(b, TensorLoad):
        raise NotSchedulable("a factor is not a load")
    return a, b


def _group(load: TensorLoad, var: Any) -> int:
    """Return g where `load` reads `var` only as var // g (a group's channel), else 0."""
    parts = [part for index in load.indices for part in walk(index)]
    uses = sum(part.same_as(var) for part in parts)
    divisions = [p for p in parts if isinstance(p, tirx.FloorDiv) and p.a.same_as(var)]
    sizes = {extent_of(p.b) for p in divisions}
    if len(sizes) != 1 or uses != len(divisions):
        return 0
    return sizes.pop() or 0


def _alone(load: TensorLoad, var: Any, others: list[Any]) -> bool:
    """Return whether no index of a load adds `var` to a variable of the result."""
    return not any(
        mentions([index], var) and any(mentions([index], other) for other in others)
        for index in load.indices
    )


def contraction_of(sch: Schedule, anchor: SBlockRV, *, swapped: bool = False) -> Contraction:
    """Read the roles of the anchor's axes.

    The second factor is the weight. With `swapped` the first one takes its place: then pixels are
    the columns of a convolution, and output channels its rows.

    Raises
    ------
    NotSchedulable
        Where the anchor is no sum of products, or no axis belongs to the weight alone.
    """
    stmt = sch.get(anchor)
    activation, weight = factors(stmt.body)
    if swapped:
        activation, weight = weight, activation
    extents = [extent_of(axis.dom.extent) for axis in stmt.iter_vars]
    variables = [axis.var for axis in stmt.iter_vars]
    reducing = [i for i, axis in enumerate(stmt.iter_vars) if int(axis.iter_type) == REDUCE]
    roles: dict[int, str] = {}
    groups: dict[int, int] = {}
    for i, var in enumerate(variables):
        if i in reducing:
            continue
        row_group, column_group = _group(weight, var), _group(activation, var)
        in_activation, in_weight = (mentions(x.indices, var) for x in (activation, weight))
        if not in_weight or (row_group and in_activation):
            roles[i], groups[i] = ROW, row_group
        elif not in_activation or column_group:
            roles[i], groups[i] = COLUMN, column_group
        else:
            roles[i], groups[i] = BATCH, 0
    columns = [i for i, role in roles.items() if role == COLUMN and extents[i] != 1]
    if not columns:
        raise NotSchedulable("no axis belongs to the weight alone")
    rows = [i for i, role in roles.items() if role == ROW and extents[i] != 1]
    pixels = [variables[i] for i in roles if extents[i] != 1 and not groups[i]]
    window = [i for i in reducing if not _alone(activation, variables[i], pixels)]
    return Contraction(
        roles=roles,
        extents=extents,
        reductions=window + [i for i in reducing if i not in window],
        windowed=bool(window),
        activation=activation,
        weight=weight,
        column=columns[-1],
        column_group=groups[columns[-1]],
        row_group=groups[rows[-1]] if rows else 0,
        bits=int(stmt.body.buffer.dtype.bits),
    )


def read_index(sch: Schedule, block: SBlockRV, load: TensorLoad) -> int:
    """Return the position of a load's buffer among a block's reads."""
    for i, region in enumerate(sch.get(block).reads):
        if region.source.same_as(load.source):
            return i
    raise NotSchedulable("the block does not declare what it reads")


def weight_is_contiguous(sch: Schedule, anchor: SBlockRV, c: Contraction) -> bool:
    """Return whether neighbouring columns are neighbours in the weight's memory."""
    var = sch.get(anchor).iter_vars[c.column].var
    last = [
        index
        for index, size in zip(c.weight.indices, c.weight.source.shape, strict=True)
        if extent_of(size) != 1
    ][-1:]
    return bool(last) and mentions(last, var)
