"""One run of the pass on one module: plan, explore, search, write, judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.target import Target

from tvm_tensat.cost import CostStore, Farm, MeasureError, Tracker
from tvm_tensat.cost.device import Device
from tvm_tensat.cost.here import HERE
from tvm_tensat.cost.machine import describe, target_text
from tvm_tensat.cost.place import Place
from tvm_tensat.cost.roofline import Roofline
from tvm_tensat.egraph import Memo
from tvm_tensat.passes.hardware import device_here
from tvm_tensat.passes.judge import Judge
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.phases import Phases
from tvm_tensat.passes.report import Report
from tvm_tensat.passes.search import CHEAPEST, LEAST_GAIN
from tvm_tensat.passes.segment import Bindings, Explored, explore_segment
from tvm_tensat.passes.user_rules import UserRules
from tvm_tensat.relax.fold import fold_weights
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import FunctionPlan, Kept, Segment, plan_function
from tvm_tensat.relax.writer import rebuild

_NOT_OURS = ("Primitive", "Codegen", "Composite")  # functions that other passes have claimed

Written = dict[str, dict[Segment, Sequence[Any]]]  # function name -> segment -> bindings


def new_report(options: TensatOptions, rules: UserRules) -> Report:
    """Return the report of a run that begins."""
    given = asdict(options) | {"extra_rules": [each.name for each in rules.extra]}
    return Report(options=given, machine=asdict(describe()))


def optimize_module(
    module: tvm.IRModule, options: TensatOptions, rules: UserRules, report: Report
) -> tvm.IRModule:
    """Return the optimized module, or the input; the report says why."""
    try:
        return Run(options, rules, report).optimize(module)
    except Exception as error:
        if options.strict:
            raise
        report.verdict = "unchanged"
        report.reasons.append(f"failed: {type(error).__name__}: {error}")
        return module


class Run:
    """One run of the pass on one module."""

    def __init__(self, options: TensatOptions, rules: UserRules, report: Report) -> None:
        self.options, self.rules = options, rules
        self.report = report
        self.phases = Phases()
        report.seconds = self.phases.seconds
        self.target = Target.current(allow_none=True) or self.default_target()
        report.target = target_text(self.target)
        self.farm = _farm(options)
        self.place: Place = self.farm or HERE

    def default_target(self) -> Target:
        """Return this machine's CPU, and say so."""
        self.report.reasons.append("no target in scope; LLVM on this machine is assumed")
        return Target("llvm")

    def optimize(self, module: tvm.IRModule) -> tvm.IRModule:
        """Return the best form of the module, or the module itself."""
        plans = self.plan(module)
        if not any(plan.segments for plan in plans.values()):
            self.report.reasons.append("no dataflow block with operators to rewrite")
            return module
        with self.place.kept():
            forms = self.rewrite(plans)
        if not forms:
            self.report.reasons.append(f"no form was found that is {LEAST_GAIN:.1%} cheaper")
            return module
        candidates = {name: self.finish(module, plans, written) for name, written in forms.items()}
        judge = Judge(self.target, self.farm, self.options, self.report, self.phases)
        return judge.choose(module, candidates)

    def fill_store(self, module: tvm.IRModule) -> None:
        """Measure what `optimize` would measure, and return no module."""
        with self.place.kept():
            device = self.real_device()
            for _, _, explored in self.explored(self.plan(module), device):
                self.report.blocks.append(explored.fill_store())

    # -- rewriting ---------------------------------------------------------------------------

    def plan(self, module: tvm.IRModule) -> dict[str, FunctionPlan]:
        """Plan the functions that are ours to touch."""
        functions = {
            variable.name_hint: function for variable, function in module.functions_items()
        }
        plans = {}
        for name, function in functions.items():
            if not isinstance(function, relax.Function):
                continue
            attrs = dict(function.attrs) if function.attrs else {}
            claimed = [mark for mark in _NOT_OURS if mark in attrs]
            if claimed:
                self.report.kept.append(f"function {name} is marked {claimed[0]}")
                continue
            plans[name] = plan_function(function, functions)
            for block in plans[name].blocks:
                for piece in block.pieces:
                    if isinstance(piece, Kept):
                        count = len(piece.bindings)
                        self.report.kept.append(f"{count} bindings of {name}: {piece.reason}")
        return plans

    def rewrite(self, plans: dict[str, FunctionPlan]) -> dict[str, Written]:
        """Optimize every segment; return the forms by name, none where nothing is cheaper."""
        made: list[tuple[str, Segment, dict[str, Bindings]]] = []
        for name, segment, explored in self.explored(plans, self.device()):
            found = explored.optimize()
            self.report.blocks.append(found.report)
            if found.forms:
                made.append((name, segment, found.forms))
        forms: dict[str, Written] = {form: {} for _, _, known in made for form in known}
        for form, written in forms.items():
            for name, segment, known in made:
                written.setdefault(name, {})[segment] = known.get(form, known[CHEAPEST])
        return forms

    def explored(
        self, plans: dict[str, FunctionPlan], device: Device
    ) -> Iterator[tuple[str, Segment, Explored]]:
        """Explore segment after segment; yield the function and the segment with its forms."""
        rules = self.rules.all(self.options.numerics, self.report, self.phases)
        language = RelaxLanguage()
        memo = Memo(language)
        for name, plan in plans.items():
            for number, segment in enumerate(plan.segments):
                where = name, f"segment {number}"
                found = explore_segment(
                    segment, where, rules, language, memo, device, self.options, self.phases
                )
                if found is not None:
                    yield name, segment, found

    def device(self) -> Device:
        """Open the cost store and calibrate the estimate, as far as options and machine allow."""
        if self.options.costs != "estimated":
            try:
                return self.real_device()
            except MeasureError as error:
                if self.options.strict and self.farm is not None:
                    raise
                self.report.reasons.append(f"costs are estimated: {error}")
        return Device(self.target, Roofline.documented(self.target), None)

    def real_device(self) -> Device:
        """Open the cost store and calibrate the estimate.

        Raises
        ------
        MeasureError
            When nothing can be measured here.
        """
        if self.farm is None and device_here(self.target) is None:
            raise MeasureError(f"no {self.target.kind.name} device on this machine")
        options = self.options
        store = CostStore(options.cost_store)
        measures = options.costs == "measured"
        with self.phases("calibrate"):
            line = Roofline.calibrated(
                self.target,
                store,
                place=self.place,
                tuning_records=options.tuning_records,
                measures=measures,
            )
        return Device(self.target, line, store, options.tuning_records, measures, self.place)

    def finish(
        self, module: tvm.IRModule, plans: dict[str, FunctionPlan], written: Written
    ) -> tvm.IRModule:
        """Put the rewritten segments into a new module and fold its weights."""
        with self.phases("write"):
            result = tvm.IRModule(module.functions, attrs=module.attrs)
            for name, segments in written.items():
                result[module.get_global_var(name)] = rebuild(plans[name], segments)
        with self.phases("fold"):
            result = fold_weights(result)
        with self.phases("check"):
            relax.analysis.well_formed(result)
            for name in written:
                before, after = module[name].ret_ty, result[name].ret_ty
                if not tvm_ffi.structural_equal(before, after):
                    raise ValueError(f"function {name} would return {after}, not {before}")
        return result


def _farm(options: TensatOptions) -> Farm | None:
    """Return the farm that the options name."""
    if options.rpc_tracker is None or options.rpc_key is None:
        return None
    return Farm(Tracker.at(options.rpc_tracker, options.rpc_key), options.cross_compiler)
