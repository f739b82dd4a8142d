"""A Relax function as boxes: one for each parameter, binding and result."""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_tensat.draw.graph import Cell
from tvm_tensat.draw.labels import short_name, type_text
from tvm_tensat.relax.attributes import take_apart
from tvm_tensat.relax.barriers import variables
from tvm_tensat.relax.types import describe, type_key
from tvm_tensat.relax.weights import array_of


@dataclass(frozen=True)
class Step:
    """A box of a program.

    Parameters
    ----------
    cell : Cell
        As it is drawn when nothing is to be said about it.
    operands : tuple of int
        Positions of the steps that it uses, in order.
    likeness : hashable
        Equal for two steps that do the same with their operands.
    """

    cell: Cell
    operands: tuple[int, ...]
    likeness: Hashable


def read_program(program: tvm.IRModule | relax.Function, name: str) -> tuple[Step, ...]:
    """Read a function, constants as text in the boxes that use them.

    Parameters
    ----------
    program : IRModule or relax.Function
        In normal form.
    name : str
        Of the function, in a module.

    Raises
    ------
    ValueError
        When the module has no Relax function of this name.
    """
    function = program
    if isinstance(program, tvm.IRModule):
        known = {v.name_hint: f for v, f in program.functions_items()}
        function = known.get(name)
    if not isinstance(function, relax.Function):
        raise ValueError(f"there is no Relax function {name!r} in what should be drawn")
    return tuple(_Reader(function).steps)


class _Reader:
    """The state of one reading: the step of each Var so far."""

    def __init__(self, function: relax.Function) -> None:
        self.steps: list[Step] = []
        self.step_of: dict[Any, int] = {}
        for parameter in function.params:
            lines = parameter.name, type_text(describe(parameter.ty))
            self.add(parameter, lines, "source", [], ("input", *lines), "")
        for block in function.body.blocks:
            for binding in block.bindings:
                self.read(binding)
        results = function.body.body
        fields = results.fields if isinstance(results, relax.Tuple) else [results]
        for number, field in enumerate(fields):
            name = "result" if len(fields) == 1 else f"result {number}"
            used = [var for var in variables(field) if var in self.step_of]
            self.add(None, (name,), "source", used, ("result", number), "")

    def add(
        self,
        var: Any,
        lines: tuple[str, ...],
        role: str,
        operands: list[Any],
        likeness: Hashable,
        title: str,
    ) -> None:
        """Add a step; `operands` are Vars."""
        number = len(self.steps)
        name = lines[0] if var is None else f"{number} {var.name}"
        used = tuple(self.step_of[operand] for operand in operands)
        self.steps.append(Step(Cell(name, lines, role, title), used, likeness))
        if var is not None:
            self.step_of[var] = number

    def read(self, binding: Any) -> None:
        """Read one binding."""
        var, value = binding.var, binding.value
        attrs: list[tuple[str, object]] = []
        if isinstance(binding, relax.MatchCast):
            name, operands = "match_cast", [value]
        elif isinstance(value, relax.Var) and value in self.step_of:
            self.step_of[var] = self.step_of[value]  # another name for the same
            return
        else:
            name, attrs, operands = _parts(value)
        info = describe(var.ty)
        flat = [leaf for operand in operands for leaf in _leaves(operand)]
        weights = [leaf for leaf in flat if isinstance(leaf, tvm.ir.GenericConst)]
        used = [leaf for leaf in flat if isinstance(leaf, relax.Var) and leaf in self.step_of]
        texts = [_constant_text(weight) for weight in weights]
        lines = [name, type_text(info)]
        if texts:
            lines.append("with " + ", ".join(texts[:3]) + (", …" if len(texts) > 3 else ""))
        title = f"{var.name} = {name}({', '.join(f'{k}={v}' for k, v in attrs)})"
        operand_types = tuple(str(describe(leaf.ty)) for leaf in used)
        same = (name, str(attrs), str(info), operand_types, *map(_content, weights))
        self.add(var, tuple(lines), "plain", used, same, title)


def _parts(value: Any) -> tuple[str, list[tuple[str, object]], list[Any]]:
    """Take a bound value apart: the name to show, attributes, operands."""
    if isinstance(value, relax.TupleGetItem):
        return f"[{value.index}]", [], [value.tuple_value]
    if isinstance(value, relax.Tuple):
        return "tuple", [], list(value.fields)
    if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op):
        parts = take_apart(value)
        operands = [leaf for operand in parts.operands for leaf in _leaves(operand)]
        callee = value.args[0] if value.args else None
        foreign = isinstance(callee, tvm.ir.GlobalVar | relax.ExternFunc)
        name = f"{short_name(parts.name)} {_callee(callee)}" if foreign else short_name(parts.name)
        return name, list(parts.attrs.items()), operands
    if isinstance(value, relax.Call):
        return _callee(value.op), [], list(value.args)
    name = {relax.If: "if", relax.ShapeExpr: "shape"}.get(type(value), "value")
    return name, [("is", type_key(value))], list(variables(value))


def _callee(callee: Any) -> str:
    return str(getattr(callee, "name_hint", None) or getattr(callee, "global_symbol", "call"))


def _leaves(operand: Any) -> list[Any]:
    """Return an operand, or the fields of one that is a tuple written in place."""
    if isinstance(operand, relax.Tuple):
        return [leaf for field in operand.fields for leaf in _leaves(field)]
    return [operand]


def _constant_text(constant: Any) -> str:
    info = describe(constant.ty)
    array = array_of(constant)
    return f"{array.item():g}" if array.ndim == 0 else type_text(info)


def _content(constant: Any) -> tuple[str, int]:
    array = array_of(constant)
    return str(describe(constant.ty)), zlib.crc32(array.tobytes())
