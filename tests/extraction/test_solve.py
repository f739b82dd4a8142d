"""`extract` as its callers see it: errors, limits, solvers that misbehave, public data."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.extraction.oracle import (
    check_extraction,
    deep_network,
    make_problem,
    random_problem,
)
from tvm_tensat.extraction import (
    METHODS,
    ExtractionError,
    extract,
    problem_from_json,
    process,
    solve,
)

ILP = [method for method in METHODS if method.startswith("ilp")]


@pytest.fixture
def shared_work():
    """Two ways for the root: over classes 1 and 2, which share class 3, or over 4 and 5.

    By hand: tree costs are (1 + 4) + (1 + 4) = 10 against 4.5 + 4.5 = 9, DAG costs 1 + 1 + 4 = 6
    against 9.
    """
    return make_problem(
        [
            (0, 0.0, [1, 2]),
            (0, 0.0, [4, 5]),
            (1, 1.0, [3]),
            (2, 1.0, [3]),
            (3, 4.0, []),
            (4, 4.5, []),
            (5, 4.5, []),
        ],
        roots=[0],
        class_count=6,
    )


@pytest.fixture(scope="module")
def hard():
    """A cyclic e-graph on which TENSAT's program proves nothing for minutes."""
    return random_problem(7, 400, back=0.3)


def test_tree_cost_counts_shared_work_twice_and_dag_cost_once(shared_work):
    by_tree = extract(shared_work, "greedy-tree")
    by_dag = extract(shared_work, "greedy-dag")
    assert by_tree.choice[0] == 1 and by_tree.cost == 9.0
    assert by_dag.choice[0] == 0 and by_dag.cost == 6.0
    assert by_dag.choice.tolist() == [0, 2, 3, 4, -1, -1]
    assert by_dag.status == by_tree.status == "greedy"
    assert by_dag.bound == 0 and by_dag.gap == 1


@pytest.mark.parametrize("method", ILP)
@pytest.mark.parametrize("solver", ["highs", "cbc"])
def test_every_ilp_method_finds_and_proves_the_optimum(shared_work, method, solver):
    found = extract(shared_work, method, solver=solver)
    assert found.cost == 6.0 and found.status == "optimal" and found.gap <= 1e-6


def test_cycle_of_zero_cost_is_not_chosen():
    """Classes 1 and 2 refer to each other for nothing; only class 1 has a way out, of cost 3."""
    problem = make_problem(
        [(0, 1.0, [1, 2]), (1, 0.0, [2]), (2, 0.0, [1]), (1, 3.0, [])], roots=[0], class_count=3
    )
    for method in METHODS:
        found = extract(problem, method)
        assert check_extraction(problem, found.choice) == 4.0, method


def test_program_without_order_rows_says_that_cycles_were_cut_off():
    """Classes 1 and 2 lead to each other; greedy pays 5 + 5.5 for both ways out, best is 5 + 1."""
    nodes = [
        (0, 0.0, [1, 2]),
        (1, 1.0, [2]),
        (2, 1.0, [1]),
        (1, 5.0, []),
        (2, 5.5, []),
    ]
    problem = make_problem(nodes, roots=[0], class_count=3)
    found = extract(problem, "ilp-no-cycles")
    assert found.cost == 6.0
    assert found.status == "optimal (solved 2 times, cutting cycles off)"


def test_unfiltered_e_nodes_are_chosen_and_filtered_ones_are_not(shared_work):
    forbidden = shared_work.forbidden.copy()
    forbidden[2] = True
    for method in METHODS:
        assert extract(replace(shared_work, forbidden=forbidden), method).cost == 9.0, method


def test_deep_graph_with_exponential_tree_cost_is_extracted():
    """3000 classes, each using the two before it: the tree cost (Fibonacci) overflows a float."""
    depth = 3000
    nodes = [(0, 1.0, []), (1, 1.0, [0])]
    nodes += [(number, 1.0, [number - 1, number - 2]) for number in range(2, depth)]
    problem = make_problem(nodes, roots=[depth - 1], class_count=depth)
    for method in ("greedy-tree", "greedy-dag", "ilp"):
        assert extract(problem, method).cost == depth


def test_fifty_thousand_e_nodes_of_a_deep_network_are_solved_to_optimality():
    problem = deep_network(6250)
    least = [
        problem.node_cost[problem.node_class == number].min()
        for number in range(problem.class_count)
    ]
    for method in ("greedy-dag", "ilp"):
        found = extract(problem, method)
        assert found.cost == math.fsum(least)
    assert found.status == "optimal"


@pytest.mark.parametrize("method", METHODS)
def test_free_graph_is_optimal_at_once(method):
    problem = make_problem([(0, 0.0, [1]), (1, 0.0, []), (1, 0.0, [0])], [0], 2)
    found = extract(problem, method)
    assert (found.cost, found.gap, found.status) == (0.0, 0.0, "optimal")


@pytest.mark.parametrize(
    ("nodes", "roots", "classes", "message"),
    [
        ([], [0], 1, "no e-nodes"),
        ([(0, 1.0, [])], [], 1, "no root class"),
        ([(0, 1.0, []), (0, -2.0, [])], [0], 1, r"e-node 1 of class 0 costs -2.0 \(1 such"),
        ([(0, math.nan, [])], [0], 1, "e-node 0 of class 0 costs nan"),
        ([(0, 1.0, [1]), (1, 1.0, [0])], [0], 2, "root class 0 has no derivation"),
        ([(0, math.inf, [])], [0], 1, "root class 0 has no derivation .* 1 cost inf"),
        ([(0, 1e308, [1]), (1, 1e308, [])], [0], 2, "add up to more than a float64 holds"),
        ([(0, 1.0, [2])], [0], 2, r"child_class\[0\] is class 2; classes are 0..1"),
        ([(0, 1.0, [])], [5], 1, r"roots\[0\] is class 5"),
    ],
)
def test_problem_that_has_no_solution_gives_one_clear_error(nodes, roots, classes, message):
    with pytest.raises(ExtractionError, match=message):
        extract(make_problem(nodes, roots, classes))


def test_arrays_that_do_not_fit_give_one_clear_error(shared_work):
    with pytest.raises(ExtractionError, match="node_cost has 3 entries; 7 are expected"):
        extract(replace(shared_work, node_cost=np.zeros(3)))
    broken = shared_work.child_start.copy()
    broken[-1] += 1
    with pytest.raises(ExtractionError, match="child_start must rise from 0 to 6"):
        extract(replace(shared_work, child_start=broken))


def test_unknown_options_are_refused(shared_work):
    with pytest.raises(ExtractionError, match="unknown extraction method 'fast'; use one of"):
        extract(shared_work, "fast")
    with pytest.raises(ExtractionError, match="unknown solver 'glpk'; use one of"):
        extract(shared_work, solver="glpk")
    for limit in (math.nan, math.inf, -1.0):
        with pytest.raises(ExtractionError, match="give a number of seconds > 0"):
            extract(shared_work, time_limit=limit)
    with pytest.raises(ExtractionError, match="time_limit is 0"):
        extract(shared_work, time_limit=0)


@pytest.mark.parametrize(
    "method", ["ilp-tensat-real", "ilp-tensat-integer", "ilp-no-cycles", "ilp"]
)
def test_time_limit_holds_and_the_result_is_no_worse_than_greedy(hard, method):
    greedy = extract(hard, "greedy-dag")
    found = extract(hard, method, time_limit=4.0)
    assert found.seconds < 4.0 * 1.05
    assert check_extraction(hard, found.choice) == found.cost <= greedy.cost
    assert 0 <= found.bound <= found.cost
    if method == "ilp-tensat-real":
        assert found.status == "feasible: time limit"
        assert found.gap == (found.cost - found.bound) / found.cost > 0


def test_interrupt_returns_the_best_so_far(hard):
    # A shell's background jobs ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        found = extract(hard, "ilp-tensat-integer", time_limit=60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert found.seconds < 10
    assert found.status == "feasible: interrupted"
    check_extraction(hard, found.choice)


def test_solver_process_that_crashes_costs_nothing_but_the_proof(hard, monkeypatch):
    monkeypatch.setattr(process.sys, "executable", "/bin/false")
    found = extract(hard, "ilp-tensat-real")
    assert found.cost == extract(hard, "greedy-dag").cost
    assert found.status.startswith("feasible: the solver process ended with code 1")


def test_solver_that_is_not_installed_costs_nothing_but_the_proof(hard, monkeypatch):
    monkeypatch.delenv("GUROBI_HOME", raising=False)
    found = extract(hard, "ilp-tensat-real", solver="gurobi")
    if found.status == "optimal":
        pytest.skip("Gurobi is installed here")
    check_extraction(hard, found.choice)
    assert found.status.startswith("feasible: FileNotFoundError: Gurobi not found")


def test_solver_process_that_cannot_start_costs_nothing_but_the_proof(hard, monkeypatch):
    monkeypatch.setattr(process.sys, "executable", "/no/such/python")
    found = extract(hard, "ilp-tensat-real")
    check_extraction(hard, found.choice)
    assert found.status.startswith("feasible: a solver process cannot be started")


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([("stopped", "highs reported INFEASIBLE on a problem that has a solution", "")], "INFEAS"),
        ([("bound", 1e9), ("stopped", "", "")], "highs claims a bound"),
        ([("choice", "all -1"), ("stopped", "", "")], "a choice that is no extraction"),
        ([("choice", "cyclic"), ("stopped", "", "")], "a choice that is no extraction"),
    ],
)
def test_wrong_answers_of_a_solver_are_not_believed(messages, status, monkeypatch):
    problem = make_problem(
        [(0, 1.0, [1]), (1, 1.0, [0]), (1, 2.0, [2]), (2, 3.0, [])], roots=[0], class_count=3
    )
    wrong = {"all -1": np.full(3, -1), "cyclic": np.array([0, 1, -1])}

    def fake(task, deadline, child):
        for kind, *rest in messages:
            yield (kind, *(wrong.get(x, x) if isinstance(x, str) else x for x in rest))

    monkeypatch.setattr(solve, "run_in_process", fake)
    found = extract(problem, "ilp-no-cycles")
    assert found.cost == 6.0 and found.bound == 0
    assert status in found.status and found.status.startswith("feasible: ")


@pytest.mark.parametrize("solver", ["highs", "cbc"])
def test_garbage_collection_inside_a_solver_call_does_not_hang(solver):
    """Models are garbage; here the collector runs inside every look-up of a solver's function."""
    code = f"""
import gc, sys
from tests.extraction.oracle import random_problem
from tvm_tensat.extraction.relaxation import Relaxation
from tvm_tensat.extraction.strong import strong_program, structure
from tvm_tensat.extraction.greedy import greedy_dag
from tvm_tensat.extraction.restrict import restrict
problem = random_problem(3, 30)
small = restrict(problem, greedy_dag(problem) >= 0).problem
program = strong_program(structure(small), 1e9, ordered=False)
def collect(frame, event, argument):
    if event == "call" and frame.f_code.co_name.startswith("accessor_"):  # under cffi's lock
        gc.collect()
sys.setprofile(collect)
Relaxation(program, {solver!r})  # garbage from here on
print(Relaxation(program, {solver!r}).solve(10.0))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, timeout=60, capture_output=True, text=True
    )
    assert "OPTIMAL" in done.stdout.split(), done.stderr


def test_importing_extraction_does_not_import_tvm():
    code = "import sys, tvm_tensat.extraction; sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_json_is_read_with_children_named_by_any_node_of_their_class(tmp_path: Path):
    nodes = {
        "a": {"op": "Add", "cost": 2.0, "eclass": "top", "children": ["c", "b"]},
        "b": {"op": "X", "cost": 1.0, "eclass": "low", "children": []},
        "c": {"op": "Y", "cost": 0.5, "eclass": "low", "children": [], "subsumed": True},
    }
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"nodes": nodes, "root_eclasses": ["top"]}))
    problem = problem_from_json(path)
    assert problem.node_class.tolist() == [0, 1, 1]
    assert problem.child_class.tolist() == [1, 1]
    assert extract(problem).cost == 3.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2", "is not an e-graph in egraph-serialize JSON"),
        ('{"nodes": {}}', "root_eclasses"),
        ('{"nodes": {"a": {"eclass": "x", "children": ["b"]}}, "root_eclasses": []}', "child 'b'"),
        ('{"nodes": {"a": {"eclass": "x"}}, "root_eclasses": ["y"]}', "root class 'y' has no"),
    ],
)
def test_json_that_is_no_e_graph_gives_one_clear_error(tmp_path: Path, text, message):
    path = tmp_path / "graph.json"
    path.write_text(text)
    with pytest.raises(ExtractionError, match=message):
        problem_from_json(path)


# Optimal costs of TENSAT's e-graphs in the public extraction-gym data, as proven by HiGHS.
PUBLIC = {
    "vgg_acyclic": 4.866775,
    "resnet50_acyclic": 4.415993,
    "resnet50": 4.385795,
    "vgg": 4.850757,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_e_graphs_of_tensat_are_solved_to_optimality(name):
    folder = os.environ.get("TVM_TENSAT_DATA")
    if folder is None:
        pytest.skip("TVM_TENSAT_DATA does not name a folder with extraction-gym's data/tensat")
    found = sorted(Path(folder).rglob(f"{name}.json"))
    if not found:
        pytest.skip(f"{folder} (TVM_TENSAT_DATA) has no {name}.json")
    solution = extract(problem_from_json(found[0]), time_limit=120)
    assert solution.status == "optimal"
    assert solution.cost == pytest.approx(PUBLIC[name], rel=1e-6)
    assert solution.bound == pytest.approx(solution.cost, rel=1e-6)
