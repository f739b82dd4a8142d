"""Copies of a problem are recognized, and nothing else is."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from tests.extraction.inside import solve_inside
from tests.extraction.oracle import check_extraction, make_problem, random_problem
from tvm_tensat.extraction import Problem, exact, tiny
from tvm_tensat.extraction.choice import trim
from tvm_tensat.extraction.greedy import greedy_dag
from tvm_tensat.extraction.part import Context, Part
from tvm_tensat.extraction.restrict import restrict
from tvm_tensat.extraction.split import split
from tvm_tensat.extraction.twins import choice_of_copy, form_of


def lists_of(problem: Problem) -> list[tuple[int, float, list[int]]]:
    """Return (class, cost, children) per e-node."""
    start = problem.child_start
    return [
        (
            int(problem.node_class[node]),
            float(problem.node_cost[node]),
            problem.child_class[start[node] : start[node + 1]].tolist(),
        )
        for node in range(len(problem.node_class))
    ]


def renumbered(problem: Problem, seed: int) -> Problem:
    """Return a copy with classes, e-nodes and children in another order."""
    draw = np.random.default_rng(seed)
    place = draw.permutation(problem.class_count)
    nodes = [
        (int(place[number]), cost, draw.permutation(place[children]).tolist())
        for number, cost, children in lists_of(problem)
    ]
    order = draw.permutation(len(nodes))
    return make_problem(
        [nodes[k] for k in order], place[problem.roots].tolist(), problem.class_count
    )


def side_by_side(*problems: Problem) -> Problem:
    """Return one problem that has all of these as independent parts."""
    nodes, roots, count = [], [], 0
    for problem in problems:
        nodes += [
            (number + count, cost, [child + count for child in children])
            for number, cost, children in lists_of(problem)
        ]
        roots += (problem.roots + count).tolist()
        count += problem.class_count
    return make_problem(nodes, roots, count)


@pytest.mark.parametrize("seed", range(10))
def test_a_renumbered_problem_is_a_copy_and_choices_carry_over(seed: int):
    problem = random_problem(seed, 60, back=0.2)
    copy = renumbered(problem, seed)
    form, other = form_of(problem), form_of(copy)
    assert form is not None and other is not None
    assert form.key == other.key
    choice = trim(problem, greedy_dag(problem))
    if choice is None:
        pytest.skip("this e-graph has no extraction")
    there = choice_of_copy(other, form, choice)
    cost = check_extraction(problem, choice)
    assert check_extraction(copy, there) == pytest.approx(cost, rel=1e-12)
    assert (choice_of_copy(form, other, there) == choice).all()


@pytest.mark.parametrize("seed", range(10))
def test_a_problem_that_differs_in_one_place_is_no_copy(seed: int):
    problem = random_problem(seed, 60, back=0.2)
    form = form_of(problem)
    assert form is not None
    draw = np.random.default_rng(seed)
    cost = problem.node_cost.copy()
    cost[draw.integers(len(cost))] += 1e-7
    child = problem.child_class.copy()
    place = draw.integers(len(child))
    child[place] = (child[place] + 1) % problem.class_count
    for changed in (
        replace(problem, node_cost=cost),
        replace(problem, child_class=child),
        replace(problem, roots=problem.roots[:1]),
    ):
        other = form_of(changed)
        assert other is None or other.key != form.key


def test_symmetric_classes_are_told_apart():
    """Ten equal classes under one root: any order is an order; too many are left alone."""

    def star(leaves: int) -> Problem:
        children = list(range(1, leaves + 1))
        nodes = [(0, 1.0, children)] + [(leaf, 2.0, []) for leaf in children]
        return make_problem(nodes, [0], leaves + 1)

    form, other = form_of(star(10)), form_of(renumbered(star(10), 1))
    assert form is not None and other is not None and form.key == other.key
    assert form_of(star(1000)) is None


@pytest.mark.parametrize("seed", range(6))
def test_of_copies_one_is_solved_and_all_have_its_cost(seed: int, monkeypatch):
    problem = random_problem(seed, 40, back=0.3)
    if trim(problem, greedy_dag(problem)) is None:
        pytest.skip("this e-graph has no extraction")
    three = side_by_side(problem, renumbered(problem, 1), renumbered(problem, 2))
    monkeypatch.setattr(tiny, "is_tiny", lambda problem: False)
    small = restrict(three, greedy_dag(three) >= 0).problem
    context = Context("highs", time.time() + 20)
    groups = exact._copies([Part(part.problem, context) for part in split(small)])
    assert all(len(group) % 3 == 0 for group in groups)
    one, all_three = solve_inside(problem, "highs"), solve_inside(three, "highs")
    assert one is not None and all_three is not None
    assert one.proven and all_three.proven
    assert all_three.cost == pytest.approx(3 * one.cost, rel=1e-6)
