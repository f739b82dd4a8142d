"""Computation on weights, done at compile time.

TVM's own FoldConstant compiles and runs an unscheduled kernel for each such binding (9 s for a
product of two 1024x1024 matrices); here numpy computes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr import _update_type

from tvm_tensat.egraph.language import Operator, Refusal, TensorInfo, TupleInfo, TypeInfo
from tvm_tensat.relax.barriers import Callees, variables
from tvm_tensat.relax.evaluate import Value, evaluate
from tvm_tensat.relax.foldable import is_foldable
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import FunctionPlan, Segment, plan_function
from tvm_tensat.relax.weights import array_of
from tvm_tensat.relax.writer import rebuild

__all__ = ["fold_weights"]

_LARGE_BYTES = 1 << 16
_SPREADING = ("relax.full", "relax.zeros", "relax.ones", "relax.broadcast_to")


def fold_weights(target: Any) -> Any:
    """Compute what depends on constants only, and put the results in as constants.

    Operators that only spread a smaller value (`full`, `broadcast_to`) over more than 64 KiB are
    kept where their result is used as it is, and computed where a folded operator needs it.
    Functions that are another compiler's or fused already (attributes Primitive, Codegen,
    Composite) stay as they are.

    Parameters
    ----------
    target : IRModule or relax.Function
        In normal form. It is not changed.

    Returns
    -------
    IRModule or relax.Function
        Of the same type as `target`.
    """
    if isinstance(target, relax.Function):
        return _fold_function(target, Callees({}))
    callees = Callees({str(gv.name_hint): function for gv, function in target.functions_items()})
    folded = target.clone()
    for variable, function in target.functions_items():
        if isinstance(function, relax.Function) and not _is_compiled_elsewhere(function):
            folded.update_func(variable, _fold_function(function, callees))
    return folded


def _is_compiled_elsewhere(function: Any) -> bool:
    attrs = function.attrs or {}
    return any(name in attrs for name in ("Primitive", "Codegen", "Composite"))


def _fold_function(function: Any, callees: Callees) -> Any:
    plan = plan_function(function, callees)
    return rebuild(plan, _Folder(plan).fold())


class _Folder:
    """Which Vars of a function have values at compile time, and what replaces them."""

    def __init__(self, plan: FunctionPlan) -> None:
        self._plan = plan
        self._language = RelaxLanguage()
        self._values: dict[Any, Value] = {}
        self._operators: dict[Any, Operator] = {}
        self._constants: dict[Any, Any] = {}

    def fold(self) -> dict[Segment, list[Any]]:
        segments = self._plan.segments
        for segment in segments:
            live = _live(segment)
            for binding in segment.bindings:
                if binding.var in live:
                    self._compute(binding)
        if not self._values:
            return {}
        return {segment: self._emit(segment) for segment in segments}

    # -- computing -----------------------------------------------------------------------------

    def _compute(self, binding: Any) -> None:
        try:
            value, operator = self._value(binding.value)
        except Refusal:
            return
        if _fits(value, self._language.info(self._language.intern_type(binding.var.ty))):
            self._values[binding.var] = value
            if operator is not None:
                self._operators[binding.var] = operator

    def _value(self, expr: Any) -> tuple[Value, Operator | None]:
        """Return an expression's value and the operator that gave it, or refuse."""
        if isinstance(expr, relax.Var) and expr in self._values:
            return self._values[expr], self._operators.get(expr)
        if isinstance(expr, tvm.ir.GenericConst) and isinstance(expr.ty, relax.TensorType):
            return array_of(expr), None
        if isinstance(expr, relax.Tuple):
            return tuple(self._value(field)[0] for field in expr.fields), None
        if isinstance(expr, relax.TupleGetItem):
            return self._value(expr.tuple_value)[0][int(expr.index)], None  # type: ignore[return-value]
        if not isinstance(expr, relax.Call) or not isinstance(expr.op, tvm.ir.Op):
            raise Refusal("no weight")
        number, _, parts = self._language.read(expr)
        operator = self._language.operator(number)
        if not is_foldable(operator):
            raise Refusal(f"{operator.name} is not computed at compile time")
        operands = [self._value(operand)[0] for operand in parts.operands]
        return evaluate(operator, operands), operator

    # -- emitting ------------------------------------------------------------------------------

    def _emit(self, segment: Segment) -> list[Any]:
        """Return the segment's bindings, computed ones only where they are needed."""
        needed = set(segment.outputs)
        emitted: list[Any] = []
        for binding in reversed(segment.bindings):
            var = binding.var
            if var in self._values and var not in needed:
                continue
            if var in self._values and not self._is_kept(var):
                new = relax.VarBinding(var, self._constant(var), binding.span)
            else:
                value = self._replaced(binding.value)
                same = value.same_as(binding.value)
                new = binding if same else relax.VarBinding(var, value, binding.span)
            needed.update(variables(new.value))
            emitted.append(new)
        emitted.reverse()
        return emitted

    def _is_kept(self, var: Any) -> bool:
        """Whether a computed Var keeps its binding, because it only spreads a smaller value."""
        operator = self._operators.get(var)
        value = self._values[var]
        if operator is None or isinstance(value, tuple) or operator.name not in _SPREADING:
            return False
        return value.nbytes > _LARGE_BYTES and 0 in value.strides

    def _constant(self, var: Any) -> Any:
        if var not in self._constants:
            self._constants[var] = _expression(self._values[var], var.ty)
        return self._constants[var]

    def _replaced(self, expr: Any) -> Any:
        """Return an expression with the Vars replaced that have become constants."""
        if isinstance(expr, relax.Var):
            return expr if expr not in self._values or self._is_kept(expr) else self._constant(expr)
        if isinstance(expr, relax.Tuple):
            fields = [self._replaced(field) for field in expr.fields]
            if all(new.same_as(old) for new, old in zip(fields, expr.fields, strict=True)):
                return expr
            return relax.Tuple(fields, expr.span)
        if isinstance(expr, relax.TupleGetItem):
            if isinstance(expr.tuple_value, relax.Var) and expr.tuple_value in self._values:
                # a tuple of which one field could be computed and the binding refused
                return relax.TupleGetItem(self._replaced(expr.tuple_value), expr.index, expr.span)
            return expr
        if isinstance(expr, relax.Call):
            arguments = [self._replaced(argument) for argument in expr.args]
            if all(new.same_as(old) for new, old in zip(arguments, expr.args, strict=True)):
                return expr
            call = relax.Call(expr.op, arguments, expr.attrs, expr.ty_args, expr.span)
            _update_type(call, expr.ty)
            return call
        return expr


def _live(segment: Segment) -> set[Any]:
    """Return the Vars of a segment on which its outputs depend."""
    live = set(segment.outputs)
    for binding in reversed(segment.bindings):
        if binding.var in live:
            live.update(variables(binding.value))
    return live


def _fits(value: Value, info: TypeInfo) -> bool:
    """Whether a value has the shape and dtype that TVM infers."""
    if isinstance(value, tuple):
        return isinstance(info, TupleInfo) and all(map(_fits, value, info.fields))
    if not isinstance(info, TensorInfo):
        return False
    return info.shape == value.shape and info.dtype == value.dtype.name


def _expression(value: Value, ty: Any) -> Any:
    if isinstance(value, tuple):
        return relax.Tuple([_expression(v, t) for v, t in zip(value, ty.fields, strict=True)])
    return relax.const(np.ascontiguousarray(value).reshape(value.shape), value.dtype.name)
