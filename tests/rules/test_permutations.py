"""Permutations, past elementwise functions and each other."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.harness import apply, refusal, tensor, weight
from tests.rules.strategies import (
    DTYPES,
    FLOATS,
    NUMBERS,
    broadcastable,
    example,
    needed,
    permutations,
    shapes,
)
from tvm_tensat.rules import permutations as rules

SHAPES = shapes(min_rank=1, max_rank=4)


@st.composite
def permute_of_permute(draw: st.DrawFn):
    shape = draw(SHAPES)
    attrs = tuple({"axes": draw(permutations(len(shape)))} for _ in range(2))
    return example(rules.permute_of_permute, tensor(*shape, dtype=draw(DTYPES)), attrs=attrs)


@st.composite
def identity_permute(draw: st.DrawFn):
    shape = draw(SHAPES)
    attrs = ({"axes": list(range(len(shape)))},)
    return example(rules.identity_permute, tensor(*shape, dtype=draw(DTYPES)), attrs=attrs)


@st.composite
def permute_as_reshape(draw: st.DrawFn):
    shape = draw(SHAPES)
    axes = draw(permutations(len(shape)))
    ordered = iter([axis for axis in range(len(shape)) if shape[axis] != 1])
    axes = [axis if shape[axis] == 1 else next(ordered) for axis in axes]
    return example(
        rules.permute_as_reshape, tensor(*shape, dtype=draw(DTYPES)), attrs=({"axes": axes},)
    )


@st.composite
def unary(draw: st.DrawFn, law):
    shape = draw(SHAPES)
    attrs = ({"axes": draw(permutations(len(shape)))}, needed(law))
    return example(law, tensor(*shape, dtype=draw(FLOATS)), attrs=attrs)


@st.composite
def permuted_binary(draw: st.DrawFn, law):
    shape, dtype = draw(SHAPES), draw(NUMBERS)
    operands = draw(st.permutations([shape, draw(broadcastable(shape))]))
    attrs = ({"axes": draw(permutations(len(shape)))}, {})
    return example(law, *(tensor(*own, dtype=dtype) for own in operands), attrs=attrs)


@st.composite
def binary_of_permuted(draw: st.DrawFn, law):
    shape, dtype = draw(SHAPES), draw(NUMBERS)
    other = tuple(draw(st.sampled_from([1, extent])) for extent in shape)
    axes = {"axes": draw(permutations(len(shape)))}
    operands = (tensor(*own, dtype=dtype) for own in (shape, other))
    return example(law, *operands, attrs=({}, axes, axes))


EXAMPLES = {
    "permute_of_permute": permute_of_permute(),
    "identity_permute": identity_permute(),
    "permute_as_reshape": permute_as_reshape(),
    **{law.name: unary(law) for law in rules.permuted_unary},
    **{law.name: permuted_binary(law) for law in rules.permuted_binary},
    **{law.name: binary_of_permuted(law) for law in rules.binary_of_permuted},
}


def test_permutations_compose_in_the_right_order():
    attrs = ({"axes": [1, 0, 2]}, {"axes": [1, 2, 0]})
    (made,) = apply(example(rules.permute_of_permute, tensor(2, 3, 5), attrs=attrs)).targets
    assert made.shape == (5, 3, 2) and made.axes == (2, 1, 0)


def test_a_real_permutation_is_neither_identity_nor_reshape():
    def trial(law):
        return example(law, tensor(3, 1, 3), attrs=({"axes": [2, 1, 0]},))

    assert refusal(trial(rules.identity_permute)) == "the axes change their order"
    assert refusal(trial(rules.permute_as_reshape)) == "elements change their order"


def test_a_symbolic_axis_is_not_taken_for_one_of_extent_one():
    trial = example(rules.permute_as_reshape, tensor("n", 1), attrs=({"axes": [1, 0]},))
    assert refusal(trial) is None
    trial = example(rules.permute_as_reshape, tensor("n", 2), attrs=({"axes": [1, 0]},))
    assert refusal(trial) == "elements change their order"


def test_operands_permuted_differently_do_not_meet():
    (law, _), x = rules.binary_of_permuted, tensor(2, 2, 2)
    attrs = ({}, {"axes": [1, 0, 2]}, {"axes": [0, 2, 1]})
    assert refusal(example(law, x, x, attrs=attrs)) == "the operators differ in an attribute"


def test_weights_are_not_dragged_along():
    attrs = ({"axes": [1, 0]}, {})
    for law in rules.permuted_unary:
        one = example(law, weight(2, 3), attrs=({"axes": [1, 0]}, needed(law)))
        assert refusal(one) == "an operand is a weight"
    for law in rules.permuted_binary:
        both = example(law, weight(2, 3), weight(3), attrs=attrs)
        assert refusal(both) == "nothing but weights"
