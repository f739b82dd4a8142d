"""What a rule is tried on, and the rule run on it as the engine would.

An `Example` gives the types of a rule's variables and the attributes of the terms that it seeks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax

from tvm_tensat.egraph.language import Refusal
from tvm_tensat.egraph.rule import VARIABLE, Profile, Rule, Term, preorder
from tvm_tensat.egraph.signature import bind_sources, targets
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.types import dim_of, numpy_dtype


@dataclass(frozen=True)
class Operand:
    """A tensor that a variable stands for.

    Parameters
    ----------
    shape : tuple of int or str
        Names are symbolic dimensions; equal names are equal dimensions.
    dtype : str
    weight : bool
        Known before run time.
    value : float, int, bool or None
        A constant all of whose elements equal this.
    low, high : float or None
        Bounds of the random values; None draws them from a normal distribution.
    """

    shape: tuple[int | str, ...]
    dtype: str = "float32"
    weight: bool = False
    value: float | int | bool | None = None
    low: float | None = None
    high: float | None = None


Given: TypeAlias = "Operand | tuple[Operand, ...]"
"""What a variable stands for: a tensor, or a tuple of tensors."""


def tensor(*shape: int | str, dtype: str = "float32", **other: Any) -> Operand:
    """Return an operand that changes from run to run, unless ``weight=True``."""
    return Operand(shape, dtype, **other)


def weight(*shape: int | str, dtype: str = "float32", **other: Any) -> Operand:
    """Return an operand that is known before run time."""
    return Operand(shape, dtype, weight=True, **other)


def constant(value: float | int | bool, *shape: int, dtype: str = "float32") -> Operand:
    """Return a constant all of whose elements equal ``value``; of rank 0 without a shape."""
    return Operand(shape, dtype, weight=True, value=value)


def tensors(operands: Sequence[Given]) -> list[Operand]:
    """Return the tensors among operands, those of tuples one by one."""
    return [
        each
        for operand in operands
        for each in (operand if isinstance(operand, tuple) else (operand,))
    ]


@dataclass(frozen=True)
class Example:
    """Something that a rule is tried on.

    Parameters
    ----------
    rule : Rule
    operands : tuple of Operand, or of tuples of Operand
        Of the rule's variables in order; of a group rule, of the shared variable and then of each
        member's others.
    attrs : tuple of mapping
        Attributes of the sought terms in preorder, source after source, besides those that the rule
        gives; missing ones take TVM's defaults.
    """

    rule: Rule
    operands: tuple[Given, ...]
    attrs: tuple[Mapping[str, object], ...] = ()

    def with_symbols(self, sizes: Mapping[str, int]) -> Example:
        """Return the example with numbers for its symbolic dimensions."""

        def static(operand: Given) -> Given:
            if isinstance(operand, tuple):
                return tuple(replace(each, shape=_static(each.shape, sizes)) for each in operand)
            return replace(operand, shape=_static(operand.shape, sizes))

        operands = tuple(static(operand) for operand in self.operands)
        attrs = tuple(
            {
                name: _static(value, sizes) if isinstance(value, tuple) else value
                for name, value in each.items()
            }
            for each in self.attrs
        )
        return replace(self, operands=operands, attrs=attrs)

    @property
    def elements(self) -> int:
        """How many numbers its tensors have, a symbolic dimension counting as two."""
        extents = [
            [2 if isinstance(e, str) else e for e in o.shape] for o in tensors(self.operands)
        ]
        return sum(prod(each) for each in extents)

    def __repr__(self) -> str:
        return f"Example({self.rule.name}, {self.operands}, attrs={self.attrs})"


def _static(values: Sequence[Any], sizes: Mapping[str, int]) -> tuple[Any, ...]:
    return tuple(sizes.get(v, v) if isinstance(v, str) else v for v in values)


@dataclass(frozen=True)
class Applied:
    """What a rule sought and gave; the terms share `variables`, which stand for `expressions`."""

    language: RelaxLanguage
    variables: list[Term]
    expressions: list[Any]
    sources: list[Term]
    targets: list[Term]


@cache
def symbol(name: str) -> Any:
    """Return the symbolic dimension of that name, one in the process: equal types stay equal."""
    return tvm.tirx.Var(name, "int64")


def apply(example: Example, language: RelaxLanguage | None = None) -> Applied:
    """Run a rule on an example.

    Parameters
    ----------
    example : Example
    language : RelaxLanguage, optional
        One that has inferred the same types before saves time.

    Raises
    ------
    Refusal
        When the rule does not apply.
    """
    rule, language = example.rule, language or RelaxLanguage()
    expressions, profiles = [], []
    for position, operand in enumerate(example.operands):
        expression = _expression(operand, f"x{position}")
        expressions.append(expression)
        profiles.append(_profile(language, operand, expression))
    operators = _operators(example, language, [profile.type for profile in profiles])
    if rule.kind == "group":
        _check_alike(rule, language, operators, profiles)
    variables, sources, results = targets(rule, language, operators, profiles)
    return Applied(language, variables, expressions, sources, results)


def refusal(example: Example) -> str | None:
    """Return why a rule refuses an example, None when it applies."""
    try:
        apply(example)
    except Refusal as reason:
        return str(reason)
    return None


def _expression(operand: Given, name: str) -> Any:
    if isinstance(operand, tuple):
        fields = [_expression(each, f"{name}_{k}") for k, each in enumerate(operand)]
        return relax.Tuple(fields)
    if operand.value is not None:
        shape = tuple(int(extent) for extent in operand.shape)
        value = np.full(shape, operand.value, numpy_dtype(operand.dtype))
        return relax.const(value, operand.dtype)  # the dtype, or numbers of rank 0 lose theirs
    dims = [_dim(extent) for extent in operand.shape]
    return relax.Var(name, relax.TensorType(dims, operand.dtype))


def _dim(extent: object) -> Any:
    """Return the dimension that a name stands for; what is no name comes back."""
    return symbol(extent) if isinstance(extent, str) else extent


def _profile(language: RelaxLanguage, operand: Given, expression: Any) -> Profile:
    if isinstance(operand, tuple):
        is_weight = all(each.weight for each in operand)
        return Profile(language.intern_type(expression.ty), is_weight, -1)
    number, kind = (language.weight if operand.weight else language.leaf)(expression)
    operator = language.operator(number)
    is_scalar = operator.name == "scalar" or any(key == "splat" for key, _ in operator.attrs)
    return Profile(kind, operand.weight, number if is_scalar else -1)


def _operators(example: Example, language: RelaxLanguage, types: Sequence[int]) -> list[int]:
    """Return the operator numbers of the sought terms, in preorder, source after source."""
    rule = example.rule
    attrs = iter(example.attrs)
    found = []
    for numbers in numberings(rule, len(types)):
        of_variable = {
            id(variable): types[k] for variable, k in zip(rule.variables, numbers, strict=True)
        }
        for source in rule.sources:
            terms = preorder(source)
            given = {id(term): _resolved(next(attrs, {})) | term.given for term in terms}
            made: dict[int, tuple[int, int]] = {}
            for term in reversed(terms):
                operands = tuple(
                    of_variable[id(o)] if o.is_variable else made[id(o)][1] for o in term.operands
                )
                made[id(term)] = language.make(term.name, given[id(term)], operands)
            found += [made[id(term)][0] for term in terms]
    return found


def _resolved(attrs: Mapping[str, object]) -> dict[str, object]:
    """Put dimensions for their names into shapes; other attributes stay."""
    return {
        name: tuple(dim_of(_dim(extent)) for extent in value)  # type: ignore[attr-defined]
        if name == "shape"
        else value
        for name, value in attrs.items()
    }


def numberings(rule: Rule, count: int) -> list[list[int]]:
    """Return the numbers of the operands that each copy of the sources speaks of."""
    if rule.kind != "group":
        return [list(range(count))]
    others = len(rule.variables) - 1
    return [[0, *range(begin, begin + others)] for begin in range(1, count, others)]


def _check_alike(
    rule: Rule, language: RelaxLanguage, operators: Sequence[int], profiles: Sequence[Profile]
) -> None:
    """Refuse members that the engine would not put into one group."""
    assert rule.alike is not None
    likeness = set()
    copies = numberings(rule, len(profiles))
    width = len(operators) // len(copies)
    for k, numbers in enumerate(copies):
        variables = [Term(VARIABLE) for _ in rule.variables]
        sought = next(rule.body(*variables))
        for variable, number in zip(variables, numbers, strict=True):
            variable.bind(language, -1, profiles[number].type)
            variable.profile = profiles[number]
        own = operators[k * width : (k + 1) * width]
        bind_sources(language, [sought], own, rule.dtypes)
        likeness.add((own[0], rule.alike(sought)))
    if len(likeness) > 1:
        raise Refusal("members of a group are not alike")
