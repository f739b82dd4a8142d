"""The README of the rules: its examples run and hold, and the rules that it names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tvm_tensat.rules
from tvm_tensat.egraph.rule import Rule
from tvm_tensat.rules import all_rules
from tvm_tensat.verify import HOLDS, verify

README = Path(tvm_tensat.rules.__file__).with_name("README.md").read_text(encoding="utf-8")
CODE = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
RULES = ("negative_of_difference", "two_products_of_one_matrix", "all_products_of_one_matrix")


def declared() -> dict[str, Rule]:
    namespace: dict[str, Any] = {}
    exec(compile(CODE, "README.md", "exec"), namespace)  # our own text
    return {name: value for name, value in namespace.items() if isinstance(value, Rule)}


def test_the_guide_declares_a_rule_of_each_kind():
    assert {name: rule.kind for name, rule in declared().items()} == dict(
        zip(RULES, ("single", "multi", "group"), strict=True)
    )


@pytest.mark.parametrize("name", RULES)
def test_a_rule_of_the_guide_holds(name):
    verdict = verify(declared()[name], examples=30, compiled=3)
    assert verdict.status == HOLDS, str(verdict)


def test_every_rule_named_for_a_law_exists():
    rows = [line.split("|") for line in README.splitlines() if line.startswith("| ")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[2])]
    assert len(named) > 50
    assert set(named) <= {rule.name.split("[")[0] for rule in all_rules()}
