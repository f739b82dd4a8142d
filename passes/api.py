"""`optimize`: the pass as a function that also returns its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.target import Target

from tvm_tensat.egraph.rule import Rule
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.report import Report
from tvm_tensat.passes.tensat import Tensat


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
    tensat = Tensat(options, extra_rules=extra_rules, **changes)
    with target if isinstance(target, Target) else Target(target):
        result = tensat(module)
    return Result(result, tensat.report)
