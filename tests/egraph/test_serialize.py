"""What is written as egraph-serialize JSON is the extraction problem that is read back."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.egraph.test_against_oracle import LAWS
from tests.egraph.toy import ToyLanguage, Tree, add_tree, as_rule
from tvm_tensat.egraph import EGraph, Limits, explore, write_egraph
from tvm_tensat.extraction import extract, problem_from_json
from tvm_tensat.extraction.egraph import problem_of

RULES = [as_rule(law, name) for name, law in LAWS.items()]
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from([("x",), ("y",), ("z",)]),
    lambda inner: (
        st.tuples(st.sampled_from(["add", "mul"]), inner, inner) | st.tuples(st.just("neg"), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(TREES, min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_the_problem_read_back_is_the_one_written(trees: list[Tree], seed: int) -> None:
    graph = EGraph(ToyLanguage())
    roots = [add_tree(graph, tree) for tree in trees]
    explore(graph, RULES, Limits(iterations=3, nodes=300))
    costs = np.random.default_rng(seed).integers(0, 9, len(graph.node_operator)).astype(np.float64)
    given_problem, _, _ = problem_of(graph, roots, costs)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        write_egraph(path, graph, roots, costs)
        read = problem_from_json(path)
        assert list(Path(folder).iterdir()) == [path]
    assert read.class_count == given_problem.class_count
    np.testing.assert_array_equal(read.node_cost, given_problem.node_cost)
    np.testing.assert_array_equal(read.forbidden, given_problem.forbidden)
    np.testing.assert_array_equal(read.child_start, given_problem.child_start)
    ours, theirs = (extract(each, "greedy-dag") for each in (given_problem, read))
    assert ours.cost == theirs.cost


def test_operators_types_and_classes_are_named() -> None:
    graph = EGraph(ToyLanguage())
    root = add_tree(graph, ("add", ("x",), ("x",)))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        write_egraph(path, graph, [root, root], np.array([2.0, np.inf]))
        data = json.loads(path.read_text())
    leaf, total = data["nodes"].values()
    assert (leaf["op"], leaf["children"], leaf["cost"]) == ("leaf[id=x]", [], 2.0)
    assert (total["op"], total["subsumed"], leaf["subsumed"]) == ("add", True, False)
    assert [data["nodes"][child] for child in total["children"]] == [leaf, leaf]
    assert data["root_eclasses"] == [total["eclass"]]
    assert data["class_data"][leaf["eclass"]] == {"type": "float32[2]"}


def test_a_file_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    graph = EGraph(ToyLanguage())
    root = add_tree(graph, ("x",))
    with pytest.raises(OSError):
        write_egraph(tmp_path / "missing" / "graph.json", graph, [root])
    assert not list(tmp_path.iterdir())
