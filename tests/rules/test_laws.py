"""Every rule fires on the examples that its family's tests give, and its law holds there.

``EXAMPLES`` of each module ``tests/rules/test_<family>.py`` maps rules' names to strategies.
"""

from __future__ import annotations

import importlib
import os
import pkgutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tests.rules
from tests.rules.harness import check_law
from tests.rules.strategies import Strategy
from tvm_tensat.egraph.rule import EXACT, REAL
from tvm_tensat.rules import all_rules

PER_RULE = int(os.environ.get("TVM_TENSAT_RULE_EXAMPLES", "3"))


def _examples() -> dict[str, Strategy]:
    found: dict[str, Strategy] = {}
    for module in pkgutil.iter_modules(tests.rules.__path__):
        if module.name.startswith("test_") and module.name != "test_laws":
            table = vars(importlib.import_module(f"tests.rules.{module.name}")).get("EXAMPLES", {})
            assert not found.keys() & table.keys(), "two families give examples of one rule"
            found |= table
    return found


EXAMPLES = _examples()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
@given(data=st.data())
@settings(
    max_examples=PER_RULE,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_rule_fires_and_its_law_holds(name: str, data: st.DataObject) -> None:
    drawn = data.draw(EXAMPLES[name])
    assert drawn.rule.name == name
    special = drawn.rule.keeps == EXACT and data.draw(st.booleans(), label="special values")
    check_law(drawn, special=special, seed=data.draw(st.integers(0, 99), label="seed"))


def test_every_rule_has_examples() -> None:
    assert {rule.name for rule in all_rules()} == set(EXAMPLES)


def test_names_are_unique() -> None:
    names = [rule.name for rule in all_rules()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_rule_states_its_law_in_one_sentence(rule) -> None:
    assert rule.law.endswith(".") and rule.law[0].isupper()
    assert ". " not in rule.law.removesuffix(".").replace("e.g. ", "").replace("i.e. ", "")


def test_exact_numerics_leaves_out_rules_that_round() -> None:
    assert {rule.keeps for rule in all_rules("exact")} <= {EXACT}
    assert {rule.keeps for rule in all_rules()} <= {EXACT, REAL}
    assert {r.name for r in all_rules("exact")} == {
        rule.name for rule in all_rules() if rule.keeps == EXACT
    }


def test_unknown_numerics_is_refused() -> None:
    with pytest.raises(ValueError, match="'fast'; it must be one of real, exact"):
        all_rules("fast")
