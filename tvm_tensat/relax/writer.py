"""Chosen e-nodes as bindings, and functions with rewritten segments.

Bindings that survive are re-emitted as they were, with their Var, name, span, attributes and
place; only their operands may differ. New bindings come just before the first binding that uses
them: which kernels TVM's FuseOps forms depends on the order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr import _update_type

from tvm_tensat.relax.order import Choice, ChosenGraph, arrange
from tvm_tensat.relax.plan import FunctionPlan, Segment
from tvm_tensat.relax.reader import OriginalNode, ReadSegment

__all__ = ["Choice", "rebuild", "write_chosen", "write_segment"]


def write_segment(
    read: ReadSegment, choice: Choice, find: Callable[[int], int] = lambda number: number
) -> list[Any]:
    """Return the bindings of a segment for one chosen e-node per class.

    Parameters
    ----------
    read : ReadSegment
        The segment as it was read.
    choice : mapping of int to (int, tuple of int)
        Operator and child classes for every class that the roots reach, acyclic.
    find : callable
        Gives the class that a class number of `read` belongs to now.

    Returns
    -------
    list of relax.VarBinding
        They bind every output Var of the segment, the same object.

    Raises
    ------
    ValueError
        When a needed class has no choice, or the choice is cyclic.
    """
    return write_chosen(read, ChosenGraph(read, choice, find))


def write_chosen(read: ReadSegment, chosen: ChosenGraph) -> list[Any]:
    """Return the bindings of a segment for a chosen graph; see `write_segment`."""
    return _Writer(read, chosen).bindings()


class _Writer:
    """The state of one writing: the expression of each class so far."""

    def __init__(self, read: ReadSegment, graph: ChosenGraph) -> None:
        self._read = read
        self._graph = graph
        self._builder = relax.BlockBuilder()
        self._exprs: dict[int, Any] = {}  # class -> Var, constant, or tuple written inline
        self._emitted: list[Any] = []

    def bindings(self) -> list[Any]:
        graph, source = self._graph, self._read.segment.bindings
        for place in arrange(graph):
            if place.beside is not None:
                self._emitted.append(source[place.beside])
            elif graph.is_bound(place.number):
                self._bind(place.number)
            else:
                self._exprs[place.number] = self._inline(place.number)
                self._bind_outputs(place.number, self._exprs[place.number], ())
        return self._emitted

    def _inline(self, number: int) -> Any:
        operator, children = self._graph.choice[number]
        return self._read.language.call(operator, [self._exprs[child] for child in children])

    def _bind(self, number: int) -> None:
        """Emit the binding of a class, to its output Var if it has one."""
        original = self._graph.original(number)
        outputs = self._graph.outputs.get(number, [])
        source = self._read.segment.bindings
        if original is not None:
            binding = source[original.index]
            own = [v for v in outputs if v.same_as(binding.var)]
            var = own[0] if own else outputs[0] if outputs else binding.var
            value = self._rewired(original, binding.value)
            unchanged = value.same_as(binding.value) and var.same_as(binding.var)
            self._emitted.append(
                binding if unchanged else relax.VarBinding(var, value, binding.span)
            )
        else:
            value = self._builder.normalize(self._inline(number))
            named = self._graph.named(number)
            span = None if named is None else source[named].span
            var = outputs[0] if outputs else self._new_var(number, value.ty)
            self._emitted.append(relax.VarBinding(var, value, span))
        self._exprs[number] = var
        self._bind_outputs(number, var, (var,))

    def _bind_outputs(self, number: int, expr: Any, bound: Sequence[Any]) -> None:
        """Emit aliases for the class's output Vars that are not bound yet."""
        for var in self._graph.outputs.get(number, []):
            if not any(var.same_as(other) for other in bound):
                self._emitted.append(relax.VarBinding(var, expr))

    def _new_var(self, number: int, ty: Any) -> Any:
        named = self._graph.named(number)
        if named is not None:
            return relax.DataflowVar(self._read.segment.bindings[named].var.name, ty)
        name = self._read.language.operator(self._graph.choice[number][0]).name
        return relax.DataflowVar(name.rsplit(".", 1)[-1], ty)

    def _rewired(self, node: OriginalNode, value: Any) -> Any:
        """Return the value of an original binding with its operands replaced by the chosen ones."""
        children = self._graph.children_of(node)
        if isinstance(value, relax.TupleGetItem):
            operand = self._argument(value.tuple_value, children[0])
            if operand.same_as(value.tuple_value):
                return value
            return relax.TupleGetItem(operand, value.index, value.span)
        if isinstance(value, relax.Tuple):
            return self._tuple(value, children)
        arguments = list(value.args)
        changed = False
        for position, child in zip(node.positions, children, strict=True):
            argument = self._argument(arguments[position], child)
            changed = changed or not argument.same_as(arguments[position])
            arguments[position] = argument
        if not changed:
            return value
        call = relax.Call(value.op, arguments, value.attrs, value.ty_args, value.span)
        _update_type(call, value.ty)
        return call

    def _tuple(self, value: Any, children: Sequence[int]) -> Any:
        fields = list(value.fields)
        new = [self._argument(old, child) for old, child in zip(fields, children, strict=True)]
        if all(n.same_as(old) for n, old in zip(new, fields, strict=True)):
            return value
        return relax.Tuple(new, value.span)

    def _argument(self, old: Any, number: int) -> Any:
        """Return what stands for a class where `old` stood, `old` itself if that still does."""
        if isinstance(old, relax.Tuple):
            operator, children = self._graph.choice[number]
            is_tuple = self._read.language.operator(operator).name == "tuple"
            if is_tuple and len(children) == len(old.fields):
                return self._tuple(old, children)
        new = self._exprs[number]
        both = isinstance(old, tvm.ir.GenericConst) and isinstance(new, tvm.ir.GenericConst)
        return old if both else new


def rebuild(plan: FunctionPlan, written: Mapping[Segment, Sequence[Any]]) -> Any:
    """Return the function with these segments' bindings replaced.

    Parameters
    ----------
    plan : FunctionPlan
        Of the function.
    written : mapping of Segment to bindings
        From `write_segment`; segments that are missing stay as they are.
    """
    function = plan.function
    blocks = {}
    for block_plan in plan.blocks:
        if any(piece in written for piece in block_plan.pieces):
            bindings: list[Any] = []
            for piece in block_plan.pieces:
                bindings.extend(written.get(piece, piece.bindings))  # type: ignore[arg-type]
            blocks[block_plan.block] = relax.DataflowBlock(bindings, block_plan.block.span)
    if not blocks:
        return function
    return relax.Function(
        function.params,
        _sequence(function.body, blocks),
        function.ret_ty,
        function.is_pure,
        function.attrs,
        function.span,
    )


def _sequence(seq: Any, blocks: Mapping[Any, Any]) -> Any:
    """Return a SeqExpr with blocks replaced, in its branches too."""
    new = [
        blocks.get(block, block)
        if isinstance(block, relax.DataflowBlock)
        else _with_branches(block, blocks)
        for block in seq.blocks
    ]
    if all(n.same_as(old) for n, old in zip(new, seq.blocks, strict=True)):
        return seq
    rebuilt = relax.SeqExpr(new, seq.body, seq.span)
    _update_type(rebuilt, seq.ty)
    return rebuilt


def _with_branches(block: Any, blocks: Mapping[Any, Any]) -> Any:
    bindings = []
    changed = False
    for binding in block.bindings:
        value = binding.value
        if isinstance(value, relax.If):
            true = _sequence(value.true_branch, blocks)
            false = _sequence(value.false_branch, blocks)
            if not (true.same_as(value.true_branch) and false.same_as(value.false_branch)):
                branch = relax.If(value.cond, true, false, value.span)
                _update_type(branch, value.ty)
                binding = relax.VarBinding(binding.var, branch, binding.span)
                changed = True
        bindings.append(binding)
    return relax.BindingBlock(bindings, block.span) if changed else block
