"""The Tensat pass: equality saturation over the dataflow blocks of Relax functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

from tvm_tensat.egraph.rule import Rule
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.report import Report
from tvm_tensat.passes.run import new_report, optimize_module
from tvm_tensat.passes.user_rules import UserRules


@tvm.transform.module_pass(opt_level=0, name="Tensat")
class Tensat:
    """Optimize the dataflow blocks of a module by equality saturation.

    The target is the one in scope (``with target:``, or the one that `tvm.compile` builds for);
    without one, LLVM on this machine. The input module is never changed; when nothing better is
    found, or something fails, it is returned and the report says why.

    Parameters
    ----------
    options : TensatOptions, optional
    extra_rules : sequence of Rule
        Rules of your own, used beside the package's; see `tvm_tensat.egraph.rule`.
    **changes
        Fields of `TensatOptions` that differ from `options` or the defaults.

    Raises
    ------
    TypeError, ValueError
        When an extra rule is none or has the name of another, or the file of option ``rules`` does
        not parse.

    Attributes
    ----------
    report : Report or None
        Of the last run.
    """

    def __init__(
        self,
        options: TensatOptions | None = None,
        *,
        extra_rules: Sequence[Rule] = (),
        **changes: Any,
    ) -> None:
        given = {} if options is None else dict(vars(options))
        self.options = TensatOptions(**(given | changes))
        self.rules = UserRules(extra_rules, self.options.rules)
        self.report: Report | None = None

    def transform_module(
        self, module: tvm.IRModule, _context: tvm.transform.PassContext
    ) -> tvm.IRModule:
        """Return the optimized module, or the input."""
        self.report = new_report(self.options, self.rules)
        return optimize_module(module, self.options, self.rules, self.report)
