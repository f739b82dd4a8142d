"""The verdict: which module is returned, after comparing outputs and racing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np
import tvm
from tvm import relax

from tvm_tensat.cost import Farm, MeasureError
from tvm_tensat.passes import guard, side_by_side
from tvm_tensat.passes.hardware import Hardware, hardware_for
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.phases import Phases
from tvm_tensat.passes.race import race
from tvm_tensat.passes.report import Report
from tvm_tensat.passes.reproducer import save_reproducer

INPUT = "input"
# A race that was surely won by as much need not be run again: builds of one module differ by up to
# 13%. Other races need not be won surely, but twice.
CLEAR = 1.15

Inputs = dict[str, list[tvm.runtime.Tensor]]  # arguments of each function that can be run
Forms = dict[str, side_by_side.Form]


class Judge:
    """Decides between an input module and candidates to replace it.

    Parameters
    ----------
    target : tvm.target.Target
    farm : Farm or None
        Where code for the target runs, if not on this machine.
    options : TensatOptions
    report : Report
        Receives the verdict, the reasons and the races.
    phases : Phases
    """

    def __init__(
        self,
        target: tvm.target.Target,
        farm: Farm | None,
        options: TensatOptions,
        report: Report,
        phases: Phases,
    ) -> None:
        self.target, self.farm = target, farm
        self.options, self.report, self.phases = options, report, phases

    def choose(self, module: tvm.IRModule, candidates: Mapping[str, tvm.IRModule]) -> tvm.IRModule:
        """Return the fastest module whose outputs are the input's, the input itself included."""
        modules = {INPUT: module, **candidates}
        first = next(iter(candidates))
        if not (self.options.check or self.options.race):
            return self.accept(first, modules, "not checked, not measured")
        with ExitStack() as held:
            try:
                hardware = held.enter_context(hardware_for(self.target, self.farm))
            except MeasureError as error:
                if self.options.strict:
                    raise
                return self.accept(first, modules, f"not checked, not raced: {error}")
            if hardware is None:
                return self.accept(first, modules, "not checked: no device for this target here")
            inputs = self.draw_inputs(module, hardware)
            if not inputs:
                return self.accept(first, modules, "no function could be run on random inputs")
            return self.decide(modules, inputs, hardware)

    def decide(
        self, modules: Mapping[str, tvm.IRModule], inputs: Inputs, hardware: Hardware
    ) -> tvm.IRModule:
        """Build, check and race the forms; return the fastest."""
        module = modules[INPUT]
        forms = self.build(modules, hardware)
        if self.options.check:
            self.check(modules, forms, inputs)
        if len(forms) == 1:
            return self.keep(module, "no result passed the check")
        if not self.options.race:
            return self.accept(list(forms)[1], modules, "checked, not measured")
        winner, speed, least = self.race(forms, inputs)
        if winner != INPUT and least < CLEAR:
            # Where a build happens to lie in memory can decide a race; built anew, in the other
            # order, the same module must win again.
            forms.clear()
            again = self.build({winner: modules[winner], INPUT: module}, hardware)
            winner, second, _ = self.race({INPUT: again[INPUT], winner: again[winner]}, inputs)
            speed = min(speed, second)
        if winner == INPUT:
            return self.keep(module, "no result was measured to be faster than the input")
        return self.accept(winner, modules, f"measured {speed:.3f} times as fast")

    def build(self, modules: Mapping[str, tvm.IRModule], hardware: Hardware) -> Forms:
        """Build and load modules, in their order."""
        with self.phases("build"):
            return side_by_side.build(modules, self.target, self.options.tuning_records, hardware)

    def draw_inputs(self, module: tvm.IRModule, hardware: Hardware) -> Inputs:
        """Draw arguments for every public function that takes tensors."""
        found: Inputs = {}
        for variable, function in module.functions_items():
            attrs = function.attrs or {}
            if not isinstance(function, relax.Function) or "global_symbol" not in attrs:
                continue
            if hardware.session is not None and side_by_side.weights_start(function) is not None:
                self.report.reasons.append(
                    f"{variable.name_hint} was not run: weights that are parameters cannot be "
                    "transformed over RPC; bind them as constants"
                )
                continue
            try:
                arrays = guard.random_inputs(function, self.options.seed)
            except guard.CannotRun as reason:
                self.report.reasons.append(f"{variable.name_hint} was not run: {reason}")
                continue
            found[variable.name_hint] = [
                tvm.runtime.tensor(array, device=hardware.device) for array in arrays
            ]
        return found

    def check(self, modules: Mapping[str, tvm.IRModule], forms: Forms, inputs: Inputs) -> None:
        """Remove the forms whose outputs differ from the input's, and keep them on disk.

        Raises
        ------
        ValueError
            In strict mode, when one differs.
        """
        with self.phases("check"):
            for function, arguments in inputs.items():
                depth = _operators(modules[INPUT][function])
                expected = guard.flatten(forms[INPUT].runner(function, arguments)())
                for name in [name for name in forms if name != INPUT]:
                    actual = guard.flatten(forms[name].runner(function, arguments)())
                    why = guard.difference(expected, actual, depth)
                    if why is None:
                        continue
                    reason = f"{name}: {function} computes something else: {why}"
                    reason += _saved(modules[INPUT], modules[name], reason)
                    if self.options.strict:
                        raise ValueError(reason)
                    self.report.reasons.append(reason)
                    del forms[name]

    def race(self, forms: Forms, inputs: Inputs) -> tuple[str, float, float]:
        """Race the forms.

        Returns
        -------
        winner : str
            Name of the fastest form.
        speed : float
            How many times as fast as the input it is.
        least : float
            The lower bound of that, see `Race.sure`.
        """
        with self.phases("race"):
            races = [
                race(
                    {name: form.timer(function, arguments) for name, form in forms.items()},
                    function,
                    here=self.farm is None,
                )
                for function, arguments in inputs.items()
            ]
        self.report.races += races
        # Functions weigh by their times in the input.
        weights = [each.seconds[0] for each in races]
        speed = np.average([each.ratios for each in races], axis=0, weights=weights)
        least = np.average([each.sure for each in races], axis=0, weights=weights)
        best = int(np.argmax(speed))
        return list(forms)[best], float(speed[best]), float(least[best])

    def accept(self, name: str, modules: Mapping[str, tvm.IRModule], why: str) -> tvm.IRModule:
        """Return a candidate."""
        self.report.verdict = name
        self.report.reasons.append(why)
        return modules[name]

    def keep(self, module: tvm.IRModule, why: str) -> tvm.IRModule:
        """Return the input."""
        self.report.reasons.append(why)
        return module


def _saved(before: tvm.IRModule, after: tvm.IRModule, why: str) -> str:
    """Save a reproducer; return where it is, or why it is nowhere."""
    try:
        return f"; this is a bug, please report it with {save_reproducer(before, after, why)}"
    except OSError as error:
        return f"; this is a bug, and no reproducer could be saved: {error}"


def _operators(function: relax.Function) -> int:
    """Count the bindings of a function, which its depth cannot exceed."""
    blocks: Sequence[relax.BindingBlock] = function.body.blocks
    return sum(len(block.bindings) for block in blocks)
