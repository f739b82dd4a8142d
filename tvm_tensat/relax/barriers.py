"""What the e-graph must not touch, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import tvm
from tvm import relax

__all__ = ["Callees", "barrier", "is_in_place", "variables"]

_IN_PLACE = {"relax.call_tir_inplace", "relax.call_inplace_packed"}
_KEPT_OPS = {
    "relax.hint_on_device": "places values on devices",
    "relax.to_vdevice": "places values on devices",
    "relax.wrap_param": "marks parameters for other passes",
    "relax.call_py_func": "calls Python, which may have effects",
    "relax.make_closure": "makes a function value",
    "relax.invoke_pure_closure": "calls a function value",
}
_KEPT_PREFIXES = {
    "relax.builtin.": "is an instruction to other passes",
    "relax.memory.": "handles memory",
    "relax.vm.": "handles memory",
    "relax.inspect.": "looks at how a tensor is stored",
    "relax.ccl.": "communicates, in an order that all devices share",
    "relax.dist.": "communicates, in an order that all devices share",
    "relax.grad.start_checkpoint": "is an instruction to other passes",
    "relax.grad.end_checkpoint": "is an instruction to other passes",
    "relax.grad.no_grad": "is an instruction to other passes",
}


class Callees:
    """Which functions of a module write into their arguments, through any chain of calls.

    Parameters
    ----------
    functions : mapping of str to BaseFunc
        The functions of the module by name; those that are missing count as writing nothing.
    """

    def __init__(self, functions: Mapping[str, Any]) -> None:
        called: dict[str, set[str]] = {}
        self._writing: set[str] = set()
        for name, function in functions.items():
            called[name] = set()
            if isinstance(function, relax.Function):
                self._look_into(name, function, called[name])
        grew = True
        while grew:
            more = {name for name, callees in called.items() if callees & self._writing}
            grew = not more <= self._writing
            self._writing |= more

    def _look_into(self, name: str, function: Any, called: set[str]) -> None:
        def visit(expr: Any) -> None:
            if not isinstance(expr, relax.Call):
                return
            if isinstance(expr.op, tvm.ir.GlobalVar):
                called.add(str(expr.op.name_hint))
            elif _op_name(expr) in _IN_PLACE:
                self._writing.add(name)

        relax.analysis.post_order_visit(function, visit)

    def writes(self, callee: Any) -> bool:
        """Whether the function with this `GlobalVar` writes into its arguments."""
        return str(callee.name_hint) in self._writing


def _op_name(call: Any) -> str | None:
    return str(call.op.name) if isinstance(call.op, tvm.ir.Op) else None


def is_in_place(value: Any, callees: Callees) -> bool:
    """Whether an expression is a call that writes into its arguments."""
    if not isinstance(value, relax.Call):
        return False
    if isinstance(value.op, tvm.ir.GlobalVar):
        return callees.writes(value.op)
    return _op_name(value) in _IN_PLACE


@cache
def _kept_op(name: str) -> str | None:
    if not tvm.ir.Op.get(name).get_attr("FPurity"):
        return f"{name} is impure"
    if name in _IN_PLACE:
        return f"{name} writes in place"
    reasons = [why for prefix, why in _KEPT_PREFIXES.items() if name.startswith(prefix)]
    reason = _KEPT_OPS.get(name) or (reasons[0] if reasons else None)
    return None if reason is None else f"{name} {reason}"


def barrier(binding: Any, callees: Callees, training: bool = False) -> str | None:
    """Return why a binding of a dataflow block must stay as and where it is, None if it need not.

    Parameters
    ----------
    binding : relax.Binding
        A binding of a dataflow block.
    callees : Callees
        What is known of the module's functions.
    training : bool
        Whether `nn.dropout` draws random numbers; in inference it passes its operand on.
    """
    if isinstance(binding, relax.MatchCast):
        return "match_cast"
    value = binding.value
    if isinstance(value, relax.Call):
        reason = _kept_call(value, callees, training)
        if reason is not None:
            return reason
    elif not isinstance(value, _REPRESENTABLE):
        return _odd_value(value)
    return _odd_type(value.ty, value)


_REPRESENTABLE = (
    relax.Var,
    relax.Tuple,
    relax.TupleGetItem,
    relax.ShapeExpr,
    tvm.ir.GenericConst,
    tvm.ir.StringImm,
    tvm.tirx.IntImm,
    tvm.tirx.FloatImm,
)


def _odd_value(value: Any) -> str:
    if isinstance(value.ty, tvm.ir.PrimType):
        return "scalar computed in the block"
    return f"value is {type(value).__name__}"


def _kept_call(call: Any, callees: Callees, training: bool) -> str | None:
    if isinstance(call.op, tvm.ir.Op):
        name = str(call.op.name)
        if not name.startswith("relax."):
            return "scalar computed in the block"
        if training and name == "relax.nn.dropout":
            return "relax.nn.dropout is random in training"
        return _kept_op(name)
    if isinstance(call.op, tvm.ir.GlobalVar):
        if callees.writes(call.op):
            return f"function {call.op.name_hint} writes in place"
        if isinstance(call.op.ty, relax.FuncType) and not call.op.ty.purity:
            return f"function {call.op.name_hint} is impure"
        return None
    return "calls a function value"


def _odd_type(ty: Any, value: Any) -> str | None:
    if isinstance(ty, relax.TensorType):
        if ty.vdevice is not None:
            return "tensor on a virtual device"
        return "tensor of unknown rank" if ty.ndim < 0 else None
    if isinstance(ty, relax.TupleType):
        reasons = [_odd_type(field, value) for field in ty.fields]
        return next((reason for reason in reasons if reason is not None), None)
    if isinstance(ty, tvm.ir.PrimType):
        plain = isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm | relax.Tuple)
        return None if plain else "scalar computed in the block"
    if isinstance(ty, relax.ShapeType) or isinstance(value, tvm.ir.StringImm | tvm.ir.GenericConst):
        return None
    return f"value of type {ty}"


def variables(expr: Any) -> Iterator[Any]:
    """Yield the Vars that an expression of normal form uses, functions' free Vars included."""
    stack = [expr]
    while stack:
        at = stack.pop()
        if isinstance(at, relax.Var):
            yield at
        elif isinstance(at, relax.Call):
            stack.extend(at.args)
            if not isinstance(at.op, tvm.ir.Op | tvm.ir.GlobalVar):
                stack.append(at.op)
        elif isinstance(at, relax.Tuple):
            stack.extend(at.fields)
        elif isinstance(at, relax.TupleGetItem):
            stack.append(at.tuple_value)
        elif isinstance(at, relax.Function | relax.SeqExpr | relax.If):
            yield from relax.analysis.free_vars(at)
        elif isinstance(at, relax.ShapeExpr) or isinstance(
            getattr(at, "ty", None), tvm.ir.PrimType
        ):
            yield from _symbols(at)


def _symbols(expr: Any) -> Iterator[Any]:
    parts = expr.values if isinstance(expr, relax.ShapeExpr) else [expr]
    for part in parts:
        if isinstance(part, relax.Var):
            yield part
        elif not isinstance(part, tvm.tirx.IntImm | tvm.tirx.FloatImm):
            yield from tvm.tirx.analysis.undefined_vars(part, [])
