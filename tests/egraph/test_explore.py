"""Limits, back-off, provenance and statistics of an exploration."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.egraph.test_against_oracle import LAWS
from tests.egraph.toy import Law, ToyLanguage, Tree, add_tree, as_rule, function
from tvm_tensat.egraph import FROM_INPUT, EGraph, Limits, Memo, explore
from tvm_tensat.egraph.language import Refusal
from tvm_tensat.egraph.rule import ANY, EXACT, REAL, Rule, refuse, rule

add, neg, mul = function("add"), function("neg"), function("mul")
COMMUTATIVE, ASSOCIATIVE = as_rule(LAWS["commutative"], "c"), as_rule(LAWS["associative"], "a")
LARGE = Limits(nodes=10**6, seconds=600.0, matches=10**9)


def chain(count: int) -> EGraph:
    """((a0 + a1) + a2) + ..."""
    tree: Tree = ("a0",)
    for k in range(1, count):
        tree = ("add", tree, (f"a{k}",))
    graph = EGraph(ToyLanguage())
    add_tree(graph, tree)
    return graph


def fan(count: int) -> EGraph:
    graph = EGraph(ToyLanguage())
    for k in range(count):
        add_tree(graph, ("mul", ("x",), (f"a{k}",)))
    return graph


# -- limits ----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 150), st.integers(2, 9))
def test_there_are_never_more_nodes_than_the_limit(room: int, count: int) -> None:
    graph = chain(count)
    limit = graph.node_count + room
    peak = [graph.node_count]
    add_batch = graph.add_batch

    def watched(*arguments: Any) -> Any:
        classes = add_batch(*arguments)
        peak.append(graph.node_count)
        return classes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "add_batch", watched)
        result = explore(graph, [COMMUTATIVE, ASSOCIATIVE], Limits(nodes=limit, matches=10**9))
    assert max(peak) <= limit
    if result.stopped == "node limit":
        assert max(peak) >= limit - 1, "no match adds more than two e-nodes"
    else:
        assert result.stopped == "saturated"
        assert result.nodes == 3**count - 2 ** (count + 1) + 1 + count


@pytest.mark.parametrize("room", [0, 1, 4, 5, 6, 64, 1000])
def test_the_node_limit_holds_inside_a_multi_step(room: int) -> None:
    graph = fan(32)
    limit = graph.node_count + room
    result = explore(graph, [as_rule(LAWS["siblings"])], Limits(nodes=limit, matches=10**9))
    assert result.stopped == "node limit"
    assert limit - 5 < result.nodes <= limit
    assert result.rules["law"].applied == room // 5


def test_a_limit_below_the_inputs_size_adds_nothing() -> None:
    graph = chain(5)
    result = explore(graph, [COMMUTATIVE, ASSOCIATIVE], Limits(nodes=3))
    assert (result.stopped, result.nodes) == ("node limit", 9)


def test_matches_that_add_no_node_are_applied_at_the_node_limit() -> None:
    graph = EGraph(ToyLanguage())
    add_tree(graph, ("add", ("neg", ("neg", ("a",))), ("mul", ("a",), ("b",))))
    rules = [as_rule(Law((("mul", "x", "y"),), (("wide", "x", "y"),)), "wide")]
    rules.append(as_rule(LAWS["involution"], "involution"))
    result = explore(graph, rules, Limits(nodes=graph.node_count, cycles="none"))
    assert result.stopped == "node limit"
    assert result.rules["involution"].applied == 1
    assert result.rules["wide"].applied == 0


def test_the_time_limit_holds() -> None:
    graph = chain(200)
    began = time.perf_counter()
    result = explore(
        graph, [COMMUTATIVE, ASSOCIATIVE], Limits(iterations=10**6, nodes=10**7, seconds=1.0)
    )
    seconds = time.perf_counter() - began
    assert result.stopped in ("time limit", "saturated")
    assert result.seconds <= seconds
    # A step (a search, a level of new rows, a rebuild) is not interrupted.
    assert seconds < 1.0 * 1.1 + 1.0
    graph.rebuild()


def test_the_iteration_limit_holds_and_stopping_early_is_said() -> None:
    result = explore(chain(8), [COMMUTATIVE, ASSOCIATIVE], Limits(iterations=2, matches=10**9))
    assert (result.stopped, result.iterations) == ("iteration limit", 2)


def test_multi_rules_take_part_in_the_first_k_multi_iterations_only() -> None:
    applied = []
    for k_multi in (0, 1, 2):
        result = explore(
            fan(4),
            [as_rule(LAWS["siblings"])],
            Limits(iterations=4, nodes=10**5, matches=10**9, k_multi=k_multi),
        )
        applied.append(result.rules["law"].applied)
    assert applied[0] == 0
    assert applied[1] == 6
    assert applied[2] > 6


# -- back-off --------------------------------------------------------------------------------


def test_a_rule_with_too_many_matches_is_cut_rests_and_comes_back_doubled() -> None:
    graph = fan(20)
    swap = as_rule(Law((("mul", "x", "y"),), (("lum", "y", "x"),)), "swap")
    grow = as_rule(Law((("neg", "x"),), (("neg", ("wrap", "x")),)), "grow")
    add_tree(graph, ("neg", ("x",)))
    applied: list[int] = []

    def count(_: EGraph, __: object) -> None:
        made = graph.node_operator[graph.node_alive]
        applied.append(sum(graph.language.operator(n).name == "lum" for n in made.tolist()))

    limits = Limits(iterations=25, nodes=10**6, matches=4, cycles="none")
    result = explore(graph, [swap, grow], limits, hook=count)
    # 4, then 5 iterations of rest; 8, then 10; then the 8 that are left.
    assert applied == [4] * 6 + [12] * 11 + [20] * 8
    assert [line.split(":")[0] for line in result.rules["swap"].cut] == [
        "iteration 0",
        "iteration 6",
    ]
    assert "16 of 20 matches cut" in result.rules["swap"].cut[0]


def test_resting_rules_wake_when_nothing_else_changes_so_saturation_is_real() -> None:
    graph = fan(20)
    swap = as_rule(Law((("mul", "x", "y"),), (("lum", "y", "x"),)), "swap")
    result = explore(graph, [swap], Limits(iterations=100, matches=4))
    assert result.stopped == "saturated"
    assert result.rules["swap"].applied == 20
    assert result.iterations < 12, "no iteration is spent on waiting for rules that rest"


def test_a_join_that_is_too_large_is_not_expanded_and_is_reported() -> None:
    graph = EGraph(ToyLanguage())
    for k in range(100):
        add_tree(graph, ("neg", (f"a{k}",)))
    cross = Law((("neg", "x"), ("neg", "y")), (("both", "x", "y"), ("both", "y", "x")))
    result = explore(graph, [as_rule(cross)], Limits(iterations=1, nodes=201))
    assert result.rules["law"].applied == 0
    assert "a join of 10,000 rows not expanded" in result.rules["law"].cut[0]


def test_as_many_rows_and_classes_as_before_are_no_saturation() -> None:
    # The first iteration merges h(c) with k(c), so that two rows die, and adds s(d) and r(s(d)), of
    # which one joins p(d): two rows more and two less, one class more and one less.
    graph = EGraph(ToyLanguage())
    add_tree(graph, ("p", ("d",)))
    for name in ("f", "g"):
        left, right = (add_tree(graph, (name, (inner, ("c",)))) for inner in ("h", "k"))
        graph.union(np.array([left]), np.array([right]))
        graph.rebuild()
    before = graph.node_count, graph.class_count
    rules = [
        as_rule(Law((("h", "x"),), (("k", "x"),)), "equal"),
        as_rule(Law((("p", "x"),), (("r", ("s", "x")),)), "more"),
        as_rule(Law((("r", ("s", "x")),), (("t", "x"),)), "later"),
    ]
    after = []
    result = explore(
        graph,
        rules,
        Limits(cycles="none"),
        hook=lambda *_: after.append((graph.node_count, graph.class_count)),
    )
    assert after[0] == before
    assert result.rules["later"].applied == 1


# -- provenance and statistics ----------------------------------------------------------------


def test_new_nodes_tell_the_rule_and_iteration_that_made_them() -> None:
    graph = EGraph(ToyLanguage())
    add_tree(graph, ("one", ("a",)))
    rules = [
        as_rule(Law((("two", "x"),), (("three", "x"),)), "second"),
        as_rule(Law((("one", "x"),), (("two", "x"),)), "first"),
    ]
    explore(graph, rules, Limits())
    made = {
        graph.language.operator(int(graph.node_operator[row])).name: (
            int(graph.node_rule[row]),
            int(graph.node_iteration[row]),
        )
        for row in graph.usable().tolist()
    }
    assert made["leaf"][0] == made["one"][0] == FROM_INPUT
    assert made["two"] == (1, 0)
    assert made["three"] == (0, 1)


def test_refusals_are_counted_by_reason() -> None:
    @rule(keeps=EXACT, dtypes=ANY)
    def odd_shifts(x):
        """Only even shifts."""
        shift = function("shift")(x)
        yield shift
        if shift.by % 2:
            refuse(f"odd distance {shift.by}")
        yield neg(x)

    ill = as_rule(LAWS["ill"], "ill")
    graph = EGraph(ToyLanguage())
    for by, leaf in [(1, "a"), (1, "b"), (2, "a"), (3, "a")]:
        add_tree(graph, (("shift", (("by", by),)), (leaf,)))
    result = explore(graph, [odd_shifts, ill], Limits())
    assert result.rules["odd_shifts"].refused == {"odd distance 1": 1, "odd distance 3": 1}
    assert result.rules["odd_shifts"].applied == 1
    assert result.rules["odd_shifts"].matches == 1
    assert result.rules["ill"].refused == {"ill-typed": 1}


def test_rules_compute_with_scalars_and_weights_of_the_matched_classes() -> None:
    @rule(keeps=EXACT, dtypes=ANY)
    def times_one(x, one):
        """x * 1 = x for a constant 1."""
        yield mul(x, one)
        if one.value != 1.0:
            refuse("not one")
        yield x

    @rule(keeps=EXACT, dtypes=ANY)
    def fold(x):
        """Negated weights are weights."""
        yield neg(x)
        if not x.is_weight:
            refuse("not a weight")
        yield function("folded")(x)

    graph = EGraph(ToyLanguage())
    one, two = ((("scalar", (("value", v), ("dtype", "float32"))),) for v in (1.0, 2.0))
    unchanged = add_tree(graph, ("mul", ("a",), one))
    other = add_tree(graph, ("mul", ("a",), two))
    for inner in (one, ("a",)):
        add_tree(graph, ("neg", inner))
    result = explore(graph, [times_one, fold], Limits())
    a = graph.find(add_tree(graph, ("a",)))
    assert graph.find(unchanged) == a
    assert graph.find(other) != a
    assert result.rules["fold"].applied == 1
    assert result.rules["fold"].refused == {"not a weight": 1}


def _broken(error: type[Exception]) -> Rule:
    @rule(keeps=REAL, dtypes=ANY)
    def broken(x):
        """A rule with a bug."""
        yield neg(x)
        raise error("a bug")

    return broken


@pytest.mark.parametrize("error", [ValueError, KeyError, AssertionError, TypeError])
def test_a_rule_that_raises_anything_but_a_refusal_is_a_bug_that_surfaces(
    error: type[Exception],
) -> None:
    graph = EGraph(ToyLanguage())
    add_tree(graph, ("neg", ("a",)))
    with pytest.raises(error, match="a bug"):
        explore(graph, [_broken(error)], Limits())
    assert explore(graph, [_broken(Refusal)], Limits()).rules["broken"].refused == {"a bug": 1}


def test_a_rule_without_second_yield_and_one_with_too_few_targets_are_bugs() -> None:
    @rule(keeps=EXACT, dtypes=ANY)
    def silent(x):
        """No target."""
        yield neg(x)

    graph = EGraph(ToyLanguage())
    add_tree(graph, ("neg", ("a",)))
    with pytest.raises(TypeError, match=r"silent .* without a second yield"):
        explore(graph, [silent], Limits())


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two rules named 'c'"):
        explore(chain(2), [COMMUTATIVE, COMMUTATIVE], Limits())


def test_an_unknown_cycle_filter_is_refused() -> None:
    with pytest.raises(ValueError, match="cycles"):
        Limits(cycles="sometimes")


def test_exploring_again_continues_where_the_limit_stopped() -> None:
    graph = chain(6)
    rules = [COMMUTATIVE, ASSOCIATIVE]
    explore(graph, rules, Limits(iterations=1, matches=10**9))
    result = explore(graph, rules, Limits(nodes=10**6, matches=10**9))
    assert result.nodes == 3**6 - 2**7 + 1 + 6
    assert add_tree(graph, ("a0",)) == 0


def test_a_memo_is_shared_by_explorations_of_one_language_only() -> None:
    runs = []
    law = Law((("add", ("add", "x", "y"), "z"),), (("add", "x", ("add", "y", "z")),))

    @rule(keeps=EXACT, dtypes=ANY)
    def counted(x: Any) -> Any:
        """- - x = x."""
        yield neg(neg(x))
        runs.append(1)
        yield x

    language = ToyLanguage()
    memo = Memo(language)
    shapes = []
    for _ in range(2):
        graph = EGraph(language)
        add_tree(graph, ("add", ("add", ("neg", ("neg", ("a",))), ("b",)), ("c",)))
        result = explore(graph, [counted, as_rule(law, "associative")], memo=memo)
        shapes.append((result.nodes, result.classes, result.rules["counted"].applied))
    assert shapes[0] == shapes[1] and shapes[0][2] == 1
    assert len(runs) == 1, "the second exploration finds the first one's template"
    with pytest.raises(ValueError, match="another"):
        explore(chain(2), [counted], memo=memo)


def test_the_history_adds_up_and_a_hook_ends_the_exploration() -> None:
    rules = [COMMUTATIVE, ASSOCIATIVE]
    whole = explore(chain(5), rules, Limits())
    assert [done.number for done in whole.history] == list(range(whole.iterations))
    for name, statistics in whole.rules.items():
        some = [done.rules.get(name, (0, 0)) for done in whole.history]
        assert sum(matches for matches, _ in some) == statistics.matches
        assert sum(applied for _, applied in some) == statistics.applied
        assert statistics.seconds > 0
    assert whole.history[-1].nodes == whole.nodes
    seconds = sum(done.search_seconds + done.apply_seconds for done in whole.history)
    assert 0 < seconds <= whole.seconds
    stopped = explore(chain(5), rules, Limits(), hook=lambda _, done: done.number < 1)
    assert (stopped.stopped, stopped.iterations) == ("hook", 2)
    assert stopped.nodes == whole.history[1].nodes
