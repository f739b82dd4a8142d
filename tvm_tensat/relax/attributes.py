"""Attributes of Relax calls as plain, hashable values, and back.

`take_apart` splits a call into its name, its attributes and its tensor operands; arguments that
hold no tensor (a reshape's shape, the bounds of clip or of a slice, the callee of call_tir) are
attributes named as TVM's operator registry names them. `put_together` is its inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
from tvm import relax

from tvm_tensat.egraph.language import Dim
from tvm_tensat.relax.types import dim_of, dtype_text, expr_of, type_key

__all__ = [
    "CALL",
    "Opaque",
    "Parts",
    "argument_names",
    "attribute_names",
    "exact",
    "from_plain",
    "holds_no_tensor",
    "plain",
    "put_together",
    "take_apart",
]

CALL = "call"
"""Name of the operator that calls a function of the module; its attribute ``func`` says which."""

_ARGUMENTS = {  # where TVM's registry declares fewer arguments than the calls have
    "relax.strided_slice": ("x", "axes", "begin", "end", "strides"),
    "relax.call_tir": ("func", "args", "tir_vars"),
    "relax.call_tir_with_grad": ("func", "args", "tir_vars"),
    "relax.call_pure_packed": ("func",),
}

_attrs_type: dict[str, str] = {}  # operator's name -> type key of its attributes, as met in calls


@dataclass(frozen=True)
class Opaque:
    """A TVM object inside an attribute that has no plain form; equal keys mean equal objects."""

    key: object
    text: str
    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Parts:
    """A call taken apart: what is called, its attributes, its operands and their positions."""

    name: str
    attrs: dict[str, object]
    positions: tuple[int, ...]
    operands: tuple[Any, ...]


def _opaque(value: Any) -> Opaque:
    if isinstance(value, tvm.ir.GlobalVar):
        return Opaque(("GlobalVar", str(value.name_hint)), f"@{value.name_hint}", value)
    if isinstance(value, relax.ExternFunc):
        name = str(value.global_symbol)
        return Opaque(("ExternFunc", name), repr(name), value)
    return Opaque(type_key(value), " ".join(str(value).split()), value)


def plain(value: Any) -> object:
    """Return an attribute's value as a plain one; what has no plain form comes as `Opaque`.

    An `IntImm` of int64 or bool and a `FloatImm` of float64 are numbers: the types that
    `tvm.relax.prim_value` gives to Python's numbers.
    """
    if value is None or isinstance(value, bool | int | float | Dim | Opaque):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple | tvm.ir.Array):
        return tuple(plain(item) for item in value)
    if isinstance(value, tvm.tirx.IntImm):
        dtype = str(value.ty)
        if dtype == "bool":
            return bool(value.value)
        return int(value.value) if dtype == "int64" else _opaque(value)
    if isinstance(value, tvm.tirx.FloatImm):
        return float(value.value) if str(value.ty) == "float64" else _opaque(value)
    if isinstance(value, relax.ShapeExpr):
        return tuple(dim_of(item) for item in value.values)
    if isinstance(value, relax.Tuple):
        return tuple(plain(item) for item in value.fields)
    if isinstance(value, tvm.ir.StringImm):
        return str(value.value)
    if isinstance(value, tvm.ir.Expr) and isinstance(value.ty, tvm.ir.PrimType):
        return Dim(type_key(value), str(value))
    if type(value).__name__ == "dtype" or isinstance(value, tvm.ir.PrimType):
        return dtype_text(value) or None
    return _opaque(value)


def from_plain(value: object) -> Any:
    """Return what `plain` read, numbers and tuples left as they are."""
    if isinstance(value, tuple):
        return [from_plain(item) for item in value]
    if isinstance(value, Dim):
        return expr_of(value)
    return value.value if isinstance(value, Opaque) else value


def exact(value: object) -> object:
    """Return a key that tells apart what Python's ``==`` does not: 0, 0.0, -0.0 and False."""
    if isinstance(value, float):
        return ("float", value.hex())
    if isinstance(value, bool):
        return ("bool", value)
    return tuple(exact(item) for item in value) if isinstance(value, tuple) else value


@cache
def argument_names(op_name: str) -> tuple[str, ...]:
    """Return the names of an operator's arguments, as far as TVM declares them."""
    if op_name in _ARGUMENTS:
        return _ARGUMENTS[op_name]
    return tuple(str(argument.name) for argument in tvm.ir.Op.get(op_name).arguments)


def _argument_name(op_name: str, position: int) -> str:
    if op_name == CALL:
        return f"arg{position}"
    names = argument_names(op_name)
    return names[position] if position < len(names) else f"arg{position}"


def attribute_names(op_name: str) -> tuple[str, ...] | None:
    """Return the names of the attribute fields of an operator, None while no call was seen.

    TVM's registry does not know them for every operator (matmul and sum are missing), so they are
    learnt from the calls that `take_apart` reads.
    """
    key = _attrs_type.get(op_name)
    return None if key is None else _fields(key)


@cache
def _fields(attrs_type: str) -> tuple[str, ...]:
    if not attrs_type:
        return ()
    return tuple(str(field.name) for field in _attrs_class[attrs_type].__tvm_ffi_type_info__.fields)


_attrs_class: dict[str, Any] = {}


def holds_no_tensor(expr: Any) -> bool:
    """Whether an argument is a number, a shape, a string, a callee, or a tuple of such."""
    if isinstance(expr, relax.Tuple):
        return len(expr.fields) > 0 and all(holds_no_tensor(field) for field in expr.fields)
    if isinstance(expr, relax.DataflowVar):
        return False
    if isinstance(expr, relax.ShapeExpr | tvm.ir.StringImm | tvm.ir.GlobalVar | relax.ExternFunc):
        return True
    if isinstance(expr, tvm.ir.GenericConst):
        return not isinstance(expr.ty, relax.TensorType)
    if isinstance(expr, relax.TupleGetItem):
        return False
    if isinstance(expr, relax.Call) and not _is_arithmetic(expr):
        return False
    return isinstance(expr.ty, tvm.ir.PrimType)


def _is_arithmetic(call: Any) -> bool:
    return isinstance(call.op, tvm.ir.Op) and not str(call.op.name).startswith("relax.")


def take_apart(call: Any, resolve: Callable[[Any], Any] = lambda expr: expr) -> Parts:
    """Split a call into name, raw attributes and operands.

    Parameters
    ----------
    call : relax.Call
        A call of an operator or of a `GlobalVar`.
    resolve : callable
        Gives the value of a Var that is bound to a shape or a number, and any other expression as
        it is.
    """
    attrs: dict[str, object] = {}
    positions: list[int] = []
    operands: list[Any] = []
    name = str(call.op.name) if isinstance(call.op, tvm.ir.Op) else CALL
    if name == CALL:
        attrs["func"] = plain(call.op)
    for position, argument in enumerate(call.args):
        value = resolve(argument)
        if holds_no_tensor(value):
            attrs[_argument_name(name, position)] = _plain_argument(name, value)
        else:
            positions.append(position)
            operands.append(argument)
    key = "" if call.attrs is None else str(type(call.attrs).__tvm_ffi_type_info__.type_key)
    if name not in _attrs_type or key:
        _attrs_type[name] = key
        _attrs_class[key] = type(call.attrs)
    for field in _fields(key):
        attrs[field] = plain(getattr(call.attrs, field))
    if call.ty_args:
        attrs["ty_args"] = tuple(_opaque(ty) for ty in call.ty_args)
    return Parts(name, attrs, tuple(positions), tuple(operands))


def _plain_argument(op_name: str, value: Any) -> object:
    """Return an argument's value; plain tuples mean shapes, except among those of slices."""
    is_tuple = isinstance(value, relax.Tuple) and op_name != "relax.strided_slice"
    return _opaque(value) if is_tuple else plain(value)


def _argument(op_name: str, value: object) -> Any:
    if isinstance(value, str):
        return tvm.ir.StringImm(value)
    if isinstance(value, tuple):
        if op_name == "relax.strided_slice":
            return relax.Tuple([_argument(op_name, item) for item in value])
        return relax.ShapeExpr(from_plain(value))
    if isinstance(value, bool | int | float):
        return relax.prim_value(value)
    return from_plain(value)


def _int_imms(value: Any) -> Any:
    if isinstance(value, list):
        return [_int_imms(item) for item in value]
    return tvm.tirx.IntImm("int64", value) if isinstance(value, int) else value


def put_together(op_name: str, attrs: Mapping[str, object], operands: Sequence[Any]) -> Any:
    """Build the call that `take_apart` would split into these parts, without its type.

    Raises
    ------
    KeyError
        When an attribute field has no value, or no call of this operator was ever taken apart.
    """
    fields = attribute_names(op_name)
    if fields is None:
        raise KeyError(f"the attributes of {op_name} are not known yet")
    waiting = list(reversed(operands))
    arguments: list[Any] = []
    count = len(operands) + len(attrs.keys() - {*fields, "ty_args"}) - (op_name == CALL)
    for position in range(count):
        argument = _argument_name(op_name, position)
        arguments.append(
            _argument(op_name, attrs[argument]) if argument in attrs else waiting.pop()
        )
    node = None
    if any(field in attrs for field in fields):
        values = {field: from_plain(attrs[field]) for field in fields}
        if op_name == "relax.split":
            # The field holds any object, and inference takes only IntImm in it.
            values["indices_or_sections"] = _int_imms(values["indices_or_sections"])
        node = tvm.ir.make_node(_attrs_type[op_name], **values)
    callee = from_plain(attrs["func"]) if op_name == CALL else tvm.ir.Op.get(op_name)
    ty_args = attrs.get("ty_args", ())
    return relax.Call(callee, arguments, node, [ty.value for ty in ty_args] or None)  # type: ignore[attr-defined]
