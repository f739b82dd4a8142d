"""A language of one type for tests of the engine: every operator takes any number of operands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_tensat.egraph import EGraph
from tvm_tensat.egraph.language import Operator, Refusal, TensorInfo, TypeInfo
from tvm_tensat.egraph.rule import ANY, EXACT, Rule, Term, multi_rule, rule


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

    def result_type(self, operator: int, operand_types: tuple[int, ...]) -> int:
        return 0

    def operator(self, number: int) -> Operator:
        return self.operators[number]

    def info(self, type_number: int) -> TypeInfo:
        return TensorInfo((2,), "float32")

    def is_foldable(self, operator: int) -> bool:
        return self.operators[operator].name not in ("leaf", "opaque")


def function(name: str) -> Callable[..., Term]:
    """A function that applies a toy operator in a rule."""
    return lambda *operands, **attrs: Term(name, operands, attrs)


# A tree is ("x",), a leaf of that name, or (name, tree, ...), or ((name, attributes), tree, ...)
# with attributes as a tuple of pairs. In the patterns of a `Law` a plain string is a variable.
Tree = Sequence[Any]
Pattern = Any


def split_name(name: str | tuple[str, tuple[tuple[str, object], ...]]) -> tuple[str, dict]:
    """The name and the attributes of a tree's head."""
    return (name, {}) if isinstance(name, str) else (name[0], dict(name[1]))


def add_tree(graph: EGraph, tree: Tree) -> int:
    """Add a tree and return its class."""
    head, *children = tree
    classes = [add_tree(graph, child) for child in children]
    name, attrs = split_name(head)
    if not children and not attrs:
        name, attrs = "leaf", {"id": name}
    operator, _ = graph.language.make(name, attrs, (0,) * len(children))
    return graph.add(operator, classes, 0)


@dataclass(frozen=True)
class Law:
    """A rule as data, for the engine (`as_rule`) and for the oracle alike."""

    sources: tuple[Pattern, ...]
    targets: tuple[Pattern, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(v for source in self.sources for v in variables_of(source)))


def variables_of(pattern: Pattern) -> list[str]:
    """Variables of a pattern in order of occurrence, repeated ones repeated."""
    if isinstance(pattern, str):
        return [pattern]
    return [variable for child in pattern[1:] for variable in variables_of(child)]


def as_rule(law: Law, name: str = "law") -> Rule:
    """Declare a law to the engine, through the decorators that rule files use."""

    def body(*variables: Term):
        bound = dict(zip(law.variables, variables, strict=True))
        sources = [_term(source, bound) for source in law.sources]
        yield sources if len(sources) > 1 else sources[0]
        targets = [_term(target, bound) for target in law.targets]
        yield targets if len(sources) > 1 else targets[0]

    kind = inspect.Parameter.POSITIONAL_ONLY
    body.__signature__ = inspect.Signature([inspect.Parameter(v, kind) for v in law.variables])
    body.__name__ = name
    return (multi_rule if len(law.sources) > 1 else rule)(keeps=EXACT, dtypes=ANY)(body)


def _term(pattern: Pattern, bound: Mapping[str, Term]) -> Term:
    if isinstance(pattern, str):
        return bound[pattern]
    name, attrs = split_name(pattern[0])
    return Term(name, [_term(child, bound) for child in pattern[1:]], attrs)


def rows_as_text(graph: EGraph) -> dict[tuple[Operator, tuple[int, ...]], int]:
    """The alive e-nodes, filtered ones included, as (operator, child classes) -> class."""
    found = {}
    for row in np.flatnonzero(graph.node_alive).tolist():
        operator = graph.language.operator(int(graph.node_operator[row]))
        children = graph.children(np.array([row]), operator.arity)[0].tolist()
        key = operator, tuple(graph.find(child) for child in children)
        assert key not in found, f"the e-node {key} occurs twice"
        found[key] = graph.find(int(graph.node_class[row]))
    return found
