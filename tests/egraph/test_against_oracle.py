"""The engine explores exactly what a plain e-graph explores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.egraph.oracle import Oracle, TooSlow, assert_same, interchangeable
from tests.egraph.toy import Law, ToyLanguage, Tree, add_tree, as_rule, rows_as_text, variables_of
from tvm_tensat.egraph import EGraph, Exploration, Limits, explore
from tvm_tensat.extraction.egraph import problem_of
from tvm_tensat.extraction.greedy import greedy_tree

ENOUGH = 300  # e-nodes after which the oracle becomes slow

BY_ONE, BY_TWO = ("shift", (("by", 1),)), ("shift", (("by", 2),))
LAWS = {
    "commutative": Law((("add", "x", "y"),), (("add", "y", "x"),)),
    "associative": Law((("add", ("add", "x", "y"), "z"),), (("add", "x", ("add", "y", "z")),)),
    "distributive": Law(
        (("mul", "x", ("add", "y", "z")),), (("add", ("mul", "x", "y"), ("mul", "x", "z")),)
    ),
    "factored": Law(
        (("add", ("mul", "x", "y"), ("mul", "x", "z")),), (("mul", "x", ("add", "y", "z")),)
    ),
    "idempotent": Law((("add", "x", "x"),), ("x",)),
    "involution": Law((("neg", ("neg", "x")),), ("x",)),
    "shifts": Law(((BY_ONE, (BY_ONE, "x")),), ((BY_TWO, "x"),)),
    "annihilates": Law((("mul", "x", ("neg", "x")),), (("zero",),)),
    "ill": Law((("neg", "x"),), (("ill", "x"),)),
    "fields": Law((("neg", "x"),), ((("get", (("index", 1),)), ("tuple", "x", ("neg", "x"))),)),
    "siblings": Law(
        (("mul", "x", "a"), ("mul", "x", "b")),
        (
            (("get", (("index", 0),)), ("split", ("mul", "x", ("cat", "a", "b")))),
            (("get", (("index", 1),)), ("split", ("mul", "x", ("cat", "a", "b")))),
        ),
    ),
    "pairs": Law(
        (("neg", "x"), ("neg", "y")),
        (
            (("get", (("index", 0),)), ("tuple", ("neg", "x"), ("both", "x", "y"))),
            (("get", (("index", 1),)), ("tuple", ("both", "x", "y"), ("neg", "y"))),
        ),
    ),
    "three": Law(
        (("mul", "x", "y"), ("add", "y", "z"), ("neg", "y")),
        (("mul", "y", "x"), ("add", "z", "y"), ("neg", ("neg", ("neg", "y")))),
    ),
    "mirrored": Law(
        (("add", "x", "y"), ("add", "y", "x")), (("both", "x", "y"), ("both", "y", "x"))
    ),
    "chain": Law((("add", "x", "y"), ("add", "y", "z")), (("both", "x", "y"), ("both", "y", "z"))),
    "same but for another source": Law(
        (("neg", "x"), ("neg", "y"), ("mul", "x", "z")),
        (("neg", "x"), ("both", "x", "y"), ("mul", "z", "x")),
    ),
}

leaves = st.sampled_from([("a",), ("b",), ("c",)])


def _larger(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.sampled_from(["add", "mul", "tuple"]), children, children),
        st.tuples(st.sampled_from(["neg", BY_ONE, BY_TWO, ("get", (("index", 0),))]), children),
    )


trees = st.recursive(leaves, _larger, max_leaves=6)
variables = st.sampled_from(["x", "y", "z"])
patterns = st.one_of(
    _larger(variables), _larger(st.one_of(variables, variables, _larger(variables)))
)


@st.composite
def laws(draw: st.DrawFn) -> Law:
    if draw(st.booleans()):
        return draw(st.sampled_from(list(LAWS.values())))
    sources = draw(st.lists(patterns, min_size=1, max_size=3 if draw(st.booleans()) else 1))
    bound = st.sampled_from(sorted({v for source in sources for v in variables_of(source)}))
    target = st.one_of(bound, _larger(bound), _larger(st.one_of(bound, bound, _larger(bound))))
    return Law(tuple(sources), tuple(draw(target) for _ in sources))


def run_both(
    inputs: Sequence[Tree], some: Sequence[Law], iterations: int, k_multi: int
) -> Exploration:
    """Explore with the oracle until it grows slow, with the engine as often, and compare."""
    oracle, graph = Oracle(), EGraph(ToyLanguage())
    roots = [(oracle.add_tree(tree), add_tree(graph, tree)) for tree in inputs]
    done = 0
    while done < iterations and len(oracle.nodes) < ENOUGH:
        try:
            oracle.iterate([law for law in some if len(law.sources) == 1 or done < k_multi])
        except TooSlow:
            break
        done += 1
    rules = [as_rule(law, f"law{k}") for k, law in enumerate(some)]
    limits = Limits(done, 10**6, 600.0, k_multi, 10**9, "none")
    exploration = explore(graph, rules, limits)
    assert_same(oracle, graph, rows_as_text(graph))
    sizes, ours = oracle.tree_sizes(), tree_sizes(graph, [root for _, root in roots])
    assert [sizes[oracle.find(root)] for root, _ in roots] == ours
    return exploration


def tree_sizes(graph: EGraph, roots: Sequence[int]) -> list[int]:
    """E-nodes of the tree that greedy extraction finds for each root."""
    problem, rows, classes = problem_of(graph, list(roots), np.ones(len(graph.node_operator)))
    choice = greedy_tree(problem)
    position = {number: k for k, number in enumerate(classes.tolist())}
    known: dict[int, int] = {}

    def size(number: int) -> int:
        if number not in known:
            row = int(rows[choice[position[number]]])
            arity = int(graph.operator_arity[graph.node_operator[row]])
            below = graph.children(np.array([row]), arity)[0].tolist()
            known[number] = 1 + sum(map(size, set(below)))
        return known[number]

    return [size(graph.find(root)) for root in roots]


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(trees, min_size=1, max_size=3), st.lists(laws(), min_size=1, max_size=4))
def test_random_laws_on_random_terms_give_the_oracles_e_graph(
    inputs: list[Tree], some: list[Law]
) -> None:
    # The oracle orders e-nodes that were added in one iteration otherwise than the engine, so
    # ordered pairs are compared on the input's e-nodes only.
    ordered = any(
        interchangeable(law.sources, k) for law in some for k in range(len(law.sources) - 1)
    )
    run_both(inputs, some, iterations=3, k_multi=1 if ordered else 2)


@pytest.mark.parametrize("name", LAWS)
def test_each_law_alone_gives_the_oracles_e_graph(name: str) -> None:
    inputs = [
        ("add", ("mul", ("a",), ("b",)), ("mul", ("a",), ("c",))),
        ("mul", ("b",), ("add", ("neg", ("neg", ("a",))), ("c",))),
        ("mul", ("add", ("a",), ("c",)), ("neg", ("add", ("a",), ("c",)))),
        ("add", (BY_ONE, (BY_ONE, (BY_ONE, ("b",)))), ("neg", ("c",))),
        ("mul", ("b",), ("c",)),
        ("add", ("c",), ("a",)),
        ("add", ("a",), ("c",)),
        ("add", ("add", ("b",), ("b",)), ("add", ("add", ("a",), ("b",)), ("c",))),
    ]
    exploration = run_both(inputs, [LAWS[name]], iterations=4, k_multi=1)
    statistics = exploration.rules["law0"]
    assert statistics.matches or statistics.refused


def test_associativity_and_commutativity_saturate_at_the_number_of_subsets() -> None:
    # Of a sum of n terms every non-empty subset is a class: 2^n - 1; each splits into two
    # non-empty ordered halves: 3^n - 2^(n+1) + 1 additions.
    tree: Tree = ("a",)
    for name in "bcdef":
        tree = ("add", tree, (name,))
    graph = EGraph(ToyLanguage())
    add_tree(graph, tree)
    rules = [as_rule(LAWS["commutative"], "c"), as_rule(LAWS["associative"], "a")]
    result = explore(graph, rules, Limits(nodes=10**6, matches=10**9, cycles="none"))
    assert result.stopped == "saturated"
    assert result.classes == 2**6 - 1
    assert result.nodes == 3**6 - 2**7 + 1 + 6
