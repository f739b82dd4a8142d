"""``tvmc extract``: JSON out, one line on errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

# Two ways to make `top`: from `dear`, or from `cheap`, which costs less.
NODES = {
    "a": {"op": "top", "cost": 1.0, "eclass": "top", "children": ["b"]},
    "b": {"op": "dear", "cost": 5.0, "eclass": "low", "children": []},
    "c": {"op": "cheap", "cost": 2.0, "eclass": "low", "children": []},
    "d": {"op": "whole", "cost": 3.05, "eclass": "top", "children": []},
}


@pytest.fixture
def egraph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"nodes": NODES, "root_eclasses": ["top"]}))
    return path


@pytest.mark.parametrize("method", ["greedy-tree", "greedy-dag", "local-search", "ilp"])
def test_prints_cost_bound_and_choice_by_the_names_of_the_file(egraph, method, tvmc):
    done = tvmc("extract", egraph, "--method", method)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["cost"] == 3.0
    assert found["choice"] == {"top": "a", "low": "c"}
    assert found["method"] == method
    assert found["bound"] == (3.0 if method == "ilp" else 0.0)


def test_a_pool_lists_the_next_best(egraph, tmp_path, tvmc):
    output = tmp_path / "out.json"
    done = tvmc("extract", egraph, "--pool", 3, "-o", output)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    found = json.loads(output.read_text())
    assert [other["choice"] for other in found["others"]] == [{"top": "d"}]
    assert found["others"][0]["cost"] == 3.05


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (lambda data: data.update(root_eclasses=["none"]), [], "root class 'none' has no e-node"),
        (lambda data: data["nodes"]["a"].update(cost=-1.0), [], "e-node 0 of class 0 costs -1.0"),
        (lambda data: data["nodes"]["a"].update(children=["x"]), [], "has the child 'x'"),
        (lambda data: data.pop("nodes"), [], "is not an e-graph in egraph-serialize JSON"),
        (lambda data: None, ["--time-limit", "0"], "time_limit is 0.0"),
        (lambda data: None, ["--pool", "2", "--method", "greedy-dag"], "needs --method ilp"),
        (lambda data: None, ["--method", "magic"], "invalid choice: 'magic'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(egraph, change, arguments, message, fails):
    data = json.loads(egraph.read_text())
    change(data)
    egraph.write_text(json.dumps(data))
    assert message in fails("extract", egraph, *arguments)


def test_a_file_that_is_absent_or_no_json(tmp_path, fails):
    assert "absent.json: no such file" in fails("extract", tmp_path / "absent.json")
    (tmp_path / "text.json").write_text("text")
    assert "is not an e-graph" in fails("extract", tmp_path / "text.json")
