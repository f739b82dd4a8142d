"""The kernels of a chosen graph as things to measure: what is computed together is timed together.

A fused kernel's key has one line for each operator in it::

    relax.nn.conv2d{...}(float32[1, 64, 56, 56], float32[64, 64, 3, 3]!) <- x0 x1
    relax.nn.relu(float32[1, 64, 56, 56]) <- %0

Before the arrow is the operator's *signature*, with ``!`` behind operands known at compile time;
behind it is where the operands come from: outside (``x``), a line above (``%``), or a scalar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax

from tvm_tensat.cost.kernel import Kernel
from tvm_tensat.cost.work import bytes_of
from tvm_tensat.egraph.language import Dim, Operator, TensorInfo, TupleInfo, TypeInfo
from tvm_tensat.fusion.graph import EmittedGraph
from tvm_tensat.fusion.kernels import Emitted, kernels_of
from tvm_tensat.fusion.lowering import Lowering
from tvm_tensat.relax.language import RelaxLanguage

ARROW = " <- "


@dataclass(frozen=True)
class GraphKernel:
    """One kernel of a chosen graph, or several that one of its operators is lowered to.

    Parameters
    ----------
    key : str
        Equal for equal kernels.
    rows : tuple of int
        The e-nodes that are its operators, in the order of bindings.
    emitted : EmittedGraph
        The graph.
    members : tuple of int
        Positions of its operators there.
    launches : int
        How many kernels TVM runs for it; more than one where an operator is lowered to several.
    """

    key: str
    rows: tuple[int, ...]
    emitted: EmittedGraph
    members: tuple[int, ...]
    launches: int


def graph_kernels(
    emitted: EmittedGraph, language: RelaxLanguage, lowering: Lowering
) -> list[GraphKernel]:
    """Return the kernels of a graph that cost time."""
    return [
        kernel_of(emitted, kernel.members, language, len(kernel.names))
        for kernel in kernels_of(emitted.nodes, language, lowering)
    ]


def kernel_of(
    emitted: EmittedGraph, members: tuple[int, ...], language: RelaxLanguage, launches: int = 1
) -> GraphKernel:
    """Return these operators of a graph as one thing to measure."""
    key = _key(emitted, members, language)
    rows = tuple(emitted.rows[member] for member in members)
    return GraphKernel(key, rows, emitted, members, launches)


def signatures_in(key: str) -> list[str]:
    """Return the signatures of the operators in a kernel's key."""
    return [line.split(ARROW)[0] for line in key.split("\n")]


def signature_text(operator: Operator, types: Sequence[TypeInfo], is_weight: Sequence[bool]) -> str:
    """Return an operator applied to operands of these types as text."""
    operands = [
        str(info) + ("!" if weight else "") for info, weight in zip(types, is_weight, strict=True)
    ]
    return f"{operator}({', '.join(operands)})"


def is_measurable(kernel: GraphKernel, language: RelaxLanguage) -> bool:
    """Whether its key alone says what to build: static shapes, no foreign callee."""
    return all(
        can_be_built(
            language.operator(node.operator), [language.info(number) for number in node.types]
        )
        for node in (kernel.emitted.nodes[member] for member in kernel.members)
    )


def can_be_built(operator: Operator, operands: Sequence[TypeInfo]) -> bool:
    """Whether it is an operator of Relax with plain attributes, on operands of static shape."""
    return (
        (operator.name.startswith("relax.") or operator.name in ("get", "tuple"))
        and all(_is_plain(value) for _, value in operator.attrs)
        and all(map(_is_static, operands))
    )


def bytes_read(kernel: GraphKernel, language: RelaxLanguage) -> float:
    """Return the size of what a kernel reads, each operand once."""
    nodes = kernel.emitted.nodes
    read = {
        operand: bytes_of(language.info(type_number))
        for member in kernel.members
        for operand, type_number in zip(nodes[member].operands, nodes[member].types, strict=True)
        if operand not in kernel.members
    }
    return float(sum(read.values()))


def as_kernel(kernel: GraphKernel, language: RelaxLanguage) -> Kernel:
    """Return what `tvm_tensat.cost.measure` takes."""
    return _Builder(kernel, language).kernel()


def _key(emitted: EmittedGraph, members: Sequence[int], language: RelaxLanguage) -> str:
    nodes = emitted.nodes
    line_of = {member: number for number, member in enumerate(members)}
    outside: dict[int, int] = {}

    def source(position: int) -> str:
        if position in line_of:
            return f"%{line_of[position]}"
        node = nodes[position]
        operator = language.operator(node.operator)
        if operator.name == "scalar":
            return str(operator["value"])
        if node.is_inline_tuple(language):
            return f"({' '.join(map(source, node.operands))})"
        return f"x{outside.setdefault(position, len(outside))}"

    lines = []
    for member in members:
        node = nodes[member]
        text = signature_text(
            language.operator(node.operator),
            [language.info(number) for number in node.types],
            [nodes[operand].is_weight for operand in node.operands],
        )
        lines.append(text + ARROW + " ".join(map(source, node.operands)))
    return "\n".join(lines)


class _Builder:
    """Builds the Relax function of a kernel."""

    def __init__(self, kernel: GraphKernel, language: RelaxLanguage) -> None:
        self._kernel = kernel
        self._nodes = kernel.emitted.nodes
        self._language = language
        self._values: dict[int, Any] = {}
        self._parameters: list[Any] = []
        self._weights: list[bool] = []

    def kernel(self) -> Kernel:
        members = self._kernel.members
        for member in members:
            node = self._nodes[member]
            for operand, type_number in zip(node.operands, node.types, strict=True):
                self._declare(operand, type_number)
        builder = relax.BlockBuilder()
        with builder.function("main", self._parameters):
            with builder.dataflow():
                for member in members:
                    node = self._nodes[member]
                    operands = [self._value(operand) for operand in node.operands]
                    call = self._language.call(node.operator, operands)
                    self._values[member] = builder.emit(call)
                results = [builder.emit_output(self._values[m]) for m in self._results()]
            builder.emit_func_output(results[0] if len(results) == 1 else results)
        return Kernel(builder.finalize(), tuple(self._weights), self._kernel.key)

    def _declare(self, position: int, type_number: int) -> None:
        """Make parameters for what is computed outside."""
        node = self._nodes[position]
        if position in self._kernel.members or position in self._values:
            return
        if self._language.operator(node.operator).name == "scalar":
            return
        if node.is_inline_tuple(self._language):
            for operand, number in zip(node.operands, node.types, strict=True):
                self._declare(operand, number)
        else:
            ty = self._language.tvm_type(type_number)
            self._values[position] = self._parameter(ty, node.is_weight)

    def _parameter(self, ty: Any, is_weight: bool) -> Any:
        if isinstance(ty, relax.TupleType):
            return relax.Tuple([self._parameter(field, is_weight) for field in ty.fields])
        self._parameters.append(relax.Var(f"p{len(self._parameters)}", ty))
        self._weights.append(is_weight)
        return self._parameters[-1]

    def _value(self, position: int) -> Any:
        if position in self._values:
            return self._values[position]
        node = self._nodes[position]  # a scalar, or a tuple inside a call
        return self._language.call(node.operator, [self._value(k) for k in node.operands])

    def _results(self) -> list[int]:
        """Members whose results are used outside of the kernel."""
        members = set(self._kernel.members)
        used: set[int] = set()
        for position, node in enumerate(self._nodes):
            if position not in members and not node.is_inline_tuple(self._language):
                used.update(self._read(node))
        found = [m for m in self._kernel.members if m in used or self._nodes[m].outputs]
        return found or [self._kernel.members[-1]]

    def _read(self, node: Emitted) -> Iterator[int]:
        """Yield what a node reads, tuples inside the call taken apart."""
        for operand in node.operands:
            if self._nodes[operand].is_inline_tuple(self._language):
                yield from self._read(self._nodes[operand])
            else:
                yield operand


def _is_static(info: TypeInfo) -> bool:
    if isinstance(info, TupleInfo):
        return all(map(_is_static, info.fields))
    if not isinstance(info, TensorInfo) or info.shape is None:
        return False
    return all(isinstance(dim, int) for dim in info.shape)


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or (
        isinstance(value, (bool, int, float, str)) and not isinstance(value, Dim)
    )
