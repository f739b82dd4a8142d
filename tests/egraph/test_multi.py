"""Multi-pattern rules and group rules."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tests.egraph.toy import Law, ToyLanguage, add_tree, as_rule, function
from tvm_tensat.egraph import EGraph, Limits, explore
from tvm_tensat.egraph.multi import combine, sources_of
from tvm_tensat.egraph.pattern import JoinTooLarge, Matcher
from tvm_tensat.egraph.rule import ANY, EXACT, Term, group_rule, refuse, rule

mul, neg, cat, split, reduce = (function(n) for n in ("mul", "neg", "cat", "split", "reduce"))

SIBLINGS = Law(
    (("mul", "x", "a"), ("mul", "x", "b")),
    (
        (("get", (("index", 0),)), ("split", ("mul", "x", ("cat", "a", "b")))),
        (("get", (("index", 1),)), ("split", ("mul", "x", ("cat", "a", "b")))),
    ),
)
LARGE = Limits(nodes=10**6, seconds=600.0, matches=10**9)


@group_rule(keeps=EXACT, dtypes=ANY, alike=lambda product: product.name)
def all_siblings(x, a):
    """All products of one matrix are one product with all matrices side by side."""
    products = yield mul(x, a)
    wide = split(mul(x, cat(*(product.operands[1] for product in products))))
    yield [wide[k] for k in range(len(products))]


def siblings(count: int) -> tuple[EGraph, list[int]]:
    """A graph of products of one leaf with different leaves."""
    graph = EGraph(ToyLanguage())
    return graph, [add_tree(graph, ("mul", ("x",), (f"a{k}",))) for k in range(count)]


def members(graph: EGraph, number: int) -> list[str]:
    rows = np.flatnonzero(graph.node_alive & (graph.node_class == graph.find(number)))
    return sorted(graph.language.operator(n).name for n in graph.node_operator[rows].tolist())


def test_combinations_are_those_whose_shared_variables_agree() -> None:
    # Algorithm 1, lines 10 to 17, by hand: the product of the matches, filtered.
    law = Law((("mul", "x", "y"), ("add", "y", "z")), (("mul", "x", "y"), ("add", "y", "z")))
    graph = EGraph(ToyLanguage())
    products = {("a", "b"), ("b", "c"), ("c", "c"), ("a", "c")}
    sums = {("b", "a"), ("c", "a"), ("c", "b"), ("a", "a")}
    for name, pairs in (("mul", products), ("add", sums)):
        for left, right in sorted(pairs):
            add_tree(graph, (name, (left,), (right,)))
    declared = as_rule(law)
    found = combine(Matcher(graph, 100), declared, sources_of(declared), limit=100)
    leaf = {add_tree(graph, (name,)): name for name in "abc"}
    rows = {tuple(leaf[number] for number in row) for row in found.variables.tolist()}
    assert rows == {(x, y, z) for x, y in products for other, z in sums if y == other}
    assert len(found) == len(rows)
    with pytest.raises(JoinTooLarge):
        combine(Matcher(graph, 100), declared, sources_of(declared), limit=len(rows) - 1)


@pytest.mark.parametrize("count", [3, 8, 32])
def test_a_multi_rule_combines_each_pair_of_siblings_once(count: int) -> None:
    graph, products = siblings(count)
    assert (graph.node_count, graph.class_count) == (2 * count + 1,) * 2
    result = explore(graph, [as_rule(SIBLINGS)], LARGE)
    pairs = count * (count - 1) // 2
    assert result.rules["law"].applied == pairs
    # Each pair adds cat, mul, split and two gets, of which the gets join the products' classes.
    assert result.nodes == 2 * count + 1 + 5 * pairs
    assert result.classes == 2 * count + 1 + 3 * pairs
    assert result.stopped == "saturated", "new products take no part after k_multi iterations"
    for product in products:
        assert members(graph, product) == ["get"] * (count - 1) + ["mul"]


@pytest.mark.parametrize("count", [3, 8, 32])
def test_a_group_rule_merges_all_siblings_in_one_iteration_with_linearly_many_nodes(
    count: int,
) -> None:
    graph, products = siblings(count)
    result = explore(graph, [all_siblings], LARGE)
    assert result.stopped == "saturated"
    assert result.iterations == 2, "the second finds nothing new"
    assert result.nodes == 2 * count + 1 + count + 3
    wide = [op.arity for op in graph.language.operators if op.name == "cat"]
    assert wide == [count]
    for product in products:
        assert members(graph, product) == ["get", "mul"]
    assert set(graph.node_iteration[graph.node_rule == 0].tolist()) == {0}


def test_members_keep_their_order_of_birth() -> None:
    graph, _ = siblings(5)
    explore(graph, [all_siblings], LARGE)
    row = next(
        r
        for r in graph.usable().tolist()
        if graph.language.operator(int(graph.node_operator[r])).name == "cat"
    )
    leaves = [add_tree(graph, (f"a{k}",)) for k in range(5)]
    assert graph.children(np.array([row]), 5)[0].tolist() == leaves


def test_members_that_depend_on_other_members_are_left_out() -> None:
    graph = EGraph(ToyLanguage())
    free = [add_tree(graph, ("mul", ("x",), (name,))) for name in "abc"]
    bound = add_tree(graph, ("mul", ("x",), ("neg", ("mul", ("x",), ("a",)))))
    result = explore(graph, [all_siblings], LARGE)
    assert result.rules["all_siblings"].applied == 1
    assert members(graph, bound) == ["mul"]
    for number in free:
        assert members(graph, number) == ["get", "mul"]
    assert result.filtered == 0


def test_groups_are_by_shared_operand_and_likeness() -> None:
    @group_rule(keeps=EXACT, dtypes=ANY, alike=lambda shift: shift.by)
    def shifts(x, a):
        """Shifted pairs of equal distance are one."""
        found = yield function("shift")(x, a)
        wide = function("wide")(x, *(one.operands[1] for one in found), by=found[0].by)
        yield [wide[k] for k in range(len(found))]

    graph = EGraph(ToyLanguage())
    for by, shared, other in [(1, "x", "a"), (1, "x", "b"), (2, "x", "a"), (2, "x", "c")]:
        add_tree(graph, (("shift", (("by", by),)), (shared,), (other,)))
    add_tree(graph, (("shift", (("by", 1),)), ("y",), ("a",)))  # alone
    assert explore(graph, [shifts], LARGE).rules["shifts"].applied == 2
    wide = [op for op in graph.language.operators if op.name == "wide"]
    assert sorted((op["by"], op.arity) for op in wide) == [(1, 3), (2, 3)]


def test_a_term_that_refuses_likeness_is_in_no_group() -> None:
    def alike(product: Term) -> str:
        if product.by == 3:
            refuse("three")
        return "same"

    @group_rule(keeps=EXACT, dtypes=ANY, alike=alike)
    def shifts(x, a):
        """All but the threes."""
        found = yield function("shift")(x, a)
        wide = function("wide")(x, *(one.operands[1] for one in found))
        yield [wide[k] for k in range(len(found))]

    graph = EGraph(ToyLanguage())
    for by in (1, 1, 3, 3, 1):
        other = f"a{graph.node_count}"
        add_tree(graph, (("shift", (("by", by),)), ("x",), (other,)))
    explore(graph, [shifts], LARGE)
    assert [op.arity for op in graph.language.operators if op.name == "wide"] == [4]


def test_a_group_rule_with_no_variable_but_the_shared_one_merges_all_its_users() -> None:
    @group_rule(keeps=EXACT, dtypes=ANY, alike=lambda part: "part")
    def parts(x):
        """All negated parts of one value are fields of one negated split."""
        found = yield neg(function("part")(x))
        whole = neg(function("parts")(x, at=tuple(one.operands[0].at for one in found)))
        yield [whole[k] for k in range(len(found))]

    graph = EGraph(ToyLanguage())
    for at in range(4):
        add_tree(graph, ("neg", (("part", (("at", at),)), ("x",))))
    assert explore(graph, [parts], LARGE).rules["parts"].applied == 1
    made = [op for op in graph.language.operators if op.name == "parts"]
    assert [op["at"] for op in made] == [(0, 1, 2, 3)]


def test_nodes_made_by_merging_rules_take_no_part_in_groups_but_rewritten_ones_do() -> None:
    @rule(keeps=EXACT, dtypes=ANY)
    def unwrapped(x, a):
        """A wrapped product is a product."""
        yield function("wrapped")(x, a)
        yield mul(x, a)

    graph = EGraph(ToyLanguage())
    for name in "abc":
        add_tree(graph, ("wrapped", ("x",), (name,)))
    result = explore(graph, [unwrapped, all_siblings], LARGE)
    assert result.stopped == "saturated"
    assert result.rules["all_siblings"].applied == 1
    assert [op.arity for op in graph.language.operators if op.name == "cat"] == [3]


def test_three_sources_are_combined_in_order_of_birth() -> None:
    law = Law(
        tuple(("mul", "x", v) for v in "abc"),
        tuple(((("get", (("index", k),))), ("split", ("cat", "a", "b", "c"))) for k in range(3)),
    )
    graph, products = siblings(6)
    explore(graph, [as_rule(law)], LARGE)
    leaves = [graph.find(add_tree(graph, (f"a{k}",))) for k in range(6)]
    rows = [
        r
        for r in graph.usable().tolist()
        if graph.language.operator(int(graph.node_operator[r])).name == "cat"
    ]
    made = {tuple(graph.children(np.array([r]), 3)[0].tolist()) for r in rows}
    assert made == set(combinations(leaves, 3))
    assert len(products) == 6
