"""Pictures of e-graphs."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draw.support import boxes, cells, edges, overlapping, texts
from tests.egraph.toy import Law, ToyLanguage, add_tree, as_rule
from tvm_tensat.draw import draw_egraph
from tvm_tensat.egraph import EGraph, explore

COMMUTES = as_rule(Law((("add", "x", "y"),), (("add", "y", "x"),)), "commutes")
NEUTRAL = as_rule(Law((("one", "x"),), ("x",)), "neutral")

QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def explored(tree, *rules) -> tuple[EGraph, int]:
    graph = EGraph(ToyLanguage())
    root = add_tree(graph, tree)
    explore(graph, rules)
    return graph, root


@st.composite
def trees(draw: st.DrawFn, depth: int = 4):
    if depth == 0 or draw(st.booleans()):
        return (draw(st.sampled_from("abc")),)
    name, arity = draw(st.sampled_from([("add", 2), ("one", 1), ("neg", 1)]))
    return (name, *(draw(trees(depth - 1)) for _ in range(arity)))


@QUIET
@given(trees())
def test_every_e_node_and_every_edge_is_drawn_once_and_nothing_overlaps(tree) -> None:
    graph, root = explored(tree, COMMUTES, NEUTRAL)
    picture = draw_egraph(graph, [root], most=1000)
    alive = np.flatnonzero(graph.node_alive)
    assert set(cells(picture)) == {f"e-node {row}" for row in alive}
    operands = sum(graph.language.operator(int(o)).arity for o in graph.node_operator[alive])
    assert edges(picture).total() == operands
    assert overlapping(boxes(picture)) == []


def test_what_is_new_and_what_is_chosen_is_marked() -> None:
    graph, root = explored(("add", ("a",), ("b",)), COMMUTES)
    by_operands = {
        tuple(graph.children(np.array([row]), 2)[0]): row
        for row in np.flatnonzero(graph.node_alive).tolist()
        if graph.operator_arity[graph.node_operator[row]] == 2
    }
    first, second = by_operands[0, 1], by_operands[1, 0]
    assert cells(draw_egraph(graph, [root], new_since=0)) == {
        "e-node 0": "plain",
        "e-node 1": "plain",
        f"e-node {first}": "plain",
        f"e-node {second}": "new",
    }
    chosen = cells(draw_egraph(graph, [root], np.array([0, 1, second])))
    assert [name for name, role in chosen.items() if role != "chosen"] == [f"e-node {first}"]


def test_filtered_e_nodes_are_crossed_out() -> None:
    graph, root = explored(("one", ("a",)), NEUTRAL)
    picture = draw_egraph(graph, [root])
    assert sorted(cells(picture).values()) == ["filtered", "plain"]
    assert picture.svg.count('class="tensat-cross"') == 1
    assert picture.svg.count('class="tensat-filtered-edge"') == 1


def test_a_large_e_graph_is_drawn_in_part_which_is_said() -> None:
    tree = ("a",)
    for _ in range(30):
        tree = ("neg", ("one", tree))
    graph, root = explored(tree)
    picture = draw_egraph(graph, [root], most=10, caption="a chain")
    assert texts(picture)[:2] == [
        "a chain",
        "10 of 61 e-classes and 10 of 61 e-nodes are shown: those nearest to the result",
    ]
    assert len(cells(picture)) == 10 and edges(picture).total() == 9


def test_the_same_e_graph_gives_the_same_picture() -> None:
    tree = ("add", ("add", ("a",), ("b",)), ("one", ("c",)))
    first, second = (draw_egraph(*_with_root(explored(tree, COMMUTES, NEUTRAL))) for _ in "12")
    assert first.svg == second.svg


def _with_root(made: tuple[EGraph, int]) -> tuple[EGraph, list[int]]:
    return made[0], [made[1]]
