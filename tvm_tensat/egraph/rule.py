"""Rules as data: a generator that says what is sought, then what replaces it.

    @rule(keeps=EXACT, dtypes=ANY)
    def transpose_of_transpose(x):
        \"\"\"Two permutations in a row are one.\"\"\"
        inner = permute_dims(x)
        outer = permute_dims(inner)
        yield outer
        yield permute_dims(x, axes=[inner.axes[axis] for axis in outer.axes])

The parameters are variables. Up to the first ``yield`` the function describes terms to search for;
an attribute that is left out matches any value. There it is traced once, and matching is done on
whole tables. After the first ``yield`` the variables and the sought terms have types and
attributes, the function computes with them as plain values, and the second ``yield`` gives one
term for each term sought. That half runs once for each distinct *signature* (the operators matched
and the types of the variables), not for each match. `refuse` ends it with a reason; so do an
ill-typed term and a number asked of a symbolic dimension.

Three kinds of rules differ in what they seek: `rule` one term, `multi_rule` several that share
variables (TENSAT's multi-patterns), `group_rule` all terms alike that share one variable.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tvm_tensat.egraph.language import DimLike, Language, Operator, Refusal, TensorInfo, TupleInfo

EXACT = "exact"  # the same floating-point operations for each output element
REAL = "real"  # equal over the reals; rounding may differ

FLOAT = ("float16", "bfloat16", "float32", "float64")
INT = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
ANY: tuple[str, ...] = ()  # every dtype


def refuse(reason: str) -> NoReturn:
    """End a rule: it does not apply to this signature, for this reason."""
    raise Refusal(reason)


@dataclass(frozen=True)
class Profile:
    """What a rule may know about the class that a variable stands for."""

    type: int
    is_weight: bool
    scalar: int  # number of the operator that is a constant of equal elements, or -1


class Term:
    """A variable, a term sought, or a term to build.

    Attributes of its operator are read as attributes of the term: ``conv.strides``.
    """

    def __init__(
        self,
        name: str,
        operands: Sequence[Term] = (),
        attrs: dict[str, object] | None = None,
    ) -> None:
        self.name = name
        self.operands = tuple(operands)
        self.given = dict(attrs or {})
        self.language: Language | None = None
        self.operator: int = -1
        self.type: int = -1
        self.profile: Profile | None = None
        language = building[-1] if building else None
        if language is not None:
            types = tuple(operand.type for operand in self.operands)
            self.bind(language, *language.make(name, self.given, types))

    def bind(self, language: Language, operator: int, type_number: int) -> None:
        """Give the term its operator and type."""
        self.language, self.operator, self.type = language, operator, type_number

    @property
    def is_variable(self) -> bool:
        """Whether the term stands for any class."""
        return self.name == VARIABLE

    @property
    def shape(self) -> tuple[DimLike, ...]:
        """The dimensions; refuses when TVM does not know them."""
        shape = self._tensor().shape
        if shape is None:
            refuse("unknown shape")
        return shape

    @property
    def sizes(self) -> tuple[int, ...]:
        """The dimensions as numbers; refuses when one is symbolic."""
        return tuple(dim if isinstance(dim, int) else int(dim) for dim in self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> str:
        """The element type."""
        return self._tensor().dtype

    @property
    def fields(self) -> int:
        """How many fields the tuple has."""
        info = self._language().info(self.type)
        if not isinstance(info, TupleInfo):
            refuse("not a tuple")
        return len(info.fields)

    @property
    def is_weight(self) -> bool:
        """Whether this variable is known at compile time."""
        return self.profile is not None and self.profile.is_weight

    @property
    def value(self) -> float | int | bool | None:
        """The number that all elements of this variable equal, when it is such a constant."""
        if self.profile is None or self.profile.scalar < 0:
            return None
        operator = self._language().operator(self.profile.scalar)
        number = operator["value"] if operator.name == "scalar" else operator["splat"]
        return number  # type: ignore[return-value]

    def on(self, *operands: Term, **changes: object) -> Term:
        """Return the same operator on other operands, with some attributes changed."""
        attrs = dict(self._operator().attrs) | changes
        return Term(self.name, operands, attrs)

    def same_operator(self, other: Term) -> bool:
        """Whether both terms have the same operator, attributes included."""
        return self.operator == other.operator

    def __getitem__(self, index: int) -> Term:
        return Term("get", (self,), {"index": index})

    def __getattr__(self, attr: str) -> Any:
        if attr.startswith("__"):
            raise AttributeError(attr)
        operator = self._operator()
        try:
            return operator[attr]
        except KeyError:
            known = ", ".join(name for name, _ in operator.attrs)
            raise AttributeError(
                f"{operator.name} has no attribute {attr!r}; it has: {known or 'none'}"
            ) from None

    def _language(self) -> Language:
        if self.language is None:
            raise TypeError(
                f"{self.name}: types and attributes are known only after the first yield"
            )
        return self.language

    def _operator(self) -> Operator:
        language = self._language()
        if self.is_variable:
            raise AttributeError("a variable has a type but no attributes")
        return language.operator(self.operator)

    def _tensor(self) -> TensorInfo:
        info = self._language().info(self.type)
        if not isinstance(info, TensorInfo):
            refuse("not a tensor")
        return info

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.operands))})"


VARIABLE = "?"
building: list[Language | None] = []  # the language in which new terms are built, innermost last

Body = Callable[..., Generator[Any, Any, None]]


@dataclass(frozen=True)
class Rule:
    """A law, with how to search for it and how to apply it.

    Parameters
    ----------
    name, law : str
        The function's name and the first line of its docstring.
    kind : str
        ``"single"``, ``"multi"`` or ``"group"``.
    keeps : str
        `EXACT` or `REAL`.
    dtypes : tuple of str
        Element types of the sought terms that the law admits; empty means every one.
    variables : tuple of Term
    sources : tuple of Term
        The terms sought, with `variables` in them.
    body : generator function
    alike : callable or None
        Of a group rule: equal values mean that two terms can be merged.
    origin : str
        ``file:line``, for reports.
    """

    name: str
    law: str
    kind: str
    keeps: str
    dtypes: tuple[str, ...]
    variables: tuple[Term, ...]
    sources: tuple[Term, ...]
    body: Body
    alike: Callable[[Term], Hashable] | None
    origin: str


def rule(*, keeps: str, dtypes: tuple[str, ...] = FLOAT) -> Callable[[Body], Rule]:
    """Declare a rule that replaces one term."""
    return lambda body: _trace(body, "single", keeps, dtypes, None)


def multi_rule(*, keeps: str, dtypes: tuple[str, ...] = FLOAT) -> Callable[[Body], Rule]:
    """Declare a multi-pattern rule: several terms that share variables (TENSAT, section 4)."""
    return lambda body: _trace(body, "multi", keeps, dtypes, None)


def group_rule(
    *, keeps: str, alike: Callable[[Term], Hashable], dtypes: tuple[str, ...] = FLOAT
) -> Callable[[Body], Rule]:
    """Declare a rule that replaces all terms alike that share the first variable, at once.

    The first ``yield`` gives one term and receives the list of all terms of a group, in the order
    of their birth, each with its own operands; the second gives the list of their replacements.

    Parameters
    ----------
    alike : callable
        From a term to a hashable; terms of one operator, attributes included, with equal values
        form a group. May refuse.
    """
    return lambda body: _trace(body, "group", keeps, dtypes, alike)


def _trace(
    body: Body,
    kind: str,
    keeps: str,
    dtypes: tuple[str, ...],
    alike: Callable[[Term], Hashable] | None,
) -> Rule:
    """Run the function up to its first yield with fresh variables."""
    variables = tuple(Term(VARIABLE) for _ in inspect.signature(body).parameters)
    sought = next(body(*variables))
    sources = tuple(sought) if isinstance(sought, (tuple, list)) else (sought,)
    code = body.__code__
    return Rule(
        name=body.__name__,
        law=(inspect.getdoc(body) or "").strip().split("\n\n")[0].replace("\n", " "),
        kind=kind,
        keeps=keeps,
        dtypes=dtypes,
        variables=variables,
        sources=sources,
        body=body,
        alike=alike,
        origin=f"{code.co_filename}:{code.co_firstlineno}",
    )


def preorder(term: Term) -> list[Term]:
    """Return the operator terms of a pattern, parents first, left to right."""
    if term.is_variable:
        return []
    return [term] + [inner for operand in term.operands for inner in preorder(operand)]
