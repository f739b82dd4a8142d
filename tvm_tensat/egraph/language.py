"""What the engine must know about the terms it rewrites, and nothing more.

The engine (`tvm_tensat.egraph`) and the rules see operators, types and attributes as plain Python
values. `tvm_tensat.relax.language.RelaxLanguage` is the language of Relax; the tests have a toy
one. Operators and types are interned: the engine's tables hold their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias


class Refusal(Exception):
    """Why a rule does not apply, or why a term has no type: one short line for the report."""


@dataclass(frozen=True)
class Dim:
    """A dimension that is no integer at compile time.

    Equal when the expressions are structurally equal. Arithmetic and ordering refuse, so a rule
    that needs numbers is refused on symbolic shapes instead of guessing.

    Parameters
    ----------
    key : object
        Hashable; equal keys mean equal expressions.
    text : str
        The expression as a reader would write it.
    """

    key: object
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.text

    def _refuse(self, *_: object) -> int:
        raise Refusal(f"needs a number where the dimension is symbolic: {self.text}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __index__ = __int__ = _refuse


DimLike: TypeAlias = int | Dim


@dataclass(frozen=True)
class TensorInfo:
    """A tensor's type: its shape (None where TVM does not know it) and dtype."""

    shape: tuple[DimLike, ...] | None
    dtype: str

    def __str__(self) -> str:
        shape = "?" if self.shape is None else "x".join(map(str, self.shape))
        return f"{self.dtype}[{shape}]"


@dataclass(frozen=True)
class TupleInfo:
    """A tuple's type: the types of its fields."""

    fields: tuple[TypeInfo, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.fields)) + ")"


@dataclass(frozen=True)
class OtherInfo:
    """A type about which rules know nothing (a shape, a scalar, an object)."""

    text: str

    def __str__(self) -> str:
        return self.text


TypeInfo: TypeAlias = TensorInfo | TupleInfo | OtherInfo


@dataclass(frozen=True)
class Operator:
    """An operator with everything that tells it from another, except its operands.

    Parameters
    ----------
    name : str
        Relax's own name (``"relax.matmul"``), or one of

        - ``"tuple"``: a tuple of its operands;
        - ``"get"``: field ``index`` of its operand, a tuple;
        - ``"leaf"``: number ``id``, a value from outside the block that changes from run to run;
        - ``"weight"``: number ``id``, a constant tensor, or a parameter known before run time;
        - ``"scalar"``: the rank-0 tensor ``value`` of type ``dtype``, created by a rule or read;
        - ``"opaque"``: number ``id``, a call that no rule understands.
    attrs : tuple of (str, value)
        Sorted by name, canonical: axes are not negative, defaults that TVM fills in are filled in.
        Values are int, float, bool, str, None, `Dim`, tuples of these, or opaque hashables.
    arity : int
        Number of operands.
    """

    name: str
    attrs: tuple[tuple[str, object], ...]
    arity: int

    def __getitem__(self, attr: str) -> object:
        for key, value in self.attrs:
            if key == attr:
                return value
        raise KeyError(f"{self.name} has no attribute {attr!r}")

    def __str__(self) -> str:
        inside = ", ".join(f"{k}={v}" for k, v in self.attrs)
        return f"{self.name.removeprefix('relax.')}[{inside}]" if inside else self.name


class Language(Protocol):
    """Interned operators and types, with type inference."""

    def make(
        self, name: str, attrs: Mapping[str, object], operand_types: tuple[int, ...]
    ) -> tuple[int, int]:
        """Intern an operator applied to operands of these types.

        Attributes that are left out take TVM's defaults; the operator returned is canonical.
        Memoized, so a repeated call costs a dictionary look-up.

        Returns
        -------
        operator, type : int
            Numbers of the canonical operator and of the result's type.

        Raises
        ------
        Refusal
            When the operator is ill-typed on these operands.
        """

    def result_type(self, operator: int, operand_types: tuple[int, ...]) -> int:
        """Return the type of an interned operator's result; memoized, refuses as `make` does."""

    def operator(self, number: int) -> Operator:
        """Return the operator with this number."""

    def info(self, type_number: int) -> TypeInfo:
        """Return the type with this number, as rules see it."""

    def is_foldable(self, operator: int) -> bool:
        """Whether this operator can be computed at compile time when its operands are weights."""
