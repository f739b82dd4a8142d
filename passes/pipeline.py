"""How TVM finds the pass: a pipeline, a name for the FFI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.target import Target

from tvm_tensat.egraph.rule import Rule
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.tensat import Tensat
from tvm_tensat.schedule import build_pipeline


@relax.register_pipeline("tensat")
def tensat_pipeline(
    options: TensatOptions | None = None, *, extra_rules: Sequence[Rule] = (), **changes: Any
) -> tvm.transform.Pass:
    """Return a pipeline that optimizes by Tensat and then does what TVM's default one does.

    ``tvm.compile(mod, target, relax_pipeline="tensat")`` uses it with default options;
    ``relax.get_pipeline("tensat", k_multi=2)`` gives it with others. It builds for the target in
    scope, which `tvm.compile` provides.

    Parameters
    ----------
    options : TensatOptions, optional
    extra_rules : sequence of Rule
        As `Tensat` takes them.
    **changes
        Fields of `TensatOptions`.
    """
    tensat = Tensat(options, extra_rules=extra_rules, **changes)
    records: Path | None = tensat.options.tuning_records

    @tvm.transform.module_pass(opt_level=0, name="tensat_pipeline")
    def pipeline(module: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        target = Target.current(allow_none=True) or Target("llvm")
        return build_pipeline(target, records)(tensat(module))

    return pipeline


@tvm_ffi.register_global_func("relax.transform.Tensat")
def _tensat() -> tvm.transform.Pass:
    return Tensat()
