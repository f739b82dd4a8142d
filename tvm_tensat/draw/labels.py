"""What is written on boxes: operators and types in few letters."""

from __future__ import annotations

from collections.abc import Iterable

from tvm_tensat.egraph.language import Language, Operator, TensorInfo, TupleInfo, TypeInfo

_MOST_LETTERS = 30
_DULL = ("out_dtype", "out_layout", "data_layout", "kernel_layout")  # attributes not shown
_SHORTER = {"indices_or_sections": "at"}


def operator_lines(language: Language, number: int) -> tuple[str, ...]:
    """Return an operator's name, and below it its attributes."""
    operator = language.operator(number)
    if operator.name in ("leaf", "weight"):
        return (_source_name(language, operator, number),)
    if operator.name == "scalar":
        return (f"{operator['value']:g}",)
    if operator.name == "get":
        return (f"[{operator['index']}]",)
    name, attrs = short_name(operator.name), attribute_line(operator.attrs)
    return (name, attrs) if attrs else (name,)


def short_name(name: str) -> str:
    """Return an operator's name without its family: ``conv2d`` for ``relax.nn.conv2d``."""
    return name.removeprefix("relax.").removeprefix("nn.")


def attribute_line(attrs: Iterable[tuple[str, object]]) -> str:
    """Return attributes in one line, without layouts and cut where it gets long."""
    shown = [
        f"{_SHORTER.get(key, key)}={_value(value)}" for key, value in attrs if key not in _DULL
    ]
    line = ", ".join(shown)
    return line if len(line) <= _MOST_LETTERS else line[: _MOST_LETTERS - 1] + "…"


def type_text(info: TypeInfo) -> str:
    """Return a type as ``64×32``, with the dtype only where it is not float32."""
    if isinstance(info, TupleInfo):
        return "(" + ", ".join(map(type_text, info.fields)) + ")"
    if not isinstance(info, TensorInfo) or info.shape is None:
        return str(info)
    shape = "×".join(map(str, info.shape)) or "number"
    return shape if info.dtype == "float32" else f"{shape} {info.dtype}"


def _source_name(language: Language, operator: Operator, number: int) -> str:
    """Return the name of the variable behind a leaf, in languages that have such."""
    expression = language.call(number, ()) if hasattr(language, "call") else None
    return str(getattr(expression, "name", None) or f"{operator.name} {operator['id']}")


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_value, value)) + ")"
    return str(value)
