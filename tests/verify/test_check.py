"""Verification catches a wrong rule of each kind, and does not say more than it has seen."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.verify import wrong_rules
from tvm_tensat.egraph.rule import EXACT, Rule, rule
from tvm_tensat.rules.operators import group_norm
from tvm_tensat.verify import FAILS, HOLDS, NOT_EXERCISED, verify

WRONG = {
    "wrong_axis": "numbers",  # rational, or integers where an integer example is smaller
    "wrong_permutation": "numbers",
    "wrong_split_point": "numbers",
    "missing_condition": "numbers",
    "missing_condition_on_the_axis": "relative error",
    "dtype_unsafe": "numbers differ",
    "cast_forgotten": "",  # an error or other numbers, by dtype
    "order_changing": "bits differ",
    "sign_of_zero": "bits differ",
    "nan_forgotten": "NaN differ",
    "wrong_order_of_a_group": "numbers",
    "raises": "AttributeError",
}


def rule_named(name: str) -> Rule:
    found = vars(wrong_rules)[name]
    assert isinstance(found, Rule)
    return found


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_rule_of_each_kind_is_caught(name):
    verdict = verify(rule_named(name))
    assert verdict.status == FAILS, str(verdict)
    assert WRONG[name] in verdict.counterexample.reason


@pytest.mark.parametrize("name", ["right", "right_over_the_reals"])
def test_right_rules_hold_on_many_kinds_of_examples(name):
    verdict = verify(rule_named(name), examples=60, compiled=3)
    assert verdict.status == HOLDS
    assert (verdict.applied, verdict.compiled) == (60, 3)
    assert {"float16", "float64", "symbolic", "empty", "unit", "rank-0", "rank-4"} <= {
        *verdict.kinds
    }


@pytest.mark.parametrize("name", ["never_met", "never_applied"])
def test_what_was_never_applied_is_not_said_to_hold(name):
    verdict = verify(rule_named(name), seconds=1.0)
    assert (verdict.status, verdict.applied) == (NOT_EXERCISED, 0)
    assert "not exercised" in str(verdict) and "holds" not in str(verdict)


def test_the_same_seed_finds_the_same():
    first, second = (verify(rule_named("wrong_axis"), compiled=0, seed=7) for _ in range(2))
    assert first.counterexample.example.operands == second.counterexample.example.operands


def test_a_counterexample_is_a_program_that_shows_the_difference(tmp_path):
    found = verify(rule_named("wrong_split_point"), compiled=0).counterexample
    path = tmp_path / "counterexample.py"
    path.write_text(found.snippet(), encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sought, made = done.stdout.split("made:")
    assert sought.removeprefix("sought:").strip() != made.strip()
    for array in found.sought:
        assert f"{array.flat[0]:g}" in sought


def test_a_counterexample_is_small():
    """Two products of 1x1 matrices in two columns are the least on which the parts differ."""
    found = verify(rule_named("wrong_split_point"), compiled=0).counterexample
    assert found.example.elements <= 20


def test_an_operator_whose_attributes_nobody_proposes_is_not_exercised():
    @rule(keeps=EXACT)
    def normalized(x, gamma, beta):
        """A norm is itself."""
        yield group_norm(x, gamma, beta)
        yield x

    assert verify(normalized, examples=3, compiled=0).status == NOT_EXERCISED
