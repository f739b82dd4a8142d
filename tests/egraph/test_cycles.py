"""Cycle filtering keeps what is visible acyclic and keeps every class derivable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.egraph.test_against_oracle import LAWS, laws, trees
from tests.egraph.test_multi import all_siblings
from tests.egraph.toy import Law, ToyLanguage, Tree, add_tree, as_rule
from tvm_tensat.egraph import EGraph, Limits, explore
from tvm_tensat.egraph.cycles import Dependence, resolve_cycles

CYCLIC_LAWS = [
    Law((("mul", "x", "y"),), ("x",)),  # merges a class with its child
    Law((("neg", ("neg", "x")),), ("x",)),
    Law((("add", "x", "x"),), ("x",)),
    Law((("neg", "x"), ("mul", "x", "y")), (("mul", "x", "y"), ("neg", "x"))),
    Law((("add", "x", "y"),), (("add", ("neg", "y"), ("neg", ("neg", "x"))),)),
    *(LAWS[name] for name in ("siblings", "pairs", "commutative", "associative", "distributive")),
]


def visible(graph: EGraph) -> list[tuple[int, list[int]]]:
    """The visible e-nodes as (class, child classes), read row by row."""
    found = []
    for row in range(len(graph.node_operator)):
        if graph.node_alive[row] and not graph.node_filtered[row]:
            arity = graph.language.operator(int(graph.node_operator[row])).arity
            start = int(graph.node_start[row])
            children = graph.operands[start : start + arity].tolist()
            found.append(
                (graph.find(int(graph.node_class[row])), [graph.find(c) for c in children])
            )
    return found


def has_cycle(edges: dict[int, set[int]]) -> bool:
    """Depth-first search with three colours."""
    done: set[int] = set()
    open_now: set[int] = set()
    for start in edges:
        stack = [(start, iter(edges[start]))] if start not in done else []
        open_now.update(n for n, _ in stack)
        while stack:
            number, rest = stack[-1]
            for child in rest:
                if child in open_now:
                    return True
                if child not in done and child in edges:
                    stack.append((child, iter(edges[child])))
                    open_now.add(child)
                    break
            else:
                done.add(number)
                open_now.discard(number)
                stack.pop()
    return False


def check(graph: EGraph) -> None:
    """What holds after each iteration: acyclic, and every class has a visible derivation."""
    nodes = visible(graph)
    edges: dict[int, set[int]] = {}
    for number, children in nodes:
        edges.setdefault(number, set()).update(children)
    assert not has_cycle(edges), "the visible e-graph has a cycle"
    derivable: set[int] = set()
    changed = True
    while changed:
        changed = False
        for number, children in nodes:
            if number not in derivable and derivable.issuperset(children):
                derivable.add(number)
                changed = True
    alive = {graph.find(n) for n in graph.node_class[graph.node_alive].tolist()}
    assert derivable == alive, "a class has no visible derivation"


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(trees, min_size=1, max_size=4),
    st.lists(st.one_of(st.sampled_from(CYCLIC_LAWS), laws()), min_size=1, max_size=5),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(["efficient", "vanilla"]),
)
def test_after_each_iteration_what_is_visible_is_acyclic_and_every_class_derivable(
    inputs: list[Tree], some: list[Law], k_multi: int, grouped: bool, cycles: str
) -> None:
    graph = EGraph(ToyLanguage())
    roots = [add_tree(graph, tree) for tree in inputs]
    rules = [as_rule(law, f"law{k}") for k, law in enumerate(some)]
    limits = Limits(4, 400 if cycles == "efficient" else 80, 600.0, k_multi, 200, cycles)
    result = explore(
        graph,
        [*rules, all_siblings] if grouped else rules,
        limits,
        hook=lambda *_: check(graph),
    )
    check(graph)
    assert result.filtered == np.count_nonzero(graph.node_filtered & graph.node_alive)
    alive = {graph.find(n) for n in graph.node_class[graph.usable()].tolist()}
    assert {graph.find(root) for root in roots} <= alive


def test_an_identity_that_merges_a_class_with_its_child_hides_the_identity() -> None:
    graph = EGraph(ToyLanguage())
    top = add_tree(graph, ("neg", ("mul", ("a",), ("one",))))
    result = explore(graph, [as_rule(Law((("mul", "x", "y"),), ("x",)))], Limits())
    assert result.filtered == 1
    hidden = int(np.flatnonzero(graph.node_filtered)[0])
    assert graph.language.operator(int(graph.node_operator[hidden])).name == "mul"
    assert graph.find(top) == graph.find(add_tree(graph, ("neg", ("a",))))
    check(graph)


def test_a_field_of_a_tuple_is_hidden_and_not_the_newer_forms_beside_it() -> None:
    # (a, f(a))[0] = a puts a, the tuple and f(a) on one cycle, on which g(h(a)) = f(a) is newest.
    graph = EGraph(ToyLanguage())
    pair = ("tuple", ("a",), ("f", ("a",)))
    for index in (0, 1):
        add_tree(graph, (("get", (("index", index),)), pair))
    explore(graph, [as_rule(Law((("f", "x"),), (("g", ("h", "x")),)))], Limits())
    names = {
        graph.language.operator(int(number)).name
        for number in graph.node_operator[np.flatnonzero(graph.node_filtered & graph.node_alive)]
    }
    assert names == {"get"}
    check(graph)


def test_products_of_which_one_depends_on_the_other_are_discarded_before_they_are_applied() -> None:
    graph = EGraph(ToyLanguage())
    add_tree(graph, ("mul", ("x",), ("neg", ("mul", ("x",), ("a",)))))
    result = explore(graph, [as_rule(LAWS["siblings"])], Limits())
    assert result.rules["law"].cyclic == 1
    assert result.rules["law"].applied == 0
    assert result.filtered == 0


def test_two_matches_that_close_a_cycle_together_are_found_after_they_are_applied() -> None:
    # y·a and y·f(x·b) may be merged, and so may x·b and x·g(y·a); both together may not.
    inputs = [
        ("mul", ("y",), ("a",)),
        ("mul", ("y",), ("f", ("mul", ("x",), ("b",)))),
        ("mul", ("x",), ("g", ("mul", ("y",), ("a",)))),
    ]
    graph = EGraph(ToyLanguage())
    for tree in inputs:
        add_tree(graph, tree)
    result = explore(graph, [as_rule(LAWS["siblings"])], Limits())
    assert result.rules["law"].cyclic == 0
    assert result.rules["law"].applied == 2
    assert result.filtered > 0
    check(graph)


def test_without_filtering_the_cycle_stays() -> None:
    graph = EGraph(ToyLanguage())
    add_tree(graph, ("mul", ("a",), ("one",)))
    law = as_rule(Law((("mul", "x", "y"),), ("x",)))
    assert explore(graph, [law], Limits(cycles="none")).filtered == 0
    with pytest.raises(AssertionError, match="cycle"):
        check(graph)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(trees, min_size=2, max_size=6),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=6),
)
def test_closing_a_cycle_is_reaching_from_below(
    inputs: list[Tree], pairs: list[tuple[int, int]]
) -> None:
    graph = EGraph(ToyLanguage())
    for tree in inputs:
        add_tree(graph, tree)
    count = graph.class_count
    below_of: list[set[int]] = []
    for number, children in visible(graph):  # the input's rows have their children before them
        assert number == len(below_of)
        below_of.append({number}.union(*(below_of[child] for child in children)))
    above = np.array([a % count for a, _ in pairs], np.int64)
    below = np.array([b % count for _, b in pairs], np.int64)
    expected = [a in below_of[b] for a, b in zip(above.tolist(), below.tolist(), strict=True)]
    assert Dependence(graph).closes_cycle(above, below).tolist() == expected


@settings(max_examples=100, deadline=None)
@given(
    st.lists(trees, min_size=1, max_size=6),
    st.lists(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=5), max_size=4),
)
def test_any_merges_of_any_classes_leave_an_acyclic_derivation_of_every_class(
    inputs: list[Tree], rounds: list[list[tuple[int, int]]]
) -> None:
    # Merges that no rule would make, so nothing is kept but what the filter itself keeps.
    graph = EGraph(ToyLanguage())
    for tree in inputs:
        add_tree(graph, tree)
    graph.rebuild()
    for pairs in rounds:
        classes = np.unique(graph.node_class[graph.node_alive])
        pair = np.array([(a % len(classes), b % len(classes)) for a, b in pairs], np.int64)
        some = classes[pair.reshape(-1, 2)]
        graph.union(some[:, 0], some[:, 1])
        graph.rebuild()
        resolve_cycles(graph)
        check(graph)
        assert resolve_cycles(graph) == 0
