"""The stages of a kernel: which block is the anchor, what comes before it and after it.

FuseOps and FuseTIR give kernels of one shape: some injective stages (a padded copy of the input),
at most one anchor that reduces, and an epilogue of injective stages. `stages_of` finds the three
parts, inlines the epilogue into one output block, and says how the output's loops correspond to
the anchor's axes, which is all that a tiling rule must know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

REDUCE = 2  # tirx.IterVar.CommReduce


class NotSchedulable(Exception):
    """The kernel is not of the form that a rule schedules; the next rule is tried."""


@dataclass(frozen=True)
class Stages:
    """A kernel in three parts.

    Attributes
    ----------
    producers : list[SBlockRV]
        Injective blocks before the anchor that are not mere copies, in order.
    anchor : SBlockRV
        The block that reduces.
    output : SBlockRV
        The injective block that writes the kernel's result, or the anchor's where several results
        are computed from it.
    others : list[SBlockRV]
        Injective blocks beside or after the output, each a pass of its own.
    output_axis : dict[int, int]
        For each axis of the anchor's result with an extent other than 1, the iterator of the
        output block that runs along it.
    """

    producers: list[SBlockRV]
    anchor: SBlockRV
    output: SBlockRV
    others: list[SBlockRV]
    output_axis: dict[int, int]


def walk(expr: Any) -> Iterator[Any]:
    """Yield an expression and all of its parts, outermost first."""
    yield expr
    for field in ("a", "b", "value", "condition", "true_value", "false_value"):
        part = getattr(expr, field, None)
        if part is not None and not isinstance(part, (int, float, str)):
            yield from walk(part)
    for field in ("indices", "args"):
        for part in getattr(expr, field, None) or ():
            yield from walk(part)


def loads(expr: Any) -> list[TensorLoad]:
    """Return the loads in an expression, outermost and leftmost first."""
    return [part for part in walk(expr) if isinstance(part, TensorLoad)]


def mentions(exprs: Any, var: Any) -> bool:
    """Return whether a variable occurs in any of the expressions."""
    return any(
        part.same_as(var) for expr in exprs for part in walk(expr) if hasattr(part, "same_as")
    )


def root_blocks(sch: Schedule) -> list[SBlockRV]:
    """Return the blocks below the root, in order."""
    return list(sch.get_child_blocks(sch.get_sblock("root")))


def extent_of(value: Any) -> int | None:
    """Return an extent as an int, or None where it is symbolic."""
    return int(value) if isinstance(value, tirx.IntImm) else None


def axis_extents(sch: Schedule, block: SBlockRV) -> list[int | None]:
    """Return the extents of a block's iterators, None where symbolic."""
    return [extent_of(axis.dom.extent) for axis in sch.get(block).iter_vars]


def is_reduction(sch: Schedule, block: SBlockRV) -> bool:
    """Return whether a block has an iterator that reduces."""
    return any(int(axis.iter_type) == REDUCE for axis in sch.get(block).iter_vars)


def writes_result(sch: Schedule, block: SBlockRV) -> bool:
    """Return whether a block writes a parameter of the kernel."""
    written = sch.get(block).writes[0].source
    return any(written.same_as(param) for param in sch.mod["main"].params)


def is_copy(sch: Schedule, block: SBlockRV) -> bool:
    """Return whether a block copies one buffer without moving elements."""
    stmt = sch.get(block)
    store = stmt.body
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, TensorLoad):
        return False
    source = store.value.indices
    return len(source) == len(store.indices) and all(
        a.same_as(b) for a, b in zip(source, store.indices, strict=True)
    )


def loops_of(sch: Schedule, block: SBlockRV) -> list[LoopRV]:
    """Return one loop for each iterator of a block; refuse blocks that were tiled before."""
    loops = list(sch.get_loops(block))
    if len(loops) != len(sch.get(block).iter_vars):
        raise NotSchedulable("the block's loops are not its iterators")
    return loops


def match_output(sch: Schedule, output: SBlockRV, anchor: SBlockRV) -> dict[int, int]:
    """Match the axes of the anchor's result with the iterators of the output block."""
    result = sch.get(anchor).writes[0].source
    stmt = sch.get(output)
    reads = [load for load in loads(stmt.body.value) if load.source.same_as(result)]
    if not reads:
        raise NotSchedulable("the output does not read the anchor's result")
    variables = [axis.var for axis in stmt.iter_vars]
    found: dict[int, int] = {}
    for dim, (index, size) in enumerate(zip(reads[0].indices, result.shape, strict=True)):
        if extent_of(size) == 1:
            continue
        at = [i for i, var in enumerate(variables) if index.same_as(var)]
        if len(at) != 1:
            raise NotSchedulable("the epilogue moves elements")
        found[dim] = at[0]
    same = all(
        a.same_as(b) or extent_of(a) is not None
        for read in reads
        for a, b in zip(read.indices, reads[0].indices, strict=True)
    )
    extents = axis_extents(sch, output)
    broadcast = [i for i, e in enumerate(extents) if e != 1 and i not in found.values()]
    if not same or broadcast:
        raise NotSchedulable("the epilogue broadcasts or mixes the anchor's result")
    return found


def stages_of(sch: Schedule) -> Stages:
    """Find the parts of a kernel with one anchor, and inline its epilogue into the output block.

    Raises
    ------
    NotSchedulable
        Where the kernel has no or several reductions, or an epilogue that moves elements.
    """
    blocks = root_blocks(sch)
    at = [i for i, block in enumerate(blocks) if is_reduction(sch, block)]
    if len(at) != 1:
        raise NotSchedulable(f"{len(at)} reductions, expected 1")
    anchor = blocks[at[0]]
    producers = []
    for block in blocks[: at[0]]:
        if is_copy(sch, block):
            sch.compute_inline(block)
        else:
            producers.append(block)
    after = blocks[at[0] + 1 :]
    epilogue = [block for block in after if _follows(sch, block, anchor)]
    if sum(writes_result(sch, block) for block in epilogue) > 1:
        output, others = sch.cache_write(anchor, 0, "local"), after
    else:
        for block in epilogue[:-1]:
            sch.compute_inline(block)
        output = epilogue[-1] if epilogue else sch.cache_write(anchor, 0, "local")
        others = [block for block in after if block not in epilogue]
    return Stages(producers, anchor, output, others, match_output(sch, output, anchor))


def _follows(sch: Schedule, block: SBlockRV, anchor: SBlockRV) -> bool:
    """Return whether a block computes from the anchor's result, directly or not."""
    name = sch.get(anchor).name_hint
    return any(
        sch.get(producer).name_hint == name or _follows(sch, producer, anchor)
        for producer in sch.get_producers(block)
    )
