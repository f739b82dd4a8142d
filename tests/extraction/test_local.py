"""Local search: always an extraction, and never worse than where it began."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.extraction.oracle import (
    brute_force,
    check_extraction,
    make_problem,
    random_problem,
    small_problems,
)
from tvm_tensat.extraction import ExtractionError, Problem, extract
from tvm_tensat.extraction.choice import exact_cost, trim
from tvm_tensat.extraction.greedy import greedy_dag
from tvm_tensat.extraction.local import local_search


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(small_problems())
def test_the_result_is_an_extraction_between_the_optimum_and_the_start(problem: Problem):
    start = greedy_dag(problem)
    trimmed = trim(problem, start)
    assume(trimmed is not None)
    found, finished = local_search(problem, start, time.monotonic() + 20)
    kept = trim(problem, found)
    assert finished and kept is not None
    cost = check_extraction(problem, kept)
    assert brute_force(problem) * (1 - 1e-12) <= cost <= exact_cost(problem, trimmed)


@pytest.mark.parametrize("seed", range(12))
def test_larger_cyclic_graphs(seed: int):
    problem = random_problem(seed, 300, back=0.3)
    start = greedy_dag(problem)
    trimmed = trim(problem, start)
    if trimmed is None:
        pytest.skip("this e-graph has no extraction")
    found, finished = local_search(problem, start, time.monotonic() + 20)
    kept = trim(problem, found)
    assert finished and kept is not None, "a cycle, or a class without an e-node"
    assert check_extraction(problem, kept) <= exact_cost(problem, trimmed)


def test_others_follow_a_switch_that_only_pays_together():
    """Products 1 and 2 cost 3 each; both can be parts of the merged product 3, which costs 4.

    Greedy takes each of its own; a switch of one alone costs 3 + 4.
    """
    problem = make_problem(
        [
            (0, 0.0, [1, 2]),
            (1, 3.0, []),
            (1, 0.0, [3]),
            (2, 3.0, []),
            (2, 0.0, [3]),
            (3, 4.0, []),
        ],
        roots=[0],
        class_count=4,
    )
    assert extract(problem, "greedy-dag").cost == 6.0
    found = extract(problem, "local-search")
    assert found.cost == 4.0 and found.status == "local optimum" and found.bound == 0


def test_a_deadline_that_has_passed_returns_the_start():
    problem = random_problem(1, 300, back=0.3)
    start = greedy_dag(problem)
    found, finished = local_search(problem, start, time.monotonic() - 1)
    assert not finished
    assert (found == start).all()


def test_a_known_start_is_used_and_a_wrong_one_refused():
    problem = make_problem(
        [(0, 0.0, [1]), (1, 2.0, []), (0, 0.0, [2]), (2, 0.0, [3]), (3, 2.5, []), (2, 1.0, [])],
        roots=[0],
        class_count=4,
    )
    start = np.array([0, 1, -1, -1])
    assert extract(problem, "ilp-no-cycles", start=start).cost == 1.0
    larger = random_problem(7, 400, back=0.3)
    known = extract(larger, "local-search")
    late = {"method": "ilp-tensat-real", "time_limit": 1e-3}
    assert extract(larger, **late).cost > known.cost
    assert extract(larger, **late, start=known.choice).cost == known.cost
    for wrong in (start[:-1], np.full(4, 9), np.full(4, -2)):
        with pytest.raises(ExtractionError, match="start must name an e-node"):
            extract(problem, start=wrong)
    # One that is no extraction is left aside.
    assert extract(problem, start=np.array([2, -1, -1, -1])).cost == 1.0
