"""Other operators, and products of other kinds, as products of matrices."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.rules.harness import refusal, tensor, weight
from tests.rules.strategies import NUMBERS, SIZES, WIDE_FLOATS, Strategy, example, shapes
from tvm_tensat.rules import product_forms as rules

SUBSCRIPTS = (
    "ij,jk->ik",
    "bij,bkj->bik",
    "bhid,bhjd->bhij",
    "bshd,hdm->bsm",
    "i,j->ij",
    "ab,cb->ca",
    "ij,ij->ij",
    "ijk,kj->i",
)


@st.composite
def vectors(draw: st.DrawFn, law):
    batch, n, k, dtype = draw(shapes(0, 2)), draw(SIZES), draw(SIZES), draw(NUMBERS)
    v = tensor(k, dtype=dtype)
    if law is rules.product_of_a_vector:
        return example(law, v, tensor(*batch, k, n, dtype=dtype))
    return example(law, tensor(*batch, n, k, dtype=dtype), v)


@st.composite
def einsums(draw: st.DrawFn):
    subscripts, dtype = draw(st.sampled_from(SUBSCRIPTS)), draw(WIDE_FLOATS)
    extent = {letter: draw(SIZES) for letter in subscripts if letter.isalpha()}
    words = subscripts.partition("->")[0].split(",")
    operands = [tensor(*(extent[letter] for letter in word), dtype=dtype) for word in words]
    return example(rules.einsum_as_product, *operands, attrs=({"subscripts": subscripts},))


CASTS = st.sampled_from([("float16", "float32"), ("int8", "int32"), ("uint8", "int32")])


@st.composite
def casts(draw: st.DrawFn, law):
    narrow, wide = draw(CASTS)
    cast = {"dtype": wide}
    shapes_of = ((3, 4), (4, 2)) if law is rules.product_of_casts else ((1, 2, 4, 3), (3, 2, 2, 2))
    operands = tensor(*shapes_of[0], dtype=narrow), weight(*shapes_of[1], dtype=narrow)
    return example(law, *operands, attrs=({}, cast, cast))


EXAMPLES: dict[str, Strategy] = {
    "product_with_a_vector": vectors(rules.product_with_a_vector),
    "product_of_a_vector": vectors(rules.product_of_a_vector),
    "einsum_as_product": einsums(),
    "product_of_casts": casts(rules.product_of_casts),
    "convolution_of_casts": casts(rules.convolution_of_casts),
}


def test_matrices_and_two_vectors_are_left_to_others():
    for operands in ((tensor(2, 3), tensor(3, 4)), (tensor(3), tensor(3))):
        assert refusal(example(rules.product_with_a_vector, *operands)) is not None
        assert refusal(example(rules.product_of_a_vector, *operands)) is not None


@pytest.mark.parametrize(
    ("subscripts", "reason"),
    [
        ("ij,jk->i", "an axis of one operand is summed over"),
        ("ii,ij->ij", "a diagonal"),
        ("...j,jk->...k", "an ellipsis, or no result is named"),
        ("ij,jk", "an ellipsis, or no result is named"),
    ],
)
def test_einsums_that_are_no_product_stay(subscripts, reason):
    operands = tensor(3, 3), tensor(3, 3)
    case = example(rules.einsum_as_product, *operands, attrs=({"subscripts": subscripts},))
    assert refusal(case) == reason


@pytest.mark.parametrize(
    ("first", "second", "wide"),
    [
        ("float16", "bfloat16", "float32"),
        ("float32", "float32", "float64"),
        ("int8", "int8", "int16"),
    ],
)
def test_casts_that_a_product_does_not_make_stay(first, second, wide):
    operands = tensor(2, 3, dtype=first), weight(3, 4, dtype=second)
    case = example(rules.product_of_casts, *operands, attrs=({}, {"dtype": wide}, {"dtype": wide}))
    assert refusal(case) == "operands of two dtypes, or none that accumulates in the result's"


def test_a_copy_of_another_dtype_than_the_result_stays():
    """A copy as booleans forgets the numbers, though the product of both has the right dtype."""
    operands = tensor(2, 3, dtype="int8"), weight(3, 4, dtype="int8")
    attrs = ({}, {"dtype": "int32"}, {"dtype": "bool"})
    case = example(rules.product_of_casts, *operands, attrs=attrs)
    assert refusal(case) == "a copy has another dtype than the result"
