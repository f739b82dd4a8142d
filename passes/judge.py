"""The verdict: which module is returned, after comparing outputs and racing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tvm
from tvm import relax

from tvm_tensat.passes import guard
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.phases import Phases
from tvm_tensat.passes.report import Report

INPUT = "input"

Inputs = dict[str, list[tvm.runtime.Tensor]]  # arguments of each function that can be run
Machines = dict[str, relax.VirtualMachine]


class Judge:
    """Decides between an input module and candidates to replace it.

    Parameters
    ----------
    target : tvm.target.Target
    hardware : tvm.runtime.Device or None
        Where code for the target runs, if it does on this machine.
    options : TensatOptions
    report : Report
        Receives the verdict, the reasons and the races.
    phases : Phases
    """

    def __init__(
        self,
        target: tvm.target.Target,
        hardware: tvm.runtime.Device | None,
        options: TensatOptions,
        report: Report,
        phases: Phases,
    ) -> None:
        self.target, self.hardware = target, hardware
        self.options, self.report, self.phases = options, report, phases

    def choose(self, module: tvm.IRModule, candidates: Mapping[str, tvm.IRModule]) -> tvm.IRModule:
        """Return the fastest module whose outputs are the input's, the input itself included."""
        modules = {INPUT: module, **candidates}
        first = next(iter(candidates))
        if not (self.options.check or self.options.race):
            return self.accept(first, modules, "not checked, not measured")
        if self.hardware is None:
            return self.accept(first, modules, "not checked: no device for this target here")
        machines = self.build(modules)
        inputs = self.draw_inputs(module)
        if not inputs:
            return self.accept(first, modules, "no function could be run on random inputs")
        if self.options.check:
            self.check(module, machines, inputs)
        if len(machines) == 1:
            return self.keep(module, "no result passed the check")
        if not self.options.race:
            return self.accept(list(machines)[1], modules, "checked, not measured")
        winner, speed = self.race(machines, inputs)
        if winner != INPUT:
            # Where a build happens to lie in memory can decide a race; built anew, in the other
            # order, the same module must win again.
            machines.clear()
            again = self.build({winner: modules[winner], INPUT: module})
            confirmed, second = self.race({INPUT: again[INPUT], winner: again[winner]}, inputs)
            winner, speed = confirmed, min(speed, second)
        if winner == INPUT:
            return self.keep(module, "no result was measured to be faster than the input")
        return self.accept(winner, modules, f"measured {speed:.3f} times as fast")

    def build(self, modules: Mapping[str, tvm.IRModule]) -> Machines:
        """Build and load modules, in their order."""
        records = self.options.tuning_records
        with self.phases("build"):
            return {
                name: guard.build(module, self.target, records) for name, module in modules.items()
            }

    def draw_inputs(self, module: tvm.IRModule) -> Inputs:
        """Draw arguments for every public function that takes tensors."""
        found: Inputs = {}
        for variable, function in module.functions_items():
            attrs = function.attrs or {}
            if not isinstance(function, relax.Function) or "global_symbol" not in attrs:
                continue
            try:
                arrays = guard.random_inputs(function, self.options.seed)
            except guard.CannotRun as reason:
                self.report.reasons.append(f"{variable.name_hint} was not run: {reason}")
                continue
            found[variable.name_hint] = [
                tvm.runtime.tensor(array, device=self.hardware) for array in arrays
            ]
        return found

    def check(self, module: tvm.IRModule, machines: Machines, inputs: Inputs) -> None:
        """Remove the machines whose outputs differ from the input's.

        Raises
        ------
        ValueError
            In strict mode, when one differs.
        """
        with self.phases("check"):
            for function, arguments in inputs.items():
                depth = _operators(module[function])
                expected = guard.run(machines[INPUT], function, arguments)
                for name in [name for name in machines if name != INPUT]:
                    actual = guard.run(machines[name], function, arguments)
                    why = guard.difference(expected, actual, depth)
                    if why is None:
                        continue
                    reason = f"{name}: {function} computes something else: {why}"
                    if self.options.strict:
                        raise ValueError(reason)
                    self.report.reasons.append(reason)
                    del machines[name]

    def race(self, machines: Machines, inputs: Inputs) -> tuple[str, float]:
        """Return the name of the fastest machine and how many times as fast as the input it is.

        Another machine beats the input only if it won three rounds in four.
        """
        with self.phases("race"):
            races = [
                guard.race(machines, function, arguments, self.hardware)
                for function, arguments in inputs.items()
            ]
        self.report.races += races
        # Functions weigh by their times in the input.
        weights = [race.seconds[0] for race in races]
        speed = np.average([race.ratios for race in races], axis=0, weights=weights)
        sure = np.average([race.sure for race in races], axis=0, weights=weights)
        best = int(np.argmax(np.where(sure > 1.0, speed, 0.0)))
        return (list(machines)[best], float(speed[best])) if sure[best] > 1.0 else (INPUT, 1.0)

    def accept(self, name: str, modules: Mapping[str, tvm.IRModule], why: str) -> tvm.IRModule:
        """Return a candidate."""
        self.report.verdict = name
        self.report.reasons.append(why)
        return modules[name]

    def keep(self, module: tvm.IRModule, why: str) -> tvm.IRModule:
        """Return the input."""
        self.report.reasons.append(why)
        return module


def _operators(function: relax.Function) -> int:
    """Count the bindings of a function, which its depth cannot exceed."""
    blocks: Sequence[relax.BindingBlock] = function.body.blocks
    return sum(len(block.bindings) for block in blocks)
