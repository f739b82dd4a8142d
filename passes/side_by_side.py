"""Several forms of one module, built as functions of one module.

Kernels that the forms share are built once, and are the same code in each of them: the build takes
less time than one for each form, and a race compares only what differs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr import _update_type
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.relax.utils import copy_with_new_vars

from tvm_tensat.passes.hardware import Hardware
from tvm_tensat.passes.kernels import build_with_kernels_apart
from tvm_tensat.schedule import build_pipeline
from tvm_tensat.schedule.machine import is_cpu

Arguments = Sequence[tvm.runtime.Tensor]
Runner = Callable[[], Any]  # runs one function on arguments that were given before
Timer = Callable[[int], float]  # runs it so many times; seconds of one run


@dataclass(frozen=True)
class Form:
    """One of several forms of a module, built and loaded.

    Attributes
    ----------
    machine : relax.VirtualMachine
        Of all the forms.
    names : dict of str to str
        For each function of the form its name in `machine`.
    inputs : dict of str to int
        For functions that mark parameters as weights by ``num_input``, how many are none.
    hardware : Hardware
        Where it runs.
    """

    machine: relax.VirtualMachine
    names: dict[str, str]
    inputs: dict[str, int]
    hardware: Hardware

    def runner(self, function: str, arguments: Arguments) -> Runner:
        """Return a call of a function without its preparation: weights are transformed here."""
        name, given = self.names[function], list(arguments)
        if self.hardware.session is not None:
            # Arguments go to the device once; results are asked for one by one, for a tuple of
            # them cannot be sent.
            self.machine.set_input(name, *given)
            return lambda: self._run_there(name)
        if function in self.inputs:
            count = self.inputs[function]
            given[count:] = self.machine[f"{name}_transform_params"](given[count:])
        call = self.machine[name]
        return lambda: call(*given)

    def timer(self, function: str, arguments: Arguments) -> Timer:
        """Return a clock for calls of a function, which takes how many to time."""
        run, device = self.runner(function, arguments), self.hardware.device
        if self.hardware.session is None:
            return lambda number: _seconds(run, device, number)
        name = self.names[function]

        def time_there(number: int) -> float:
            # The device times itself: a call over the network may take longer than what it calls.
            evaluate = self.machine.time_evaluator("invoke_stateful", device, number=number)
            return float(evaluate(name).mean)

        return time_there

    def _run_there(self, name: str) -> Any:
        self.machine.invoke_stateful(name)
        return self.machine.get_outputs(name)


def build(
    modules: Mapping[str, tvm.IRModule],
    target: tvm.target.Target,
    tuning_records: Path | None,
    hardware: Hardware,
) -> dict[str, Form]:
    """Build forms of one module with the pipeline that users deploy, and load them.

    Parameters
    ----------
    modules : dict of str to tvm.IRModule
        Forms by name; all have the same functions.
    target : tvm.target.Target
    tuning_records : Path or None
        Directory of MetaSchedule records.
    hardware : Hardware
        Where code for the target runs.
    """
    first = next(iter(modules.values()))
    union = tvm.IRModule({}, attrs=first.attrs)
    names = {form: _add(union, module) for form, module in modules.items()}
    if any(weights_start(function) is not None for function in union.functions.values()):
        union = relax.transform.LiftTransformParams()(union)
    lowered = build_pipeline(target, tuning_records)(union)
    if is_cpu(target):
        executable = build_with_kernels_apart(lowered, target)
    else:
        executable = relax.build(lowered, target, relax_pipeline=None)
    machine = hardware.load(executable)
    inputs = {
        variable.name_hint: count
        for variable, function in first.functions_items()
        if (count := weights_start(function)) is not None
    }
    return {form: Form(machine, known, inputs, hardware) for form, known in names.items()}


def _seconds(run: Runner, device: tvm.runtime.Device, number: int) -> float:
    """Time so many calls, and return the seconds of one."""
    device.sync()
    began = time.perf_counter()
    for _ in range(number):
        run()
    device.sync()
    return (time.perf_counter() - began) / number


def weights_start(function: Any) -> int | None:
    """Return ``num_input`` of a Relax function that has it and weights after it."""
    if not isinstance(function, relax.Function) or not function.attrs:
        return None
    count = function.attrs.get("num_input")
    return None if count is None or int(count) >= len(function.params) else int(count)


def _add(union: tvm.IRModule, module: tvm.IRModule) -> dict[str, str]:
    """Add a module's functions under names that are free; return the new name of each.

    Kernels that are there already, the same object under the same name, stay shared.
    """
    taken = {variable.name_hint: variable for variable in union.functions}
    renamed: dict[tvm.ir.GlobalVar, tvm.ir.GlobalVar] = {}
    for variable, function in module.functions_items():
        name = variable.name_hint
        if name in taken and union[taken[name]].same_as(function):
            renamed[variable] = taken[name]
            continue
        number = 1
        while name in taken:
            number += 1
            name = f"{variable.name_hint}_form_{number}"
        renamed[variable] = taken[name] = _typed(tvm.ir.GlobalVar(name), variable.ty)
    renamer = _Renamer(renamed)
    for variable, function in module.functions_items():
        new = renamed[variable]
        if new in union.functions:
            continue
        if isinstance(function, relax.Function):
            # Forms may share variables, which one module must not.
            function = copy_with_new_vars(renamer.visit_expr(function))
        if function.attrs and "global_symbol" in function.attrs:
            function = function.with_attr("global_symbol", new.name_hint)
        union[new] = function
    return {old.name_hint: new.name_hint for old, new in renamed.items()}


def _typed(variable: tvm.ir.GlobalVar, ty: tvm.ir.Type) -> tvm.ir.GlobalVar:
    """Give a new variable its type; TVM 0.27 has no public way to do so."""
    _update_type(variable, ty)
    return variable


@mutator
class _Renamer(PyExprMutator):  # type: ignore[misc]
    """Replace the names of functions in calls."""

    def __init__(self, renamed: Mapping[tvm.ir.GlobalVar, tvm.ir.GlobalVar]) -> None:
        super().__init__()
        self.renamed = renamed

    def visit_global_var_(self, variable: tvm.ir.GlobalVar) -> tvm.ir.GlobalVar:
        """Visit one name; see `PyExprMutator`."""
        return self.renamed.get(variable, variable)
