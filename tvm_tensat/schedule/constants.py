"""The pass that packs constant weights at compile time."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, s_tir, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from . import conv2d, matmul, tile
from .contraction import read_index
from .machine import vector_unit
from .packing import WeightOrder, parameter_of, weight_order


def packed_kernel(
    func: tirx.PrimFunc, target: tvm.target.Target
) -> tuple[int, WeightOrder, tirx.PrimFunc] | None:
    """Return which parameter of a kernel to pack, how, and the kernel that takes it so.

    None where the kernel is no product or convolution, or its weight is not a parameter.
    """
    unit = vector_unit(target)
    for family in (conv2d, matmul):
        try:
            trial = s_tir.Schedule(func)
            stages, c = family.prepare(trial)
            at = parameter_of(trial.mod["main"], c)
            if at is None:
                return None
            moved = tile.row_is_innermost(stages, c)
            chosen = tile.choose(c, unit, rows_innermost=moved)
            order = weight_order(trial, stages.anchor, c, chosen.columns)
            name = trial.get(stages.anchor).name_hint
            sch = s_tir.Schedule(func)
            block = sch.get_sblock(name)
            sch.transform_layout(block, ("read", read_index(sch, block, c.weight)), order.index_map())
            return at, order, sch.mod["main"]
        except Exception:
            continue
    return None


@mutator
class _Packer(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, target: tvm.target.Target) -> None:
        super().__init__(mod)
        self.mod_ = mod
        self.target = target
        self.kernels: dict[str, Any] = {}
        self.constants: dict[Any, Any] = {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if str(getattr(call.op, "name", "")) != "relax.call_tir":
            return call
        callee, args = call.args[0], call.args[1]
        func = self.mod_[callee]
        if not isinstance(func, tirx.PrimFunc) or func.attrs.get("tirx.is_scheduled"):
            return call
        if not isinstance(args, relax.Tuple) or not any(_is_constant(a) for a in args.fields):
            return call
        name = callee.name_hint
        if name not in self.kernels:
            found = packed_kernel(func, self.target)
            if found is not None:
                at, order, packed = found
                packed = packed.without_attr("global_symbol") if "global_symbol" in packed.attrs else packed
                found = (at, order, self.builder_.add_func(packed, f"{name}_packed"))
            self.kernels[name] = found
        found = self.kernels[name]
        if found is None or not _is_constant(args.fields[found[0]]):
            return call
        at, order, packed_var = found
        fields = list(args.fields)
        fields[at] = self._packed(fields[at], order)
        return relax.Call(
            call.op, [packed_var, relax.Tuple(fields), *call.args[2:]], call.attrs, call.ty_args
        )

    def _packed(self, constant: Any, order: WeightOrder) -> Any:
        key = (constant, str(order))
        for old, text, new in self.constants.get(key[1], []):
            if old.same_as(constant):
                return new
        new = relax.const(order.pack(constant.value.numpy()))
        self.constants.setdefault(key[1], []).append((constant, key[1], new))
        return new


def _is_constant(expr: Any) -> bool:
    return isinstance(expr, tvm.ir.GenericConst)


@tvm.transform.module_pass(opt_level=0, name="PackConstantWeights")
class PackConstantWeights:
    """Reorder the constant weights of products and convolutions for their kernels."""

    def __init__(self, target: tvm.target.Target) -> None:
        self.target = target

    def transform_module(
        self, mod: tvm.ir.IRModule, _ctx: tvm.transform.PassContext
    ) -> tvm.ir.IRModule:
        """Return the module with packed constants and the kernels that read them."""
        packer = _Packer(mod, self.target)
        for var, func in mod.functions_items():
            if isinstance(func, relax.Function):
                packer.builder_.update_func(var, packer.visit_expr(func))
        return packer.builder_.get()
