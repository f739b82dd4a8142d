"""Rules that the user brings: `Tensat(extra_rules=...)`."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.target import Target

from tvm_tensat.egraph.rule import ANY, EXACT, REAL, rule
from tvm_tensat.passes import Tensat, optimize, tensat_pipeline
from tvm_tensat.rules.operators import operator

LLVM = Target("llvm")
QUICK = {"costs": "estimated", "race": False, "strict": True}

exp, log = operator("relax.exp"), operator("relax.log")


@rule(keeps=REAL)
def log_of_exp(x):
    """The logarithm of the exponential is the number."""
    yield log(exp(x))
    yield x


@I.ir_module
class LogOfExp:
    @R.function
    def main(x: R.Tensor((64, 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.log(a)
            c = R.matmul(b, w)
            R.output(c)
        return c


def calls(module: tvm.IRModule) -> list[str]:
    [block] = module["main"].body.blocks
    return [b.value.op.name for b in block.bindings if isinstance(b.value, relax.Call)]


def test_a_rule_of_the_user_is_applied_and_reported() -> None:
    assert optimize(LogOfExp, LLVM, **QUICK).report.verdict == "unchanged"
    result = optimize(LogOfExp, LLVM, extra_rules=[log_of_exp], **QUICK)
    assert calls(result.module) == ["relax.matmul"]
    [block] = result.report.blocks
    assert block.exploration.rules["log_of_exp"].applied == 1
    assert result.report.to_json()["options"]["extra_rules"] == ["log_of_exp"]


def test_a_pipeline_takes_rules_of_the_user_too() -> None:
    pipeline = tensat_pipeline(extra_rules=[log_of_exp], **QUICK)
    with LLVM:
        lowered = pipeline(LogOfExp)
    assert not any("exp" in v.name_hint or "log" in v.name_hint for v in lowered.functions)


def test_exact_numerics_leave_a_rule_out_that_is_not_exact_and_say_so() -> None:
    result = optimize(LogOfExp, LLVM, extra_rules=[log_of_exp], numerics="exact", **QUICK)
    assert result.module.same_as(LogOfExp)
    assert "rule log_of_exp was not used: it is not exact" in result.report.reasons


def test_what_is_no_rule_or_has_a_name_that_is_taken_is_refused_at_once() -> None:
    @rule(keeps=EXACT, dtypes=ANY)
    def relu_of_relu(x):
        """A name of the package's."""
        yield exp(x)
        yield x

    with pytest.raises(TypeError, match="expected rules as @rule, @multi_rule and @group_rule"):
        Tensat(extra_rules=[calls])
    with pytest.raises(ValueError, match=r"a rule .relu_of_relu. already: give .*extra_rules\.py"):
        Tensat(extra_rules=[relu_of_relu])
    with pytest.raises(ValueError, match="a rule 'log_of_exp' already"):
        Tensat(extra_rules=[log_of_exp, log_of_exp])
