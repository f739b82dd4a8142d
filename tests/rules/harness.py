"""A rule's law, put to the test on TVM.

An `Example` says on what a rule is tried: the types of its variables and the attributes of the
terms that it seeks. `apply` runs the rule on it as the engine would; `check_law` builds what was
sought and what replaces it in Relax, and compares their types and their results: bit for bit where
the rule keeps `EXACT`, up to rounding where it keeps `REAL`.

Both sides are compiled operator by operator, without fusion, fast-math or fused multiply-add, so
that the same floating-point operations give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from tests.rules.values import draw, numpy_dtype, same_bits, same_up_to_rounding
from tvm_tensat.egraph.language import Refusal
from tvm_tensat.egraph.rule import EXACT, VARIABLE, Profile, Rule, Term, preorder
from tvm_tensat.egraph.signature import bind_sources, targets
from tvm_tensat.relax.language import RelaxLanguage

Array = NDArray[Any]


@dataclass(frozen=True)
class Operand:
    """What a variable stands for.

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


def tensor(*shape: int | str, dtype: str = "float32", **other: Any) -> Operand:
    """Return an operand that changes from run to run, unless ``weight=True``."""
    return Operand(shape, dtype, **other)


def weight(*shape: int | str, dtype: str = "float32", **other: Any) -> Operand:
    """Return an operand that is known before run time."""
    return Operand(shape, dtype, weight=True, **other)


def constant(value: float | int | bool, *shape: int, dtype: str = "float32") -> Operand:
    """Return a constant all of whose elements equal ``value``; of rank 0 without a shape."""
    return Operand(shape, dtype, weight=True, value=value)


@dataclass(frozen=True)
class Example:
    """Something that a rule is tried on.

    Parameters
    ----------
    rule : Rule
    operands : tuple of Operand
        Of the rule's variables in order; of a group rule, of the shared variable and then of each
        member's others.
    attrs : tuple of mapping
        Attributes of the sought terms in preorder, source after source, besides those that the rule
        gives; missing ones take TVM's defaults.
    """

    rule: Rule
    operands: tuple[Operand, ...]
    attrs: tuple[Mapping[str, object], ...] = ()

    def __repr__(self) -> str:
        return f"Example({self.rule.name}, {self.operands}, attrs={self.attrs})"


@dataclass(frozen=True)
class Applied:
    """What a rule sought and gave; the terms share `variables`, which stand for `expressions`."""

    language: RelaxLanguage
    variables: list[Term]
    expressions: list[Any]
    sources: list[Term]
    targets: list[Term]


def apply(example: Example) -> Applied:
    """Run a rule on an example.

    Raises
    ------
    Refusal
        When the rule does not apply.
    """
    rule, language = example.rule, RelaxLanguage()
    symbols: dict[str, Any] = {}
    expressions, profiles = [], []
    for position, operand in enumerate(example.operands):
        expression = _expression(operand, f"x{position}", symbols)
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


def _expression(operand: Operand, name: str, symbols: dict[str, Any]) -> Any:
    if operand.value is not None:
        shape = tuple(int(extent) for extent in operand.shape)
        value = np.full(shape, operand.value, numpy_dtype(operand.dtype))
        return relax.const(value, operand.dtype)  # the dtype, or numbers of rank 0 lose theirs
    shape = [
        symbols.setdefault(extent, tvm.tirx.Var(extent, "int64"))
        if isinstance(extent, str)
        else extent
        for extent in operand.shape
    ]
    return relax.Var(name, relax.TensorType(shape, operand.dtype))


def _profile(language: RelaxLanguage, operand: Operand, expression: Any) -> Profile:
    number, kind = (language.weight if operand.weight else language.leaf)(expression)
    operator = language.operator(number)
    is_scalar = operator.name == "scalar" or any(key == "splat" for key, _ in operator.attrs)
    return Profile(kind, operand.weight, number if is_scalar else -1)


def _operators(example: Example, language: RelaxLanguage, types: Sequence[int]) -> list[int]:
    """Return the operator numbers of the sought terms, in preorder, source after source."""
    rule = example.rule
    attrs = iter(example.attrs)
    found = []
    for numbers in _numberings(rule, len(types)):
        of_variable = {
            id(variable): types[k] for variable, k in zip(rule.variables, numbers, strict=True)
        }
        for source in rule.sources:
            terms = preorder(source)
            given = {id(term): dict(next(attrs, {})) | term.given for term in terms}
            made: dict[int, tuple[int, int]] = {}
            for term in reversed(terms):
                operands = tuple(
                    of_variable[id(o)] if o.is_variable else made[id(o)][1] for o in term.operands
                )
                made[id(term)] = language.make(term.name, given[id(term)], operands)
            found += [made[id(term)][0] for term in terms]
    return found


def _numberings(rule: Rule, count: int) -> list[list[int]]:
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
    copies = _numberings(rule, len(profiles))
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


def check_law(example: Example, special: bool = False, seed: int = 0) -> None:
    """Assert that a rule applies to an example, and that its law holds there.

    Parameters
    ----------
    example : Example
    special : bool
        Mix zeros of both signs, infinities, NaN, huge and denormal numbers into the inputs.
    seed : int
        Of the inputs.
    """
    applied = apply(example)
    module = both_sides(applied)
    relax.analysis.well_formed(module)
    for sought, made in zip(applied.sources, applied.targets, strict=True):
        tvm.ir.assert_structural_equal(
            applied.language.tvm_type(sought.type), applied.language.tvm_type(made.type)
        )
    generator = np.random.default_rng(seed)
    drawn = [o for o in example.operands if o.value is None]
    inputs = [
        tvm.runtime.tensor(draw(generator, o.shape, o.dtype, (o.low, o.high), special))
        for o in drawn
    ]
    machine = relax.VirtualMachine(compile_plainly(module), tvm.cpu())
    before, after = (outputs_of(side) for side in machine["main"](*inputs))
    same = same_bits if example.rule.keeps == EXACT else same_up_to_rounding
    for left, right in zip(before, after, strict=True):
        same(left, right)


def compile_plainly(module: tvm.IRModule) -> Any:
    """Compile for speed of compilation: checks of arguments alone would take most of the time."""
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        return tvm.compile(module, tvm.target.Target({"kind": "llvm", "opt-level": 0}))


def both_sides(applied: Applied) -> tvm.IRModule:
    """Return a module whose ``main`` computes the tuple of what was sought and of what replaces it.

    One function, because symbolic dimensions belong to one. TVM merges nothing between the sides.
    """
    builder = relax.BlockBuilder()
    known = {id(v): e for v, e in zip(applied.variables, applied.expressions, strict=True)}
    with builder.function("main", [e for e in applied.expressions if isinstance(e, relax.Var)]):
        with builder.dataflow():
            sides = [
                relax.Tuple([_emit(builder, applied.language, term, known) for term in terms])
                for terms in (applied.sources, applied.targets)
            ]
            out = builder.emit_output(relax.Tuple(sides))
        builder.emit_func_output(out)
    return builder.finalize()


def _emit(
    builder: relax.BlockBuilder, language: RelaxLanguage, term: Term, known: dict[int, Any]
) -> Any:
    if id(term) not in known:
        operands = [_emit(builder, language, operand, known) for operand in term.operands]
        emitted = builder.emit(language.call(term.operator, operands))
        tvm.ir.assert_structural_equal(emitted.ty, language.tvm_type(term.type))
        known[id(term)] = emitted
    return known[id(term)]


def outputs_of(result: Any) -> list[Array]:
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    return [array for field in result for array in outputs_of(field)]
