"""Examples can be drawn for every built-in rule, so that `tvmc rules verify` speaks of it."""

from __future__ import annotations

import pytest

from tvm_tensat.rules import all_rules
from tvm_tensat.verify import HOLDS, verify

# Rules that wait for what no proposal draws; the examples of their families test them.
NOT_DRAWN: frozenset[str] = frozenset()


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_an_example_is_drawn_and_the_rule_holds_on_it(rule):
    if rule.name in NOT_DRAWN:
        pytest.skip("no proposal draws what it waits for")
    verdict = verify(rule, examples=1, compiled=0, seconds=60.0)
    assert verdict.status == HOLDS, str(verdict)
