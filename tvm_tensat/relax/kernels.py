"""One operator as a module of its own, to be compiled and timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax

from tvm_tensat.relax.attributes import Opaque
from tvm_tensat.relax.language import RelaxLanguage

__all__ = ["kernel_module"]


def kernel_module(
    language: RelaxLanguage,
    operator: int,
    operand_types: tuple[int, ...],
    functions: Mapping[str, Any] | None = None,
) -> tvm.IRModule:
    """Return a module whose function "main" applies one operator to its parameters.

    A tuple operand becomes one parameter a field, put together inside.

    Parameters
    ----------
    language : RelaxLanguage
        In which operator and types are numbered.
    operator : int
        Any but a leaf or a weight.
    operand_types : tuple of int
        Types of the operands.
    functions : mapping of str to BaseFunc, optional
        The model's functions by name. What the operator calls is taken from here.

    Raises
    ------
    ValueError
        When the operator is a leaf or a weight, or calls a function that is not given.
    """
    op = language.operator(operator)
    if op.name in ("leaf", "weight"):
        raise ValueError(f"{op} is a value from outside the block and has no kernel")
    builder = relax.BlockBuilder()
    parameters: list[Any] = []
    operands = [_operand(language.tvm_type(t), parameters) for t in operand_types]
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(language.call(operator, operands)))
        builder.emit_func_output(result)
    module = builder.finalize()
    for variable, function in _called(op, functions or {}).items():
        module.update_func(variable, function)
    return module


def _operand(ty: Any, parameters: list[Any]) -> Any:
    """Return an expression of a type, its parameters appended."""
    if isinstance(ty, relax.TupleType):
        return relax.Tuple([_operand(field, parameters) for field in ty.fields])
    parameters.append(relax.Var(f"p{len(parameters)}", ty))
    return parameters[-1]


def _called(op: Any, functions: Mapping[str, Any]) -> dict[Any, Any]:
    """Return the functions that an operator calls, directly or through others."""
    waiting = [
        value.value
        for key, value in op.attrs
        if key == "func" and isinstance(value, Opaque) and isinstance(value.value, tvm.ir.GlobalVar)
    ]
    called: dict[Any, Any] = {}
    while waiting:
        variable = waiting.pop()
        if variable in called:
            continue
        name = str(variable.name_hint)
        if name not in functions:
            raise ValueError(
                f"{op.name} calls @{name}, which is not among the given functions "
                f"({', '.join(sorted(functions)) or 'none'}); pass the model's functions"
            )
        called[variable] = functions[name]
        if isinstance(functions[name], relax.Function):

            def visit(expr: Any) -> None:
                if isinstance(expr, relax.Call):
                    callees = [expr.op, *expr.args]
                    waiting.extend(c for c in callees if isinstance(c, tvm.ir.GlobalVar))

            relax.analysis.post_order_visit(functions[name], visit)
    return called
