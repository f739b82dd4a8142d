"""The pass that packs constant weights at compile time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, s_tir, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.s_tir import Schedule

from . import conv2d, matmul
from .choice import choose, row_is_innermost
from .contraction import Contraction, read_index
from .machine import VectorUnit, vector_unit
from .packing import WeightOrder, parameter_of, weight_order
from .stages import NotSchedulable, Stages

logger = logging.getLogger(__name__)

Prepare = Callable[[Schedule, VectorUnit], tuple[Stages, Contraction]]


@dataclass(frozen=True)
class PackedKernel:
    """A kernel that takes one of its parameters packed.

    Attributes
    ----------
    parameter : int
        Position of the parameter.
    order : WeightOrder
        The order in which the kernel takes it.
    func : tirx.PrimFunc
        The kernel.
    """

    parameter: int
    order: WeightOrder
    func: tirx.PrimFunc


def packed_kernel(func: tirx.PrimFunc, target: tvm.target.Target) -> PackedKernel | None:
    """Return the form of a kernel that takes its weight packed.

    None where the kernel is no product or convolution, or its weight is not a parameter.
    """
    unit = vector_unit(target)
    return _pack(func, unit, conv2d.prepare) or _pack(func, unit, matmul.prepare)


def _pack(func: tirx.PrimFunc, unit: VectorUnit, prepare: Prepare) -> PackedKernel | None:
    try:
        trial = s_tir.Schedule(func)
        stages, c = prepare(trial, unit)
        parameter = parameter_of(trial.mod["main"], c)
        if parameter is None:
            return None
        order = weight_order(
            trial,
            stages.anchor,
            c,
            choose(c, unit, moved=row_is_innermost(stages, c)).columns,
        )
        sch = s_tir.Schedule(func)
        anchor = sch.get_sblock(trial.get(stages.anchor).name_hint)
        weight = ("read", read_index(sch, anchor, c.weight))
        sch.transform_layout(anchor, weight, order.index_map())
    except NotSchedulable as reason:
        logger.debug("not packed: %s", reason)
        return None
    except Exception as error:  # TVM's primitives refuse with many types of exception
        logger.debug("not packed: %s", error)
        return None
    return PackedKernel(parameter, order, sch.mod["main"])


@mutator
class _Packer(PyExprMutator):  # type: ignore[misc]
    """Replace calls of kernels that have a packed form and a constant weight."""

    def __init__(self, mod: tvm.ir.IRModule, target: tvm.target.Target) -> None:
        super().__init__(mod)
        self.source = mod
        self.target = target
        self.kernels: dict[str, tuple[PackedKernel, Any] | None] = {}
        self.packed: list[tuple[Any, WeightOrder, Any]] = []

    def visit_call_(self, call: Any) -> Any:
        """Visit one call; see `PyExprMutator`."""
        call = self.visit_expr_post_order(call)
        if str(getattr(call.op, "name", "")) != "relax.call_tir":
            return call
        callee, args = call.args[0], call.args[1]
        if not isinstance(args, relax.Tuple) or not any(map(_is_constant, args.fields)):
            return call
        kernel = self._kernel(callee)
        if kernel is None or not _is_constant(args.fields[kernel[0].parameter]):
            return call
        fields = list(args.fields)
        parameter = kernel[0].parameter
        fields[parameter] = self._constant(fields[parameter], kernel[0].order)
        new_args = [kernel[1], relax.Tuple(fields), *call.args[2:]]
        return relax.Call(call.op, new_args, call.attrs, call.ty_args)

    def _kernel(self, callee: Any) -> tuple[PackedKernel, Any] | None:
        """Return a callee's packed form and its name in the new module, made once."""
        name = str(callee.name_hint)
        if name not in self.kernels:
            self.kernels[name] = None
            func = self.source[callee]
            if isinstance(func, tirx.PrimFunc) and not func.attrs.get("tirx.is_scheduled"):
                kernel = packed_kernel(func, self.target)
                if kernel is not None:
                    new = self.builder_.add_func(kernel.func, f"{name}_packed")
                    self.kernels[name] = (kernel, new)
        return self.kernels[name]

    def _constant(self, constant: Any, order: WeightOrder) -> Any:
        """Return a packed constant, the same one for the same weight."""
        for weight, known_order, new in self.packed:
            if weight.same_as(constant) and known_order == order:
                return new
        new = relax.const(order.pack(constant.value.numpy()))
        self.packed.append((constant, order, new))
        return new


def _is_constant(expr: Any) -> bool:
    return isinstance(expr, tvm.ir.GenericConst)


@tvm.transform.module_pass(opt_level=0, name="tvm_tensat.schedule.PackConstantWeights")
class PackConstantWeights:
    """Reorder the constant weights of products and convolutions for their kernels.

    Parameters
    ----------
    target : tvm.target.Target
        The CPU target whose vectors decide the order.
    """

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
