"""A segment of a Relax function as e-nodes.

Every binding that is needed becomes an e-node, also those that no rule knows. Tuples, also those
written inside a call, are e-nodes; aliases are not. Bindings of shapes, numbers and strings stay
beside the e-graph: the calls that use them carry the values as attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tvm
from tvm import relax

from tvm_tensat.relax.attributes import holds_no_tensor
from tvm_tensat.relax.barriers import variables
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import Segment

__all__ = ["OriginalNode", "ReadSegment", "read_segment"]


class EGraphLike(Protocol):
    """What the reader asks of an e-graph."""

    def add(self, operator: int, children: Sequence[int], type: int) -> int:
        """Add an e-node, or find the equal one; return its class."""


@dataclass(frozen=True)
class OriginalNode:
    """An e-node that a binding of the input gave.

    Parameters
    ----------
    operator : int
        In the segment's language.
    children : tuple of int
        Classes of its operands, as numbered when it was read.
    index : int
        Position of the binding in the segment.
    positions : tuple of int
        Which arguments of the call the operands are.
    """

    operator: int
    children: tuple[int, ...]
    index: int
    positions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ReadSegment:
    """A segment and where its parts are in the e-graph.

    Parameters
    ----------
    segment : Segment
        What was read.
    language : RelaxLanguage
        Gives operators and types their meaning.
    roots : tuple of (relax.Var, int)
        The output Vars and their classes, in binding order.
    bound : dict of int to tuple of int
        For each class the positions of the bindings whose Vars are in it: their Vars and spans are
        the class's names in the model.
    nodes : tuple of OriginalNode
        In binding order; bindings that give the same e-node appear with the same one.
    beside : tuple of int
        Positions of the bindings that hold no tensor and are not in the e-graph.
    """

    segment: Segment
    language: RelaxLanguage
    roots: tuple[tuple[Any, int], ...]
    bound: dict[int, tuple[int, ...]]
    nodes: tuple[OriginalNode, ...]
    beside: tuple[int, ...]


def read_segment(segment: Segment, language: RelaxLanguage, egraph: EGraphLike) -> ReadSegment:
    """Add the bindings of a segment to an e-graph.

    Parameters
    ----------
    segment : Segment
        From `tvm_tensat.relax.plan.plan_function`.
    language : RelaxLanguage
        In which the e-graph's operators and types are numbered.
    egraph : EGraphLike
        Receives the e-nodes; only its ``add`` is used.
    """
    reader = _Reader(segment, language, egraph)
    for index in _live(segment):
        reader.read_binding(index, segment.bindings[index])
    return ReadSegment(
        segment=segment,
        language=language,
        roots=tuple((v, reader.classes[v]) for v in segment.outputs if v in reader.classes),
        bound={number: tuple(indices) for number, indices in reader.bound.items()},
        nodes=tuple(reader.nodes),
        beside=tuple(reader.beside),
    )


def _live(segment: Segment) -> list[int]:
    """Positions of the bindings that the outputs need, and of those that hold no tensor."""
    needed = set(segment.outputs)
    live = []
    for index, binding in reversed(list(enumerate(segment.bindings))):
        if binding.var in needed or holds_no_tensor(binding.value):
            live.append(index)
            needed.update(variables(binding.value))
    return live[::-1]


class _Reader:
    """The state of one reading: what each Var stands for so far."""

    def __init__(self, segment: Segment, language: RelaxLanguage, egraph: EGraphLike) -> None:
        self._weights = segment.weights
        self._language = language
        self._egraph = egraph
        self._values: dict[Any, Any] = {}  # Var -> the shape, number or string it is bound to
        self.classes: dict[Any, int] = {}  # Var -> class
        self.bound: dict[int, list[int]] = {}
        self.nodes: list[OriginalNode] = []
        self.beside: list[int] = []

    def read_binding(self, index: int, binding: Any) -> None:
        value = self._resolve(binding.value)
        if holds_no_tensor(value):
            self._values[binding.var] = value
            self.beside.append(index)
            return
        if isinstance(value, relax.Call | relax.Tuple | relax.TupleGetItem):
            operator, children, type_number, positions = self._node(value)
            number = self._egraph.add(operator, children, type_number)
            self.nodes.append(OriginalNode(operator, children, index, positions))
        else:
            number = self._class_of(value)
        self.classes[binding.var] = number
        self.bound.setdefault(number, []).append(index)

    def _resolve(self, expr: Any) -> Any:
        return self._values.get(expr, expr) if isinstance(expr, relax.Var) else expr

    def _class_of(self, expr: Any) -> int:
        if isinstance(expr, relax.Var):
            known = self.classes.get(expr)
            if known is not None:
                return known
            weight = expr in self._weights
            operator, type_number = (self._language.weight if weight else self._language.leaf)(expr)
            self.classes[expr] = self._egraph.add(operator, (), type_number)
            return self.classes[expr]
        if isinstance(expr, tvm.ir.GenericConst) and isinstance(expr.ty, relax.TensorType):
            operator, type_number = self._language.weight(expr)
            return self._egraph.add(operator, (), type_number)
        if isinstance(expr, relax.Call | relax.Tuple | relax.TupleGetItem):
            operator, children, type_number, _ = self._node(expr)
            return self._egraph.add(operator, children, type_number)
        operator, type_number = self._language.leaf(expr)
        return self._egraph.add(operator, (), type_number)

    def _node(self, expr: Any) -> tuple[int, tuple[int, ...], int, tuple[int, ...]]:
        if isinstance(expr, relax.Tuple):
            children = tuple(self._class_of(field) for field in expr.fields)
            operator = self._language.intern("tuple", {}, len(children))
            type_number = self._language.intern_type(expr.ty)
            return operator, children, type_number, tuple(range(len(children)))
        if isinstance(expr, relax.TupleGetItem):
            operator = self._language.intern("get", {"index": int(expr.index)}, 1)
            type_number = self._language.intern_type(expr.ty)
            return operator, (self._class_of(expr.tuple_value),), type_number, (0,)
        operator, type_number, parts = self._language.read(expr, self._resolve)
        children = tuple(self._class_of(operand) for operand in parts.operands)
        return operator, children, type_number, parts.positions
