"""Which runs of bindings of a function become e-graphs.

A *segment* is a maximal run of consecutive bindings of one dataflow block without a barrier
(`tvm_tensat.relax.barriers`). What lies between segments is kept, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import relax

from tvm_tensat.relax.barriers import Callees, barrier, is_in_place, variables

__all__ = ["BlockPlan", "FunctionPlan", "Kept", "Segment", "plan_function"]


@dataclass(frozen=True, eq=False)
class Segment:
    """A run of bindings that becomes one e-graph.

    Parameters
    ----------
    bindings : tuple of relax.VarBinding
        In their order.
    outputs : tuple of relax.Var
        Vars bound here that the block outputs, or that anything outside the segment uses.
    weights : frozenset of relax.Var
        Parameters of the function that are known before run time.
    """

    bindings: tuple[Any, ...]
    outputs: tuple[Any, ...]
    weights: frozenset[Any]


@dataclass(frozen=True, eq=False)
class Kept:
    """A run of bindings that stays as it is, and the reason."""

    bindings: tuple[Any, ...]
    reason: str


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """A dataflow block as consecutive pieces."""

    block: Any
    pieces: tuple[Segment | Kept, ...]


@dataclass(frozen=True, eq=False)
class FunctionPlan:
    """A function and the plans of its dataflow blocks, in their order, branches included."""

    function: Any
    blocks: tuple[BlockPlan, ...]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments of the function, in their order."""
        return tuple(p for b in self.blocks for p in b.pieces if isinstance(p, Segment))


def plan_function(
    function: relax.Function,
    functions: Mapping[str, Any] | Callees | None = None,
    training: bool = False,
) -> FunctionPlan:
    """Divide the dataflow blocks of a function into segments and what is kept.

    Parameters
    ----------
    function : relax.Function
        In normal form, as every pass of TVM leaves it.
    functions : mapping of str to BaseFunc, or Callees, optional
        The module's functions by name: whether a call writes in place depends on its callee.
    training : bool
        Whether `nn.dropout` draws random numbers.
    """
    callees = functions if isinstance(functions, Callees) else Callees(functions or {})
    weights = _weight_parameters(function)
    blocks = [
        BlockPlan(block, tuple(_cut(block, weights, callees, training)))
        for block in _blocks(function.body)
        if isinstance(block, relax.DataflowBlock)
    ]
    with_outputs = _find_outputs(function, blocks)
    return FunctionPlan(function, tuple(_keep_aliased(function, with_outputs, callees)))


def _weight_parameters(function: Any) -> frozenset[Any]:
    attrs = function.attrs
    if attrs is None or "num_input" not in attrs:
        return frozenset()
    return frozenset(function.params[int(attrs["num_input"]) :])


def _blocks(expr: Any) -> Iterator[Any]:
    """Yield the binding blocks of a function's body in order, the branches' before their own."""
    if not isinstance(expr, relax.SeqExpr):
        return
    for block in expr.blocks:
        if not isinstance(block, relax.DataflowBlock):
            for binding in block.bindings:
                if isinstance(binding.value, relax.If):
                    yield from _blocks(binding.value.true_branch)
                    yield from _blocks(binding.value.false_branch)
        yield block


def _cut(
    block: Any, weights: frozenset[Any], callees: Callees, training: bool
) -> Iterator[Segment | Kept]:
    run: list[Any] = []
    for binding in block.bindings:
        reason = barrier(binding, callees, training)
        if reason is None:
            run.append(binding)
            continue
        if run:
            yield Segment(tuple(run), (), weights)
            run = []
        yield Kept((binding,), reason)
    if run:
        yield Segment(tuple(run), (), weights)


def _find_outputs(function: Any, blocks: list[BlockPlan]) -> list[BlockPlan]:
    """Complete the segments by their outputs."""
    home: dict[Any, Segment] = {}
    for plan in blocks:
        for piece in plan.pieces:
            if isinstance(piece, Segment):
                home.update((binding.var, piece) for binding in piece.bindings)
    used = {v for at, v in _uses(function, blocks) if v in home and home[v] is not at}
    done = []
    for plan in blocks:
        pieces: list[Segment | Kept] = []
        for piece in plan.pieces:
            if isinstance(piece, Segment):
                bound = [binding.var for binding in piece.bindings]
                outputs = [v for v in bound if v in used or not isinstance(v, relax.DataflowVar)]
                piece = replace(piece, outputs=tuple(outputs))
            pieces.append(piece)
        done.append(replace(plan, pieces=tuple(pieces)))
    return done


def _uses(function: Any, blocks: list[BlockPlan]) -> Iterator[tuple[object, Any]]:
    """Yield (segment or None, Var) for every use of a Var in the function."""
    for plan in blocks:
        for piece in plan.pieces:
            at = piece if isinstance(piece, Segment) else None
            for binding in piece.bindings:
                for var in _used_by(binding):
                    yield at, var
    for block in _blocks(function.body):
        if not isinstance(block, relax.DataflowBlock):
            for binding in block.bindings:
                for var in _used_by(binding):
                    yield None, var
    if isinstance(function.body, relax.SeqExpr):
        yield from ((None, var) for var in variables(function.body.body))


def _used_by(binding: Any) -> Iterator[Any]:
    yield from variables(binding.value)
    if isinstance(binding, relax.MatchCast) and isinstance(binding.ty, relax.TensorType):
        shape = binding.ty.shape
        if shape is not None:
            yield from variables(shape)


def _keep_aliased(function: Any, blocks: list[BlockPlan], callees: Callees) -> list[BlockPlan]:
    """Keep the segments whose tensors an in-place call may reach.

    Rewriting could make two tensors one: the in-place call would then overwrite a value that is
    still needed. Written Vars are followed backwards through everything outside the segments that
    could pass its operand on, and through the segments kept for this reason.
    """
    bindings = [
        binding
        for block in _blocks(function.body)
        for binding in block.bindings
        if not isinstance(binding.value, relax.If)
    ]
    written: set[Any] = set()
    for binding in bindings:
        if is_in_place(binding.value, callees):
            written.update(variables(binding.value))
    if not written:
        return blocks
    home = {
        binding.var: piece
        for plan in blocks
        for piece in plan.pieces
        if isinstance(piece, Segment)
        for binding in piece.bindings
    }
    reached: set[int] = set()
    grew = True
    while grew:
        before = (len(written), len(reached))
        for binding in reversed(bindings):
            segment = home.get(binding.var)
            used = set(variables(binding.value))
            if segment is None or id(segment) in reached:
                if binding.var in written:
                    written |= used
            elif binding.var in written or used & written:
                reached.add(id(segment))
                written |= used
        grew = before != (len(written), len(reached))
    reason = "an in-place call may write to its tensors"
    return [
        replace(
            plan,
            pieces=tuple(Kept(p.bindings, reason) if id(p) in reached else p for p in plan.pieces),
        )
        for plan in blocks
    ]
