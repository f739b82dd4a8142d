"""Both sides of a law in Relax, compiled by TVM and run.

They are compiled operator by operator, without fusion, fast-math or fused multiply-add, so that
the same floating-point operations give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from tvm_tensat.egraph.rule import Term
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.verify.example import Applied, Example, tensors
from tvm_tensat.verify.values import draw

Array = NDArray[Any]

TARGET = {"kind": "llvm", "opt-level": 0}  # for speed of compilation


def both_sides(applied: Applied) -> tvm.IRModule:
    """Return a module whose ``main`` computes the tuple of what was sought and of what replaces it.

    One function, because symbolic dimensions belong to one. TVM merges nothing between the sides.

    Raises
    ------
    ValueError
        When TVM infers another type for a term than it had for the rule, or finds the module
        ill-formed.
    """
    builder = relax.BlockBuilder()
    expressions = [_as_parameter(e, k) for k, e in enumerate(applied.expressions)]
    known = {id(v): e for v, e in zip(applied.variables, expressions, strict=True)}
    with builder.function("main", _parameters(expressions)):
        with builder.dataflow():
            sides = [
                relax.Tuple([_emit(builder, applied.language, term, known) for term in terms])
                for terms in (applied.sources, applied.targets)
            ]
            out = builder.emit_output(relax.Tuple(sides))
        builder.emit_func_output(out)
    module = builder.finalize()
    relax.analysis.well_formed(module)
    for sought, made in zip(applied.sources, applied.targets, strict=True):
        tvm.ir.assert_structural_equal(
            applied.language.tvm_type(sought.type), applied.language.tvm_type(made.type)
        )
    return module


def _as_parameter(expression: Any, number: int) -> Any:
    """Return a variable for a constant: not every constant can be read back from text."""
    if isinstance(expression, tvm.ir.GenericConst):
        return relax.Var(f"x{number}", expression.ty)
    return expression


def _parameters(expressions: Sequence[Any]) -> list[Any]:
    leaves = [
        leaf
        for expression in expressions
        for leaf in (expression.fields if isinstance(expression, relax.Tuple) else [expression])
    ]
    return [leaf for leaf in leaves if isinstance(leaf, relax.Var)]


def _emit(
    builder: relax.BlockBuilder, language: RelaxLanguage, term: Term, known: dict[int, Any]
) -> Any:
    if id(term) not in known:
        operands = [_emit(builder, language, operand, known) for operand in term.operands]
        emitted = builder.emit(language.call(term.operator, operands))
        tvm.ir.assert_structural_equal(emitted.ty, language.tvm_type(term.type))
        known[id(term)] = emitted
    return known[id(term)]


def inputs(example: Example, special: bool, seed: int) -> list[Array]:
    """Draw a value for each parameter of ``main``."""
    generator = np.random.default_rng(seed)
    return [draw(generator, operand, special) for operand in tensors(example.operands)]


def compile_plainly(module: tvm.IRModule) -> Any:
    """Compile for speed of compilation: checks of arguments alone would take most of the time."""
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        return tvm.compile(module, tvm.target.Target(TARGET))


def run(module: tvm.IRModule, values: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Compile and run both sides; return the results of each."""
    machine = relax.VirtualMachine(compile_plainly(module), tvm.cpu())
    sought, made = machine["main"](*(tvm.runtime.tensor(value) for value in values))
    return outputs_of(sought), outputs_of(made)


def outputs_of(result: Any) -> list[Array]:
    """Return the tensors of a result, those of tuples one by one."""
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    return [array for field in result for array in outputs_of(field)]
