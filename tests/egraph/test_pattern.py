"""Canonical patterns, joins, and searching each pattern once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.egraph.toy import Law, ToyLanguage, add_tree, as_rule
from tvm_tensat.egraph import EGraph
from tvm_tensat.egraph.multi import decanonicalize, sources_of
from tvm_tensat.egraph.pattern import JoinTooLarge, Matcher, Pattern, canonicalize, join

KEYS = st.lists(st.integers(0, 6), max_size=20)


@given(KEYS, KEYS)
def test_a_join_finds_all_pairs_of_equal_keys_in_order_of_the_left(
    left: list[int], right: list[int]
) -> None:
    expected = [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if a == b]
    at, of = join(np.array(left, np.int64), np.array(right, np.int64), limit=10**6)
    assert at.tolist() == sorted(at.tolist())
    assert sorted(zip(at.tolist(), of.tolist(), strict=True)) == expected
    if expected:
        with pytest.raises(JoinTooLarge) as error:
            join(np.array(left, np.int64), np.array(right, np.int64), limit=len(expected) - 1)
        assert error.value.rows == len(expected)


def test_sources_that_differ_in_names_have_one_canonical_pattern_and_maps_back() -> None:
    law = Law((("mul", "x", "a"), ("mul", "x", "b")), (("mul", "x", "a"), ("mul", "x", "b")))
    declared = as_rule(law)
    first, second = sources_of(declared)
    assert first.pattern == second.pattern == Pattern("mul", (), (0, 1))
    assert first.variables == (0, 1)
    assert second.variables == (0, 2)
    assert not first.ordered
    assert second.ordered


def test_decanonicalized_matches_bind_the_rules_own_variables() -> None:
    graph = EGraph(ToyLanguage())
    add_tree(graph, ("mul", ("a",), ("b",)))
    law = Law((("neg", "z"), ("mul", "x", "y")), (("neg", "z"), ("mul", "x", "y")))
    source = sources_of(as_rule(law))[1]
    matches = Matcher(graph, join_limit=100).search(source.pattern)
    renamed = decanonicalize(matches, source, variable_count=3)
    a, b = add_tree(graph, ("a",)), add_tree(graph, ("b",))
    assert renamed.variables.tolist() == [[-1, a, b]]


def test_equal_sub_patterns_of_different_rules_are_searched_once() -> None:
    graph = EGraph(ToyLanguage())
    add_tree(graph, ("add", ("neg", ("a",)), ("mul", ("b",), ("neg", ("c",)))))
    matcher = Matcher(graph, join_limit=100)
    one = as_rule(Law((("add", ("neg", "x"), "y"),), ("x",)))
    two = as_rule(Law((("mul", "y", ("neg", "x")),), ("x",)))
    for each in (one, two):
        assert len(matcher.search(canonicalize(each.sources[0])[0])) == 1
    inner = Pattern("neg", (), (0,))
    assert matcher.search(inner) is matcher.search(Pattern("neg", (), (0,)))
    assert len(matcher.search(inner)) == 2


def test_given_attributes_select_operators_and_absent_operators_are_rejected_early() -> None:
    graph = EGraph(ToyLanguage())
    for by in (1, 2, 3):
        add_tree(graph, (("shift", (("by", by), ("of", "x"))), ("a",)))
    matcher = Matcher(graph, join_limit=100)
    two = Pattern("shift", (("by", 2),), (0,))
    found = matcher.search(two)
    assert [graph.language.operator(n)["by"] for n in graph.node_operator[found.rows[:, 0]]] == [2]
    assert len(matcher.search(Pattern("shift", (), (0,)))) == 3
    assert not len(matcher.search(Pattern("shift", (), (0, 1))))
    assert not len(matcher.search(Pattern("shift", (), (Pattern("neg", (), (0,)),))))


def test_hidden_rows_are_not_matched() -> None:
    graph = EGraph(ToyLanguage())
    add_tree(graph, ("add", ("neg", ("a",)), ("neg", ("b",))))
    pattern = Pattern("neg", (), (0,))
    rows = Matcher(graph, join_limit=100).search(pattern).rows[:, 0]
    graph.node_filtered[rows[0]] = True
    assert Matcher(graph, join_limit=100).search(pattern).rows[:, 0].tolist() == [rows[1]]
