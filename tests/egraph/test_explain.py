"""Every equality is explained by rewrites that can be replayed one at a time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.egraph.test_against_oracle import LAWS, laws, trees
from tests.egraph.toy import Law, Pattern, ToyLanguage, Tree, add_tree, as_rule, split_name
from tvm_tensat.egraph import FROM_INPUT, EGraph, Limits, explore
from tvm_tensat.egraph.explain import Explainer, Step, Terms, origin_of, without_loops
from tvm_tensat.egraph.journal import GIVEN, PROJECTION
from tvm_tensat.egraph.path import Path, path_to

Whole = tuple[Any, ...]  # (operator, subterms)


def whole(terms: Terms, number: int) -> Whole:
    """A term with all its subterms."""
    operator, operands = terms.nodes[number]
    return terms.language.operator(operator), *(whole(terms, each) for each in operands)


def match(pattern: Pattern, term: Whole, bound: dict[str, Whole]) -> bool:
    if isinstance(pattern, str):
        return bound.setdefault(pattern, term) == term
    name, given = split_name(pattern[0])
    operator, *operands = term
    return (
        (operator.name, len(operands)) == (name, len(pattern) - 1)
        and all(operator[attr] == value for attr, value in given.items())
        and all(match(p, t, bound) for p, t in zip(pattern[1:], operands, strict=True))
    )


def is_rewrite(before: Whole, after: Whole, source: Pattern, target: Pattern) -> bool:
    """Whether one subterm is an instance of the source, and of the target afterwards."""
    bound: dict[str, Whole] = {}
    if match(source, before, bound) and match(target, after, bound):
        return True
    if before[0] != after[0]:
        return False
    differ = [pair for pair in zip(before[1:], after[1:], strict=True) if pair[0] != pair[1]]
    return len(differ) == 1 and is_rewrite(*differ[0], source, target)


def is_projection(before: Whole, after: Whole) -> bool:
    operator = before[0]
    of_tuple = operator.name == "get" and before[1][0].name == "tuple"
    if of_tuple and before[1][1:][operator["index"]] == after:
        return True
    differ = [pair for pair in zip(before[1:], after[1:], strict=True) if pair[0] != pair[1]]
    return before[0] == after[0] and len(differ) == 1 and is_projection(*differ[0])


def check_step(terms: Terms, step: Step, some: Sequence[Law]) -> None:
    ends = whole(terms, step.before), whole(terms, step.after)
    before, after = ends if step.forward else ends[::-1]
    if step.rule == PROJECTION:
        assert is_projection(before, after)
    else:
        law = some[step.rule]
        assert is_rewrite(before, after, law.sources[step.source], law.targets[step.source])


def check_path(path: Path, some: Sequence[Law]) -> None:
    programs = list(path.programs())
    assert len(programs) == len(path.steps) + 1
    for hole, step in path.steps:
        check_step(path.terms, step, some)
        assert hole >= 0
    for before, after, (_, step) in zip(programs[:-1], programs[1:], path.steps, strict=True):
        # Only the one term is replaced, in some of the places where it occurs.
        for left, right in zip(before, after, strict=True):
            assert differs_by(path.terms, left, right, step)


def differs_by(terms: Terms, left: int, right: int, step: Step) -> bool:
    """Whether one term becomes the other when some occurrences of a subterm are replaced."""
    if left == right or (left, right) == (step.before, step.after):
        return True
    (operator, some), (other, others) = terms.nodes[left], terms.nodes[right]
    return operator == other and all(
        differs_by(terms, a, b, step) for a, b in zip(some, others, strict=True)
    )


def any_choice(graph: EGraph, seed: int) -> np.ndarray:
    """A visible e-node of each class, most often one that a rule made; they form no cycle."""
    rows = graph.usable().tolist()
    draw = random.Random(seed)
    rows.sort(key=lambda row: (graph.node_rule[row] != FROM_INPUT) + draw.random() * 1.2)
    chosen = {int(graph.node_class[row]): row for row in rows}
    return np.array(sorted(chosen.values()))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(trees, min_size=1, max_size=3),
    st.lists(laws(), min_size=1, max_size=4),
    st.integers(0, 5),
)
def test_any_choice_of_any_e_graph_is_reached_by_replayable_rewrites(
    inputs: list[Tree], some: list[Law], seed: int
) -> None:
    graph = EGraph(ToyLanguage())
    roots = [add_tree(graph, tree) for tree in inputs]
    rules = [as_rule(law, f"law{k}") for k, law in enumerate(some)]
    explore(graph, rules, Limits(3, 200, 600.0, 2))
    rows = any_choice(graph, seed)
    path = path_to(graph, rules, roots, rows)
    first, *_, last = [*path.programs()] * 2
    explainer = Explainer(graph, rules)
    assert [whole(path.terms, root) for root in first] == [
        whole(explainer.terms, explainer.term(root)) for root in roots
    ]
    chosen = {int(graph.node_class[row]): row for row in rows.tolist()}

    def extracted(number: int) -> Whole:
        row = chosen[graph.find(number)]
        operator = int(graph.node_operator[row])
        arity = int(graph.operator_arity[operator])
        children = graph.children(np.array([row]), arity)[0].tolist()
        return graph.language.operator(operator), *map(extracted, children)

    assert [whole(path.terms, root) for root in last] == [extracted(root) for root in roots]
    check_path(path, some)


def test_two_members_of_a_class_are_explained_and_others_are_not() -> None:
    graph = EGraph(ToyLanguage())
    left = add_tree(graph, ("add", ("add", ("a",), ("b",)), ("c",)))
    right = add_tree(graph, ("add", ("c",), ("add", ("b",), ("a",))))
    some = [LAWS["commutative"], LAWS["associative"]]
    rules = [as_rule(law, f"law{k}") for k, law in enumerate(some)]
    explore(graph, rules, Limits())
    explainer = Explainer(graph, rules)
    steps = explainer.steps(left, right)
    assert len(steps) == 2, "each of the two additions is commuted once"
    for step in steps:
        check_step(explainer.terms, step, some)
    assert explainer.terms.text(steps[0].before) == "add(add(leaf[id=a], leaf[id=b]), leaf[id=c])"
    assert [step.reversed() for step in reversed(steps)] == explainer.steps(right, left)
    with pytest.raises(ValueError, match="in different classes"):
        explainer.steps(left, add_tree(graph, ("z",)))


def test_a_merge_by_the_caller_and_its_congruences_are_explained() -> None:
    graph = EGraph(ToyLanguage())
    left, right = add_tree(graph, ("neg", ("neg", ("a",)))), add_tree(graph, ("neg", ("b",)))
    a, b = add_tree(graph, ("neg", ("a",))), add_tree(graph, ("b",))
    graph.union(np.array([a]), np.array([b]))
    graph.rebuild()
    explainer = Explainer(graph, [])
    [step] = explainer.steps(left, right)
    assert (step.rule, step.forward) == (GIVEN, True)
    assert explainer.terms.text(step.before) == "neg(neg(leaf[id=a]))"
    assert explainer.terms.text(step.after) == "neg(leaf[id=b])"


def test_deep_terms_are_explained_without_deep_recursion() -> None:
    graph = EGraph(ToyLanguage())
    left = right = add_tree(graph, ("a",))
    left = add_tree(graph, ("neg", ("neg", ("a",))))
    for _ in range(5_000):
        operator, _ = graph.language.make("deep", {}, (0,))
        left, right = graph.add(operator, [left], 0), graph.add(operator, [right], 0)
    rules = [as_rule(LAWS["involution"], "involution")]
    explore(graph, rules, Limits())
    assert len(Explainer(graph, rules).steps(left, right)) == 1


def test_the_origin_of_an_e_node_is_the_match_that_made_it() -> None:
    graph = EGraph(ToyLanguage())
    x = ("x",)
    add_tree(graph, ("mul", x, ("a",)))
    add_tree(graph, ("mul", x, ("b",)))
    inputs = graph.node_count
    rules = [as_rule(LAWS["siblings"], "siblings")]
    explore(graph, rules, Limits())
    products = [
        row
        for row in range(inputs)
        if graph.language.operator(int(graph.node_operator[row])).name == "mul"
    ]
    assert all(origin_of(graph, row) is None for row in range(inputs))
    for row in range(inputs, len(graph.node_operator)):
        origin = origin_of(graph, row)
        assert origin is not None
        assert (origin.rule, origin.iteration, list(origin.matched)) == (0, 0, products)


def test_loops_are_left_out() -> None:
    def path(*terms: int) -> list[Step]:
        return [Step(0, 0, 0, True, a, b) for a, b in itertools.pairwise(terms)]

    assert without_loops([]) == []
    assert without_loops(path(1, 2, 3, 2, 4)) == path(1, 2) + path(2, 4)
    assert without_loops(path(1, 2, 1)) == []
    assert without_loops(path(1, 2, 3, 1, 3, 4)) == path(1, 3, 4)
