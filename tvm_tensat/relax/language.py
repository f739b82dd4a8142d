"""The language of Relax: its calls as interned operators, its types as interned numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_tensat.egraph.language import Operator, Refusal, TupleInfo, TypeInfo
from tvm_tensat.relax import inference
from tvm_tensat.relax.attributes import Parts, exact, put_together, take_apart
from tvm_tensat.relax.canonical import canonical_attrs
from tvm_tensat.relax.checks import check_call
from tvm_tensat.relax.foldable import is_foldable
from tvm_tensat.relax.types import describe, numpy_dtype, type_key
from tvm_tensat.relax.weights import WeightTable, array_of, scalar_value

__all__ = ["RelaxLanguage"]

_SOURCES = ("leaf", "weight")


class RelaxLanguage:
    """Operators and types of Relax, interned, with TVM's own type inference.

    Implements `tvm_tensat.egraph.language.Language`. One object serves any number of functions;
    what it has inferred once costs a dictionary look-up. Numbers are valid for this object only.
    """

    def __init__(self) -> None:
        self._operators: list[Operator] = []
        self._operator_number: dict[object, int] = {}
        self._types: list[Any] = []
        self._infos: list[TypeInfo] = []
        self._type_number: dict[object, int] = {}
        self._made: dict[object, tuple[int, int] | str] = {}
        self._result_types: dict[tuple[int, tuple[int, ...]], int] = {}
        self._sources: dict[int, Any] = {}  # operator -> expression, of leaves and weights
        self._leaf_number: dict[Any, int] = {}
        self._weights = WeightTable()
        self._stand_ins: dict[tuple[int, int], Any] = {}
        self._builder = relax.BlockBuilder()

    # -- types ---------------------------------------------------------------------------------

    def intern_type(self, ty: Any) -> int:
        """Return the number of a TVM type; structurally equal types have one number."""
        key = type_key(ty)
        number = self._type_number.get(key)
        if number is None:
            number = self._type_number[key] = len(self._types)
            self._types.append(ty)
            self._infos.append(describe(ty))
        return number

    def tvm_type(self, number: int) -> Any:
        """Return the TVM type with this number."""
        return self._types[number]

    def info(self, type_number: int) -> TypeInfo:
        """Return the type with this number, as rules see it."""
        return self._infos[type_number]

    # -- operators -----------------------------------------------------------------------------

    def operator(self, number: int) -> Operator:
        """Return the operator with this number."""
        return self._operators[number]

    def intern(self, name: str, attrs: Mapping[str, object], arity: int) -> int:
        """Return the number of an operator whose attributes are canonical already."""
        items = tuple(sorted(attrs.items()))
        key = (name, exact(items), arity)
        number = self._operator_number.get(key)
        if number is None:
            number = self._operator_number[key] = len(self._operators)
            self._operators.append(Operator(name, items, arity))
        return number

    def is_foldable(self, operator: int) -> bool:
        """Whether this operator can be computed at compile time when its operands are weights."""
        return is_foldable(self._operators[operator])

    def leaf(self, expr: Any) -> tuple[int, int]:
        """Intern a value from outside the block. Returns its operator and its type."""
        return self._source("leaf", expr, {})

    def weight(self, expr: Any) -> tuple[int, int]:
        """Intern a constant, or a parameter known before run time.

        A rank-0 constant becomes "scalar". Constants with equal content are one operator, and one
        whose elements all have one value carries it as attribute ``splat``.
        """
        if not isinstance(expr, tvm.ir.GenericConst):
            return self._source("weight", expr, {})
        if len(expr.value.shape) == 0:
            value = scalar_value(array_of(expr))
            if value is not None:
                return self.make("scalar", {"value": value, "dtype": str(expr.value.dtype)}, ())
        known = self._weights.find(expr)
        attrs = {} if known.splat is None else {"splat": known.splat}
        return self._source("weight", known.constant, attrs)

    def _source(self, kind: str, expr: Any, attrs: dict[str, object]) -> tuple[int, int]:
        number = self._leaf_number.get(expr)
        if number is None:
            attrs["id"] = len(self._leaf_number)
            number = self._leaf_number[expr] = self.intern(kind, attrs, 0)
            self._sources[number] = expr
        return number, self.intern_type(expr.ty)

    def read(
        self, call: Any, resolve: Callable[[Any], Any] = lambda expr: expr
    ) -> tuple[int, int, Parts]:
        """Intern a normalized call of the input.

        Parameters
        ----------
        call : relax.Call
            With its type, as in any normalized module.
        resolve : callable
            See `tvm_tensat.relax.attributes.take_apart`.

        Returns
        -------
        operator, type : int
            The operator and the type of the result.
        parts : Parts
            The call taken apart, attributes not canonical.
        """
        parts = take_apart(call, resolve)
        infos = [self._infos[self.intern_type(operand.ty)] for operand in parts.operands]
        result = self.intern_type(call.ty)
        attrs = canonical_attrs(parts.name, parts.attrs, infos, self._infos[result])
        return self.intern(parts.name, attrs, len(infos)), result, parts

    # -- making --------------------------------------------------------------------------------

    def make(
        self, name: str, attrs: Mapping[str, object], operand_types: tuple[int, ...]
    ) -> tuple[int, int]:
        """Intern an operator applied to operands of these types.

        Parameters
        ----------
        name : str
            Relax's name, or "tuple", "get" (attribute ``index``) or "scalar" (``value``,
            ``dtype``).
        attrs : mapping
            May be partial, and in any form that the function of `tvm.relax.op` accepts.
        operand_types : tuple of int
            Numbers of the operands' types.

        Returns
        -------
        operator, type : int
            Numbers of the canonical operator and of the result's type.

        Raises
        ------
        Refusal
            When the operator is ill-typed on these operands.
        ValueError
            When there is no such operator or attribute.
        """
        key = (name, tuple(sorted((k, exact(_frozen(v))) for k, v in attrs.items())), operand_types)
        made = self._made.get(key)
        if made is None:
            try:
                made = self._make(name, attrs, operand_types)
            except Refusal as refusal:
                made = str(refusal)
            self._made[key] = made
        if isinstance(made, str):
            raise Refusal(made)
        return made

    def result_type(self, operator: int, operand_types: tuple[int, ...]) -> int:
        """Return the type of an interned operator's result on operands of these types.

        Raises
        ------
        Refusal
            When the operator is ill-typed on these operands.
        """
        known = self._result_types.get((operator, operand_types))
        if known is None:
            described = self._operators[operator]
            _, known = self.make(described.name, dict(described.attrs), operand_types)
            self._result_types[operator, operand_types] = known
        return known

    def _make(
        self, name: str, attrs: Mapping[str, object], operand_types: tuple[int, ...]
    ) -> tuple[int, int]:
        if name == "tuple":
            ty = relax.TupleType([self._types[t] for t in operand_types])
            return self.intern("tuple", {}, len(operand_types)), self.intern_type(ty)
        if name == "get":
            return self._make_get(attrs["index"], operand_types)
        if name == "scalar":
            return self._make_scalar(attrs["value"], str(attrs["dtype"]))
        if name in _SOURCES:
            raise ValueError(f"{name!r} is made by RelaxLanguage.{name}(expr), not by make")
        operands = [self._stand_in(t, i) for i, t in enumerate(operand_types)]
        frozen = {key: _frozen(value) for key, value in attrs.items()}
        call = inference.infer(self._builder, name, inference.build_call(name, frozen, operands))
        parts = take_apart(call)
        infos = [self._infos[t] for t in operand_types]
        result = self.intern_type(call.ty)
        check_call(name, parts.attrs, infos, self._infos[result])
        canonical = canonical_attrs(parts.name, parts.attrs, infos, self._infos[result])
        return self.intern(parts.name, canonical, len(operand_types)), result

    def _make_get(self, index: object, operand_types: tuple[int, ...]) -> tuple[int, int]:
        info = self._infos[operand_types[0]]
        if not isinstance(info, TupleInfo) or not isinstance(index, int):
            raise Refusal(f"get[{index}]: the operand is no tuple but {info}")
        if not 0 <= index < len(info.fields):
            raise Refusal(f"get[{index}]: the tuple has {len(info.fields)} fields")
        ty = self._types[operand_types[0]].fields[index]
        return self.intern("get", {"index": index}, 1), self.intern_type(ty)

    def _make_scalar(self, value: object, dtype: str) -> tuple[int, int]:
        stored = scalar_value(np.asarray(value).astype(numpy_dtype(dtype)))
        if stored is None:
            raise Refusal(f"scalar: {value} of dtype {dtype} is no number")
        ty = relax.TensorType((), dtype)
        return self.intern("scalar", {"value": stored, "dtype": dtype}, 0), self.intern_type(ty)

    def _stand_in(self, type_number: int, position: int) -> Any:
        """Return a Var of this type on which a call can be built for inference."""
        key = (type_number, position)
        if key not in self._stand_ins:
            self._stand_ins[key] = relax.Var(f"x{position}", self._types[type_number])
        return self._stand_ins[key]

    # -- writing -------------------------------------------------------------------------------

    def call(self, operator: int, operands: Sequence[Any]) -> Any:
        """Return the Relax expression of an operator on these operands, without its type.

        A leaf or weight gives the expression it was made from.
        """
        op = self._operators[operator]
        if op.name in _SOURCES:
            return self._sources[operator]
        if op.name == "tuple":
            return relax.Tuple(list(operands))
        if op.name == "get":
            return relax.TupleGetItem(operands[0], int(op["index"]))  # type: ignore[call-overload]
        attrs = dict(op.attrs)
        if op.name == "scalar":
            dtype = str(attrs["dtype"])
            return relax.const(np.asarray(attrs["value"]).astype(numpy_dtype(dtype)), dtype)
        out_dtype = attrs.get("out_dtype")
        if op.name in _DEFAULT_OUT_DTYPE and out_dtype == str(operands[0].ty.dtype):
            attrs["out_dtype"] = None  # what importers write, and what TVM's patterns expect
        return put_together(op.name, attrs, operands)


_DEFAULT_OUT_DTYPE = {"relax.matmul", "relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d"}


def _frozen(value: object) -> object:
    """Return lists as tuples and numpy's numbers as Python's, so that values can be keys."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value
