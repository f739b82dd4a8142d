"""The e-graph's tables: hash-consing, congruence, and what classes know."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.egraph.oracle import Oracle, assert_same
from tests.egraph.toy import ToyLanguage, Tree, add_tree, rows_as_text
from tvm_tensat.egraph import FROM_INPUT, EGraph, columns, table
from tvm_tensat.egraph.language import Operator, TensorInfo, TypeInfo

leaves = st.sampled_from([("a",), ("b",), ("c",), ("d",)])
trees: st.SearchStrategy[Tree] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("add"), inner, inner),
        st.tuples(st.sampled_from(["neg", ("shift", (("by", 1),))]), inner),
        st.tuples(st.just("three"), inner, inner, inner),
    ),
    max_leaves=8,
)
# Positions among the classes there are, taken modulo their number.
steps = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=4)


def row_of(graph: EGraph, number: int) -> int:
    """The row that made a class of the input."""
    return int(np.flatnonzero(graph.node_class == number)[0])


@settings(max_examples=150, deadline=None)
@given(st.lists(trees, min_size=1, max_size=4), st.lists(st.one_of(steps, trees), max_size=5))
def test_adding_and_merging_in_any_order_gives_the_oracles_e_graph(
    first: list[Tree], then: list[list[tuple[int, int]] | Tree]
) -> None:
    oracle, graph = Oracle(), EGraph(ToyLanguage())
    same = {oracle.add_tree(tree): add_tree(graph, tree) for tree in first}
    for step in then:
        if isinstance(step, tuple):
            same[oracle.add_tree(step)] = add_tree(graph, step)
            continue
        known = list(same)
        pairs = [(known[a % len(known)], known[b % len(known)]) for a, b in step]
        for a, b in pairs:
            oracle.union(a, b)
        ours = np.array([(same[a], same[b]) for a, b in pairs], np.int64).reshape(-1, 2)
        graph.union(ours[:, 0], ours[:, 1])
        oracle.rebuild()
        graph.rebuild()
    oracle.rebuild()
    graph.rebuild()
    # Merging can leave a class without a derivation from leaves only where it merged nothing here:
    # every class was added as a tree, so the isomorphism can be followed from the leaves up.
    assert_same(oracle, graph, rows_as_text(graph))
    for theirs, ours_too in same.items():
        for other, number in same.items():
            equal = graph.find(ours_too) == graph.find(number)
            assert equal == (oracle.find(theirs) == oracle.find(other))


def test_an_equal_term_is_found_again_and_rows_are_numbered_by_birth() -> None:
    graph = EGraph(ToyLanguage())
    first = add_tree(graph, ("add", ("a",), ("neg", ("b",))))
    assert add_tree(graph, ("add", ("a",), ("neg", ("b",)))) == first
    assert (graph.node_count, graph.class_count) == (4, 4)
    assert set(graph.node_rule.tolist()) == {FROM_INPUT}
    for row in graph.usable().tolist():
        _, children = graph.edges(np.array([row]))
        assert (children < graph.node_class[row]).all()


def test_a_batch_with_repeated_and_known_rows_adds_each_once_in_order() -> None:
    graph = EGraph(ToyLanguage())
    a, b, known = (add_tree(graph, t) for t in [("a",), ("b",), ("add", ("a",), ("b",))])
    add, _ = graph.language.make("add", {}, (0, 0))
    children = np.array([[b, b], [a, b], [b, a], [b, b], [a, a]], np.int64)
    zeros = np.zeros(5, np.int64)
    made = graph.add_batch(zeros + add, children, zeros, np.arange(5), 3)
    assert made[1] == known
    assert made[0] == made[3]
    assert len(set(made.tolist())) == 4
    assert graph.node_rule[-3:].tolist() == [0, 2, 4], "each new row is its first maker's, in order"
    assert graph.node_iteration[-3:].tolist() == [3, 3, 3]


def test_congruence_reaches_the_top_of_a_deep_stack() -> None:
    graph = EGraph(ToyLanguage())
    left, right = ("a",), ("b",)
    for _ in range(200):
        left, right = ("neg", left), ("neg", right)
    tops = add_tree(graph, left), add_tree(graph, right)
    a, b = add_tree(graph, ("a",)), add_tree(graph, ("b",))
    graph.union(np.array([a]), np.array([b]))
    graph.rebuild()
    assert graph.find(tops[0]) == graph.find(tops[1])
    assert (graph.node_count, graph.class_count) == (202, 201)


@settings(max_examples=60, deadline=None)
@given(st.lists(trees, min_size=1, max_size=4), steps)
def test_colliding_hashes_change_the_seed_and_nothing_else(
    inputs: list[Tree], merges: list[tuple[int, int]]
) -> None:
    def weakened(right_hash):
        def weak_hash(*columns):
            strong = right_hash(*columns)
            return strong % np.uint64(3) if columns[-1] < 2 else strong

        return weak_hash

    with pytest.MonkeyPatch.context() as patch:
        for name in ("hash_rows", "hash_lists"):
            patch.setattr(table, name, weakened(getattr(table, name)))
        weak, strong = EGraph(ToyLanguage()), EGraph(ToyLanguage())
        for graph in (weak, strong):
            if graph is strong:
                patch.undo()
            classes = [add_tree(graph, tree) for tree in inputs[:1]]
            graph.rebuild()
            classes += [add_tree(graph, tree) for tree in inputs[1:]]
            pairs = [(classes[a % len(classes)], classes[b % len(classes)]) for a, b in merges]
            pair = np.array(pairs, np.int64).reshape(-1, 2)
            graph.union(pair[:, 0], pair[:, 1])
            graph.rebuild()
    assert rows_as_text(weak) == rows_as_text(strong)


class TypedToy(ToyLanguage):
    """Leaf "i" is an integer (type 1); everything else has type 0."""

    def info(self, type_number: int) -> TypeInfo:
        return TensorInfo((2,), ["float32", "int32"][type_number])


def test_classes_of_different_types_cannot_be_merged() -> None:
    graph = EGraph(TypedToy())
    a = graph.add(graph.language.make("leaf", {"id": "a"}, ())[0], [], 0)
    i = graph.add(graph.language.make("leaf", {"id": "i"}, ())[0], [], 1)
    with pytest.raises(ValueError, match="different types"):
        graph.union(np.array([a]), np.array([i]))
    assert graph.class_type.tolist() == [0, 1]


# -- analyses --------------------------------------------------------------------------------


def weights_by_definition(graph: EGraph) -> dict[int, bool]:
    """A class is a weight when one of its e-nodes is foldable and has weights for children."""
    weight = {graph.find(number): False for number in graph.node_class.tolist()}
    rows = rows_as_text(graph)
    changed = True
    while changed:
        changed = False
        for (operator, children), number in rows.items():
            foldable = operator.name not in ("leaf", "opaque")
            if foldable and all(weight[child] for child in children) and not weight[number]:
                weight[number] = changed = True
    return weight


weighty = st.recursive(
    st.sampled_from([("a",), ("b",), (("weight", (("id", 1),)),), (("weight", (("id", 2),)),)]),
    lambda inner: st.one_of(
        st.tuples(st.just("add"), inner, inner),
        st.tuples(st.sampled_from(["neg", "opaque"]), inner),
    ),
    max_leaves=8,
)


@settings(max_examples=120, deadline=None)
@given(st.lists(weighty, min_size=2, max_size=5), steps, st.lists(weighty, max_size=2))
def test_a_class_is_a_weight_exactly_when_it_can_be_computed_from_weights(
    inputs: list[Tree], merges: list[tuple[int, int]], later: list[Tree]
) -> None:
    graph = EGraph(ToyLanguage())
    classes = [add_tree(graph, tree) for tree in inputs]
    pairs = [(classes[a % len(classes)], classes[b % len(classes)]) for a, b in merges]
    pair = np.array(pairs, np.int64).reshape(-1, 2)
    graph.union(pair[:, 0], pair[:, 1])
    graph.rebuild()
    for tree in later:
        add_tree(graph, tree)
    for number, expected in weights_by_definition(graph).items():
        assert graph.class_weight[number] == expected


def test_a_scalar_is_known_to_every_class_it_is_merged_with() -> None:
    graph = EGraph(ToyLanguage())
    one = graph.language.make("scalar", {"value": 1.0, "dtype": "float32"}, ())[0]
    splat = graph.language.make("weight", {"id": 3, "splat": 2.0}, ())[0]
    a, b = add_tree(graph, ("a",)), add_tree(graph, ("neg", ("a",)))
    numbers = [graph.add(operator, [], 0) for operator in (one, splat)]
    graph.union(np.array([a, b]), np.array(numbers))
    graph.rebuild()
    assert graph.class_scalar[graph.find(a)] == one
    assert graph.class_scalar[graph.find(b)] == splat
    add_tree(graph, ("neg", ("b",)))
    assert graph.class_scalar[graph.find(add_tree(graph, ("neg", ("b",))))] == -1
    assert Operator("weight", (("id", 3), ("splat", 2.0)), 0) == graph.language.operator(splat)


def test_edges_and_children_agree_and_dead_rows_are_not_usable() -> None:
    graph = EGraph(ToyLanguage())
    add_tree(graph, ("three", ("a",), ("neg", ("a",)), ("neg", ("b",))))
    a, b = add_tree(graph, ("a",)), add_tree(graph, ("b",))
    graph.union(np.array([a]), np.array([b]))
    graph.rebuild()
    rows = graph.usable()
    assert len(rows) == 4
    owner, child = graph.edges(rows)
    for position, row in enumerate(rows.tolist()):
        arity = graph.language.operator(int(graph.node_operator[row])).arity
        expected = graph.children(np.array([row]), arity)[0].tolist()
        assert child[owner == position].tolist() == expected
        assert all(graph.find(number) == number for number in expected)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2**40), max_size=4), min_size=1, max_size=6),
    st.integers(0, 50),
)
def test_rows_and_lists_have_the_same_hashes(rows: list[list[int]], seed: int) -> None:
    operator = np.arange(len(rows))
    padded = np.array([row + [-1] * (4 - len(row)) for row in rows], np.int64)
    children = np.array([child for row in rows for child in row], np.int64)
    arity = np.array([len(row) for row in rows], np.int64)
    assert np.array_equal(
        columns.hash_rows(operator, padded, seed),
        columns.hash_lists(operator, children, arity, seed),
    )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["number", "put", "remove"]),
            st.lists(st.sampled_from([2, 3, 2**63, 2**63 + 1, *range(100, 160)]), max_size=40),
        ),
        max_size=12,
    )
)
def test_a_hash_table_is_a_dictionary(steps: list[tuple[str, list[int]]]) -> None:
    # Few hashes that share their first bits collide in the first slots.
    hashed, plain, number = columns.HashTable(), {}, 0
    for what, some in steps:
        if what == "number":
            some = [key for key in some if key not in plain]
            numbers, firsts = hashed.number(np.array(some, np.uint64), number)
            for key in some:
                if key not in plain:
                    plain[key] = number
                    number += 1
            assert numbers.tolist() == [plain[key] for key in some]
            assert [some[at] for at in firsts.tolist()] == list(dict.fromkeys(some))
        elif what == "put":
            some = list(dict.fromkeys(some))
            hashed.put(np.array(some, np.uint64), np.arange(len(some)) + 1000)
            plain |= {key: 1000 + at for at, key in enumerate(some)}
        else:
            some = [key for key in dict.fromkeys(some) if key in plain]
            hashed.remove(np.array(some, np.uint64))
            for key in some:
                del plain[key]
        asked = [2, 3, 2**63, 2**63 + 1, *range(100, 170)]
        found = hashed.find(np.array(asked, np.uint64)).tolist()
        assert found == [plain.get(key, -1) for key in asked]
