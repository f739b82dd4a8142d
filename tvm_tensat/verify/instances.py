"""Examples for any rule, drawn from its patterns.

A sought term is walked from its variables up: an operand that is still open gets a type when the
first operator that takes it is drawn (`tvm_tensat.verify.proposals`), attributes that the rule
leaves open get values from small sets, and TVM's inference says whether the term is well-typed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tvm import relax

from tvm_tensat.egraph.language import DimLike, Refusal, TensorInfo, TupleInfo, TypeInfo
from tvm_tensat.egraph.rule import FLOAT, Rule, Term, preorder
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.types import dim_of
from tvm_tensat.verify.example import Example, Given, Operand, symbol, tensors
from tvm_tensat.verify.mood import Known, Mood, Size, Sketch
from tvm_tensat.verify.proposals import propose

DTYPES = ("float32", "float16", "bfloat16", "float64", "int8", "int32", "int64", "bool")

EXTENTS: tuple[tuple[Size, ...], ...] = (
    (2, 3, 4),
    (2, 3, 4),
    (2, 3),
    (3,),  # squares: a rule that mixes axes up is well-typed there
    (2,),
    (1, 2, 3),
    (2, 4, 6),
    ("n", 2, 3),
    ("n", "m", 2),
    (0, 2),
    (1,),
)
"""What the dimensions of one example are drawn from, in turn: as many as share no factor with the
number of dtypes, so that all pairs occur."""

NUMBERS: tuple[float, ...] = (1, 0, 2, -0.0, 0.5, -1)
"""What all elements of a constant may be; the first ones more often."""

_POSITIVE = frozenset(
    f"relax.{name}" for name in ("divide", "sqrt", "rsqrt", "log", "power", "nn.batch_norm")
)
"""Operators near whose poles rounding is unbounded: operands are drawn from 0.5 to 2."""


_OF_IMAGES = frozenset(f"relax.nn.{name}" for name in ("conv2d", "max_pool2d", "avg_pool2d"))


@dataclass(frozen=True)
class Drawn:
    """One try: an example, or the reason why its sought terms have no type."""

    example: Example | None
    reason: str


def draw_examples(rule: Rule, seed: int, language: RelaxLanguage) -> Iterator[Drawn]:
    """Draw examples without end, dtypes and kinds of dimensions in turn."""
    random = Random(f"{seed} {rule.name}")
    dtypes = [d for d in DTYPES if not rule.dtypes or d in rule.dtypes] or list(rule.dtypes)
    for number in range(10**9):
        extents = EXTENTS[number % len(EXTENTS)]
        mood = Mood(random, dtypes[number % len(dtypes)], extents)
        try:
            yield Drawn(_Drawing(rule, mood, language).example(), "")
        except (Refusal, ValueError) as refusal:  # ValueError: attributes that nobody proposes
            yield Drawn(None, str(refusal))


class _Drawing:
    """One example under way."""

    def __init__(self, rule: Rule, mood: Mood, language: RelaxLanguage) -> None:
        self.rule = rule
        self.mood = mood
        self.language = language
        self.bound: dict[int, Known] = {}
        self.weights = {id(variable) for variable in self._some(rule.variables)}
        names = {term.name for source in rule.sources for term in preorder(source)}
        self.positive = not names.isdisjoint(_POSITIVE)
        if not names.isdisjoint(_OF_IMAGES) and mood.chance(0.8):
            mood.rank = 4

    def _some(self, variables: Sequence[Term]) -> list[Term]:
        """Draw which variables are weights: the last ones, as laws often say, or any."""
        if self.mood.chance(0.4):
            return list(variables[self.mood.random.randint(0, len(variables)) :])
        share = self.mood.random.choice((0.0, 0.3, 0.5, 0.8, 1.0))
        return [variable for variable in variables if self.mood.chance(share)]

    def example(self) -> Example:
        """Draw types and attributes.

        Raises
        ------
        Refusal
            When the sought terms are ill-typed.
        """
        copies = self.mood.random.choice((2, 2, 3)) if self.rule.kind == "group" else 1
        shared = self.rule.variables if self.rule.kind != "group" else self.rule.variables[:1]
        others = self.rule.variables[len(shared) :]
        operands: list[Given] = []
        attrs: list[dict[str, Any]] = []
        alike: list[dict[str, Any]] = []
        for copy in range(copies):
            for variable in others:
                self.bound.pop(id(variable), None)
            found: dict[int, dict[str, Any]] = {}
            for source in self.rule.sources:
                self._visit(source, "", found, alike)
            own = [found[id(t)] for source in self.rule.sources for t in preorder(source)]
            alike = own if self.mood.chance(0.95) else []
            attrs += own
            operands += [self._given(v) for v in ((*shared, *others) if copy == 0 else others)]
        known = {e for o in tensors(operands) for e in o.shape if isinstance(e, str)}
        asked = {e for each in attrs for e in each.get("shape", ()) if isinstance(e, str)}
        if not asked <= known:
            raise Refusal("a symbolic dimension that no operand has")
        return Example(self.rule, tuple(operands), tuple(attrs))

    def _visit(
        self, term: Term, parent: str, found: dict[int, dict[str, Any]], alike: list[dict[str, Any]]
    ) -> Known:
        """Draw a term; return its type, and put the attributes of all its terms into `found`."""
        operands: list[Known | None] = []
        for operand in term.operands:
            if operand.is_variable:
                operands.append(self.bound.get(id(operand)))
            else:
                operands.append(self._visit(operand, term.name, found, alike))
        self.mood.given = term.given
        drawn, attrs = propose(term.name, operands, self.mood, parent)
        if alike:  # members of a group differ in little: by the order of the terms
            order = [id(t) for source in self.rule.sources for t in preorder(source)]
            kept = alike[order.index(id(term))]
            attrs |= {k: v for k, v in kept.items() if k != "index"}
        attrs = {name: value for name, value in attrs.items() if name not in term.given}
        for operand, known in zip(term.operands, drawn, strict=True):
            if operand.is_variable:
                self.bound.setdefault(id(operand), known)
        numbers = tuple(self._number(known) for known in drawn)
        given = {
            name: tuple(self._dim(extent) for extent in value) if name == "shape" else value
            for name, value in (attrs | term.given).items()
        }
        _, number = self.language.make(term.name, given, numbers)
        found[id(term)] = attrs
        return self._known(self.language.info(number))

    def _dim(self, extent: Size) -> DimLike:
        return dim_of(self._expression(extent))

    def _expression(self, extent: Size) -> Any:
        return symbol(extent) if isinstance(extent, str) else extent

    def _number(self, known: Known) -> int:
        return self.language.intern_type(self._type(known))

    def _type(self, known: Known) -> Any:
        if isinstance(known, tuple):
            return relax.TupleType([self._type(each) for each in known])
        return relax.TensorType([self._expression(e) for e in known.shape], known.dtype)

    def _known(self, info: TypeInfo) -> Known:
        """Return a type in the words of proposals."""
        if isinstance(info, TupleInfo):
            fields = [self._known(each) for each in info.fields]
            return tuple(field for field in fields if isinstance(field, Sketch))
        if not isinstance(info, TensorInfo) or info.shape is None:
            raise Refusal("a term of unknown shape")
        return Sketch(tuple(d if isinstance(d, int) else str(d) for d in info.shape), info.dtype)

    def _given(self, variable: Term) -> Given:
        """Return what a variable stands for: an input, a weight or a constant."""
        known, is_weight = self.bound[id(variable)], id(variable) in self.weights
        if isinstance(known, tuple):
            return tuple(replace(self._operand(each), weight=is_weight) for each in known)
        operand = replace(self._operand(known), weight=is_weight)
        static = all(isinstance(extent, int) for extent in known.shape)
        if not is_weight or not static or not self.mood.chance(0.3):
            return operand
        choices = [n for n in NUMBERS if n > 0 or not self.positive]
        if known.dtype not in FLOAT:
            choices = [int(n) for n in choices if n in (0, 1, 2)]
        value = self.mood.random.choices(choices, range(len(choices), 0, -1))[0]
        return replace(operand, value=value, low=None, high=None)

    def _operand(self, known: Sketch) -> Operand:
        low, high = (0.5, 2.0) if known.dtype in FLOAT else (1, 9)
        operand = Operand(known.shape, known.dtype)
        return replace(operand, low=low, high=high) if self.positive else operand
