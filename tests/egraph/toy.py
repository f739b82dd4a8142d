"""A language of one type for tests of the engine: every operator takes any number of operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_tensat.egraph import EGraph
from tvm_tensat.egraph.language import Operator, Refusal, TensorInfo, TypeInfo
from tvm_tensat.egraph.rule import Term


class ToyLanguage:
    """Operators are their names and attributes; all values have type 0, a float of shape (2,)."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.numbers: dict[Operator, int] = {}

    def make(
        self, name: str, attrs: Mapping[str, object], operand_types: tuple[int, ...]
    ) -> tuple[int, int]:
        if name == "ill":
            raise Refusal("ill-typed")
        operator = Operator(name, tuple(sorted(attrs.items())), len(operand_types))
        if operator not in self.numbers:
            self.numbers[operator] = len(self.operators)
            self.operators.append(operator)
        return self.numbers[operator], 0

    def operator(self, number: int) -> Operator:
        return self.operators[number]

    def info(self, type_number: int) -> TypeInfo:
        return TensorInfo((2,), "float32")

    def is_foldable(self, operator: int) -> bool:
        return self.operators[operator].name not in ("leaf", "opaque")


def function(name: str):
    """A function that applies a toy operator in a rule."""
    return lambda *operands, **attrs: Term(name, operands, attrs)


Tree = Sequence  # ("f", tree, ...) or ("x",)


def add_tree(graph: EGraph, tree: Tree) -> int:
    """Add a nested tuple; a 1-tuple is a leaf of that name."""
    name, *children = tree
    classes = [add_tree(graph, child) for child in children]
    if not children:
        operator, _ = graph.language.make("leaf", {"id": name}, ())
    else:
        operator, _ = graph.language.make(name, {}, (0,) * len(children))
    return graph.add(operator, classes, 0)
