"""Operands that make no difference, and those that only seem so."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.rules.harness import check_law, constant, refusal, tensor, weight
from tests.rules.strategies import DTYPES, FLOATS, broadcastable, example, shapes
from tvm_tensat.rules import identities as rules

SHAPES = shapes(max_rank=3)
STATIC = shapes(max_rank=3, sizes=st.integers(1, 4))


@st.composite
def with_constant(draw: st.DrawFn, law, value, dtypes=("float32", "float16", "int32")):
    shape, dtype = draw(STATIC), draw(st.sampled_from(dtypes))
    own = draw(broadcastable(shape))
    number = value if dtype.startswith("float") else int(value)
    return example(law, tensor(*shape, dtype=dtype), constant(number, *own, dtype=dtype))


@st.composite
def with_exact_zero(draw: st.DrawFn):
    zero, dtypes = draw(st.sampled_from([(-0.0, ("float32", "float16")), (0, ("int32", "int8"))]))
    return draw(with_constant(rules.sum_with_exact_zero, zero, dtypes))


@st.composite
def of_inputs(draw: st.DrawFn, law, count, dtypes=FLOATS):
    shape, dtype = draw(SHAPES), draw(dtypes)
    others = [draw(broadcastable(shape)) for _ in range(count - 1)]
    return example(law, *(tensor(*own, dtype=dtype) for own in (shape, *others)))


@st.composite
def broadcast(draw: st.DrawFn, law, repeated):
    """Draw two operands and broadcast one of them, to the shape of both or to less."""
    whole, dtype = draw(SHAPES), draw(FLOATS)
    small, other = draw(broadcastable(whole)), whole
    target = draw(st.sampled_from([whole, (*(1,) * (len(whole) - len(small)), *small)]))
    shapes_ = (small, other) if repeated == 0 else (other, small)
    term = {"shape": ["n" if d == "n" else d for d in target]}
    if "n" in whole:  # a symbol of the operands is not the same inside of an attribute
        term = {"shape": list(map(_three, target))}
        shapes_ = tuple(tuple(map(_three, s)) for s in shapes_)
    return example(law, *(tensor(*s, dtype=dtype) for s in shapes_), attrs=({}, term))


def _three(extent):
    return 3 if extent == "n" else extent


@st.composite
def uniform(draw: st.DrawFn, law):
    shape, dtype = draw(STATIC.filter(bool)), draw(st.sampled_from(["float32", "int32"]))
    own = draw(broadcastable(shape).filter(bool))
    return example(law, tensor(*shape, dtype=dtype), constant(3, *own, dtype=dtype))


@st.composite
def filled(draw: st.DrawFn):
    attrs = ({"shape": draw(st.lists(st.integers(0, 3), max_size=3))},)
    return example(rules.filled, tensor(dtype=draw(DTYPES)), attrs=attrs)


@st.composite
def filled_with_number(draw: st.DrawFn, law):
    shape, dtype = draw(st.lists(st.integers(0, 3), max_size=3)), draw(DTYPES)
    return example(law, attrs=({"shape": shape, "dtype": dtype},))


EXAMPLES = {
    "product_with_one": with_constant(rules.product_with_one, 1.0),
    "quotient_by_one": with_constant(rules.quotient_by_one, 1.0, ("float32", "float16")),
    "sum_with_zero": with_constant(rules.sum_with_zero, 0.0, ("float32", "float16")),
    "sum_with_exact_zero": with_exact_zero(),
    "difference_with_zero": with_constant(rules.difference_with_zero, 0.0),
    "double_negation": of_inputs(rules.double_negation, 1),
    "plus_negative": of_inputs(rules.plus_negative, 2),
    "relu_of_relu": of_inputs(rules.relu_of_relu, 1),
    **{law.name: broadcast(law, 0) for law in rules.broadcast_left},
    **{law.name: broadcast(law, 1) for law in rules.broadcast_right},
    **{law.name: uniform(law) for law in rules.uniform_operand},
    "filled": filled(),
    **{law.name: filled_with_number(law) for law in rules.filled_with_number},
}


def test_the_sign_of_zero_matters_where_bits_do():
    x, zero = tensor(8), constant(0.0)
    assert refusal(example(rules.sum_with_exact_zero, x, zero)) == "x + (+0) turns -0 into +0"
    reason = refusal(example(rules.difference_with_zero, x, constant(-0.0)))
    assert reason == "x - (-0) turns -0 into +0"
    check_law(example(rules.sum_with_exact_zero, tensor(40), constant(-0.0)), special=True)
    check_law(example(rules.difference_with_zero, tensor(40), zero), special=True)


def test_other_numbers_are_no_identity():
    x = tensor(3)
    for law in (rules.product_with_one, rules.quotient_by_one):
        for other in (constant(2.0), constant(float("nan")), weight(3), tensor(3)):
            assert refusal(example(law, x, other)) == "not 1 everywhere"
    assert refusal(example(rules.sum_with_zero, x, constant(1e-30))) == "not 0 everywhere"


def test_an_identity_that_broadcasts_is_refused():
    reason = refusal(example(rules.product_with_one, tensor(3), constant(1.0, 2, 3)))
    assert reason is not None and "is needed" in reason


def test_a_broadcast_that_is_needed_is_kept():
    (law, *_), attrs = rules.broadcast_right, ({}, {"shape": [2, 3]})
    reason = refusal(example(law, tensor(3), tensor(3), attrs=attrs))
    assert reason is not None and "is needed" in reason


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_double_negation_of_integers_wraps(dtype):
    check_law(example(rules.double_negation, tensor(9, dtype=dtype, low=-128, high=128)))


def test_a_rank_0_constant_is_as_small_as_it_gets():
    for law in rules.uniform_operand:
        assert refusal(example(law, tensor(3), constant(2.0))) == "no tensor of equal elements"
        assert refusal(example(law, tensor(3), weight(3))) == "no tensor of equal elements"
