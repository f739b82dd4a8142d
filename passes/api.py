"""The pass as functions: `optimize` also returns the report, `fill_store` only measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm.target import Target

from tvm_tensat.egraph.rule import Rule
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.report import Report
from tvm_tensat.passes.run import Run, new_report, optimize_module
from tvm_tensat.passes.user_rules import UserRules


@dataclass(frozen=True)
class Result:
    """An optimized module, or the input, and why."""

    module: tvm.IRModule
    report: Report


def optimize(
    module: tvm.IRModule,
    target: Target | str | dict[str, Any],
    options: TensatOptions | None = None,
    *,
    extra_rules: Sequence[Rule] = (),
    **changes: Any,
) -> Result:
    """Optimize a module for a target.

    Parameters
    ----------
    module : tvm.IRModule
        Not changed.
    target : Target, str or dict
        As `tvm.target.Target` takes it.
    options : TensatOptions, optional
    extra_rules : sequence of Rule
        Rules of your own, used beside the package's; see `tvm_tensat.egraph.rule`.
    **changes
        Fields of `TensatOptions`.
    """
    options = replace(options or TensatOptions(), **changes)
    rules = UserRules(extra_rules, options.rules)
    report = new_report(options, rules)
    # Not as a pass: TVM turns a Ctrl-C inside a pass into a RuntimeError.
    with target if isinstance(target, Target) else Target(target):
        return Result(optimize_module(module, options, rules, report), report)


def fill_store(module: tvm.IRModule, target: Target, options: TensatOptions) -> Report:
    """Measure the kernels that `optimize` would measure, and keep their times in the cost store.

    Nothing is built, compared or raced. Ctrl-C ends it; what was measured is kept.

    Parameters
    ----------
    module : tvm.IRModule
        Not changed.
    target : Target
    options : TensatOptions
        Costs are measured, whatever they say.

    Returns
    -------
    Report
        With blocks and times, and no verdict.

    Raises
    ------
    MeasureError
        When nothing can be measured here.
    CostStoreError
        When the cost store cannot be used.
    """
    options = replace(options, costs="measured")
    rules = UserRules((), options.rules)
    report = new_report(options, rules)
    with target:
        Run(options, rules, report).fill_store(module)
    return report
