"""What the tests of reading and writing share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import FunctionPlan, plan_function
from tvm_tensat.relax.reader import ReadSegment, read_segment
from tvm_tensat.relax.writer import rebuild, write_segment


class Nodes:
    """The least that can stand for an e-graph: every e-node is a class of its own."""

    def __init__(self) -> None:
        self.number: dict[tuple[int, tuple[int, ...]], int] = {}
        self.types: list[int] = []

    def add(self, operator: int, children: Sequence[int], type: int) -> int:
        node = (operator, tuple(children))
        if node not in self.number:
            self.number[node] = len(self.types)
            self.types.append(type)
        assert self.types[self.number[node]] == type, "one e-node, two types"
        return self.number[node]

    @property
    def choice(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        return {number: node for node, number in self.number.items()}


def read(function: Any, module: Any = None) -> tuple[FunctionPlan, list[tuple[ReadSegment, Nodes]]]:
    """Plan a function and read each of its segments into its own nodes."""
    functions = {} if module is None else named(module)
    plan = plan_function(function, functions)
    language = RelaxLanguage()
    return plan, [
        (read_segment(segment, language, nodes), nodes)
        for segment in plan.segments
        for nodes in [Nodes()]
    ]


def named(module: Any) -> dict[str, Any]:
    return {str(gv.name_hint): function for gv, function in module.functions_items()}


def round_trip(module: Any) -> Any:
    """Read and write every Relax function of a module, nothing rewritten."""
    new = module.clone()
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            plan, segments = read(function, module)
            written = {r.segment: write_segment(r, nodes.choice) for r, nodes in segments}
            new.update_func(variable, rebuild(plan, written))
    relax.analysis.well_formed(new)
    return new


canonicalize = tvm.transform.Sequential(
    [relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination()]
)
"""TVM's normal form of bindings; DeadCodeElimination because dead bindings are not written."""


def assert_same(left: Any, right: Any) -> None:
    tvm.ir.assert_structural_equal(canonicalize(left), canonicalize(right), map_free_vars=True)


def bindings(function: Any) -> list[Any]:
    return [binding for block in function.body.blocks for binding in block.bindings]


def by_name(function: Any) -> dict[str, Any]:
    return {str(binding.var.name): binding for binding in bindings(function)}


def terms(function: Any, table: dict[object, int]) -> tuple[dict[Any, int], int]:
    """Number the term that each Var of a straight-line function stands for, and the result's.

    Functions with equal numbers in one table compute the same terms. This reads Relax by itself,
    without the code under test.
    """
    known: dict[Any, int] = {v: _number(table, ("param", v.name)) for v in function.params}

    def term(expr: Any) -> int:
        if isinstance(expr, relax.Var):
            return known[expr]
        if isinstance(expr, tvm.ir.GenericConst):
            array = expr.value.numpy()
            return _number(table, (str(array.dtype), array.shape, array.tobytes()))
        if isinstance(expr, relax.Tuple):
            return _number(table, ("tuple", *(term(f) for f in expr.fields)))
        if isinstance(expr, relax.TupleGetItem):
            return _number(table, ("get", int(expr.index), term(expr.tuple_value)))
        if isinstance(expr, relax.Call):
            attrs = None if expr.attrs is None else tvm_ffi.StructuralKey(expr.attrs)
            return _number(table, (expr.op.name, attrs, *(term(a) for a in expr.args)))
        return _number(table, tvm_ffi.StructuralKey(expr))

    for binding in bindings(function):
        known[binding.var] = term(binding.value)
    return known, term(function.body.body)


def _number(table: dict[object, int], key: object) -> int:
    return table.setdefault(key, len(table))


def module_of(build: Callable[..., Any], *types: Any) -> Any:
    """Return a module whose "main" has one dataflow block with one call of `build`."""
    parameters = [relax.Var(f"p{i}", ty) for i, ty in enumerate(types)]
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(build(*parameters)))
        builder.emit_func_output(result)
    return builder.finalize()


def run(module: Any, *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Compile for LLVM and run "main"; tuples of results come flat."""
    executable = tvm.compile(module, tvm.target.Target("llvm"))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return flat(machine["main"](*[tvm.runtime.tensor(array) for array in arrays]))


def flat(result: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    if isinstance(result, np.ndarray):
        return [result]
    return [array for part in result for array in flat(part)]


def tensor(*shape: Any, dtype: str = "float32") -> Any:
    return relax.TensorType(shape, dtype)
