"""Pools of extractions against trying everything."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.extraction.oracle import check_extraction, make_problem, small_problems
from tvm_tensat.extraction import ExtractionError, Problem, extract, extract_pool, pool
from tvm_tensat.extraction.choice import trim
from tvm_tensat.extraction.greedy import greedy_dag
from tvm_tensat.extraction.pool import solve_pool
from tvm_tensat.extraction.restrict import restrict

DIFFERENCE, MOST_COST = 0.1, 2.0


def every_extraction(problem: Problem) -> list[tuple[float, frozenset[int]]]:
    """Return the cost and e-nodes of each extraction."""
    found = {}
    members = [
        [-1, *np.flatnonzero(problem.node_class == number).tolist()]
        for number in range(problem.class_count)
    ]
    for combination in itertools.product(*members):
        choice = np.array(combination)
        try:
            cost = check_extraction(problem, choice)
        except AssertionError:
            continue
        found[frozenset(choice[choice >= 0].tolist())] = cost
    return [(cost, nodes) for nodes, cost in found.items()]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(small_problems())
def test_each_member_is_the_cheapest_that_differs_from_those_before_it(problem: Problem):
    everything = every_extraction(problem)
    assume(everything)
    least, first = min(everything, key=lambda each: each[0])
    assume(least > 0)
    small = restrict(problem, greedy_dag(problem) >= 0)
    incumbent = np.full(problem.class_count, -1)
    incumbent[problem.node_class[list(first)]] = list(first)
    sent: list[tuple] = []
    solve_pool(
        small.problem,
        small.choice_from(incumbent),
        4,
        DIFFERENCE,
        MOST_COST,
        "highs",
        time.time() + 20,
        sent.append,
    )
    earlier = [first]
    for number in range(3):
        fit = [cost for cost, nodes in everything if fits(problem, nodes, cost, earlier, least)]
        assert (number < len(sent)) == bool(fit)
        if not fit:
            break
        _, choice, bound = sent[number]
        lifted = trim(problem, small.choice_to(choice, problem.class_count))
        assert lifted is not None
        cost = check_extraction(problem, lifted)
        assert cost == pytest.approx(min(fit), rel=1e-6)
        assert bound == pytest.approx(min(fit), rel=1e-6)
        earlier.append(frozenset(lifted[lifted >= 0].tolist()))


def fits(problem: Problem, nodes: frozenset[int], cost: float, earlier, least: float) -> bool:
    """Whether an extraction may be the next member; on the edge of a limit it may."""
    tolerance = 1 + 1e-9
    if cost > MOST_COST * least * tolerance:
        return False
    for other in earlier:
        shared = math.fsum(problem.node_cost[node] for node in nodes & other)
        whole = math.fsum(problem.node_cost[node] for node in other)
        if shared > (1 - DIFFERENCE) * whole * tolerance:
            return False
    return True


def test_a_pool_from_outside_in_order_and_trimmed():
    """Three ways for the root, of costs 3, 3.1 and 9; free e-nodes make no difference."""
    problem = make_problem(
        [
            (0, 0.0, [1]),
            (0, 0.0, [2]),
            (0, 9.0, []),
            (1, 3.0, []),
            (2, 3.1, []),
            (0, 0.0, [1, 3]),
            (3, 0.0, []),
        ],
        roots=[0],
        class_count=4,
    )
    found = extract_pool(problem, 5, most_cost=1.5)
    assert [member.cost for member in found] == [3.0, 3.1]
    assert [member.status for member in found] == ["optimal", "optimal"]
    assert found[1].choice.tolist() == [1, -1, 4, -1]
    assert len(extract_pool(problem, 5, most_cost=4)) == 3
    assert len(extract_pool(problem, 1)) == 1


def test_ctrl_c_during_the_first_ends_the_pool(monkeypatch):
    problem = make_problem([(0, 1.0, []), (0, 1.01, [])], roots=[0], class_count=1)
    first = replace(extract(problem), status="feasible: interrupted")
    monkeypatch.setattr(pool, "extract", lambda *_, **__: first)
    assert extract_pool(problem, 3) == [first]


@pytest.mark.parametrize("wrong", [{"difference": 0.0}, {"most_cost": 0.9}, {"count": 0}])
def test_a_pool_without_sense_is_refused(wrong):
    problem = make_problem([(0, 1.0, [])], [0], 1)
    with pytest.raises(ExtractionError, match="a pool needs"):
        extract_pool(problem, **({"count": 2} | wrong))


def test_ctrl_c_keeps_what_was_found_and_is_told(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(pool, "run_in_process", interrupted)
    problem = make_problem([(0, 1.0, []), (0, 1.01, [])], roots=[0], class_count=1)
    [member] = extract_pool(problem, 3)
    assert member.status == "optimal, then interrupted"
