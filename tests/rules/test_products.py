"""Products that share an operand, and products of what is joined or cut."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.rules.harness import apply, check_law, refusal, tensor, weight
from tests.rules.strategies import (
    DTYPES,
    SIZES,
    SIZES_OR_EMPTY,
    SIZES_OR_SYMBOLS,
    Strategy,
    example,
)
from tvm_tensat.rules import products as rules

BATCHES = st.lists(SIZES_OR_SYMBOLS, max_size=2).map(tuple)
NUMERIC = DTYPES.filter(lambda dtype: dtype != "bool")
INNER = SIZES_OR_SYMBOLS


@st.composite
def sharing_left(draw: st.DrawFn, law, group=False):
    batch, dtype, rows, inner = draw(BATCHES), draw(NUMERIC), draw(SIZES_OR_SYMBOLS), draw(INNER)
    own = draw(st.sampled_from([(), batch]))
    columns = draw(st.lists(SIZES, min_size=2, max_size=4 if group else 2))
    is_weight = draw(st.booleans())
    rights = [tensor(*own, inner, n, dtype=dtype, weight=is_weight) for n in columns]
    return example(law, tensor(*batch, rows, inner, dtype=dtype), *rights)


@st.composite
def sharing_right(draw: st.DrawFn, law, group=False):
    batch, dtype, columns, inner = draw(BATCHES), draw(NUMERIC), draw(SIZES_OR_SYMBOLS), draw(INNER)
    own = draw(st.sampled_from([(), batch]))
    rows = draw(st.lists(SIZES, min_size=2, max_size=4 if group else 2))
    lefts = [tensor(*batch, m, inner, dtype=dtype) for m in rows]
    return example(law, tensor(*own, inner, columns, dtype=dtype), *lefts)


@st.composite
def stacked(draw: st.DrawFn, axis: int | None):
    """Draw two left operands joined along an axis (None: any but the inner) and a right one."""
    shape = draw(st.lists(SIZES_OR_EMPTY.filter(bool), min_size=2, max_size=4))
    at = draw(st.integers(0, len(shape) - 2)) if axis is None else axis % len(shape)
    other = list(shape)
    other[at] = draw(SIZES)
    return tuple(shape), tuple(other), at


def _stacked_rows(case):
    (a, b, axis), columns, dtype = case
    w = tensor(a[-1], columns, dtype=dtype)
    attrs = ({}, {"axis": axis})
    return example(
        rules.product_of_stacked_rows,
        tensor(*a, dtype=dtype),
        tensor(*b, dtype=dtype),
        w,
        attrs=attrs,
    )


def _joined_rows(case):
    (a, b, axis), columns, dtype = case
    w = tensor(a[-1], columns, dtype=dtype)
    return example(
        rules.stack_of_products,
        *(tensor(*a, dtype=dtype), tensor(*b, dtype=dtype), w),
        attrs=({"axis": axis},),
    )


@st.composite
def joined_columns(draw: st.DrawFn, law):
    rank = draw(st.integers(2, 3))
    batch = draw(st.lists(SIZES, min_size=rank - 2, max_size=rank - 2))
    inner, m, n, rows = draw(INNER), draw(SIZES), draw(SIZES), draw(SIZES_OR_SYMBOLS)
    dtype = draw(NUMERIC)
    x = tensor(rows, inner, dtype=dtype)
    a, b = (tensor(*batch, inner, k, dtype=dtype) for k in (m, n))
    at = {"axis": rank - 1}
    return example(
        law, x, a, b, attrs=({}, at) if law is rules.product_with_joined_columns else (at,)
    )


@st.composite
def parts(draw: st.DrawFn, law, axis: int):
    m, n, inner, other = draw(SIZES), draw(SIZES), draw(INNER), draw(SIZES_OR_SYMBOLS)
    batch = draw(st.sampled_from([(), (2,)]))
    index = draw(st.integers(0, 1))
    rank = 2 + len(batch)
    attrs = ({}, {"index": index}, {"indices_or_sections": (m,), "axis": rank + axis})
    dtype = draw(NUMERIC)
    if law is rules.product_of_a_part_of_the_rows:
        operands = tensor(*batch, m + n, inner, dtype=dtype), tensor(inner, other, dtype=dtype)
    else:
        operands = (
            tensor(*batch, other, inner, dtype=dtype),
            tensor(*batch, inner, m + n, dtype=dtype),
        )
    return example(law, *operands, attrs=attrs)


STACKED = st.tuples(stacked(None), SIZES, NUMERIC)
EXAMPLES: dict[str, Strategy] = {
    "products_sharing_left": sharing_left(rules.products_sharing_left),
    "products_sharing_right": sharing_right(rules.products_sharing_right),
    "products_of_one_left": sharing_left(rules.products_of_one_left, group=True),
    "products_of_one_right": sharing_right(rules.products_of_one_right, group=True),
    "product_of_stacked_rows": STACKED.map(_stacked_rows),
    "stack_of_products": st.tuples(stacked(-2), SIZES, NUMERIC).map(_joined_rows),
    "product_with_joined_columns": joined_columns(rules.product_with_joined_columns),
    "joined_columns_of_products": joined_columns(rules.joined_columns_of_products),
    "product_of_a_part_of_the_rows": parts(rules.product_of_a_part_of_the_rows, -2),
    "product_with_a_part_of_the_columns": parts(rules.product_with_a_part_of_the_columns, -1),
}


def test_one_dimensional_operands_are_refused():
    for law in (rules.products_sharing_left, rules.products_of_one_left):
        assert refusal(example(law, tensor(2, 3), tensor(3), tensor(3))) == "an operand is a vector"
        assert refusal(example(law, tensor(3), tensor(3, 2), tensor(3, 2)))
    for law in (rules.products_sharing_right, rules.products_of_one_right):
        assert refusal(example(law, tensor(3, 2), tensor(3), tensor(3))) == "an operand is a vector"


def test_different_batches_are_refused():
    case = example(rules.products_sharing_left, tensor(2, 3), tensor(4, 3, 1), tensor(3, 1))
    assert refusal(case) == "right operands differ in batch axes"
    case = example(rules.products_sharing_right, tensor(3, 2), tensor(4, 1, 3), tensor(5, 1, 3))
    assert refusal(case) == "left operands differ in batch axes"


def test_members_of_a_group_share_batches_and_dtype():
    case = example(rules.products_of_one_left, tensor(2, 3), tensor(4, 3, 1), tensor(3, 1))
    assert refusal(case) == "members of a group are not alike"
    attrs = ({"out_dtype": "float32"}, {"out_dtype": "float16"})
    operands = [tensor(3, 3, dtype="float16")] * 3
    case = example(rules.products_of_one_right, *operands, attrs=attrs)
    assert refusal(case) == "members of a group are not alike"


def test_symbolic_columns_cannot_be_cut():
    case = example(rules.products_sharing_left, tensor(2, 3), tensor(3, "n"), tensor(3, 1))
    assert "symbolic: n" in str(refusal(case))


@pytest.mark.parametrize("out", ["float32", "float16"])
def test_the_dtype_of_the_result_survives(out):
    halves = [tensor(3, n, dtype="float16") for n in (2, 4)]
    attrs = ({"out_dtype": out},) * 2
    case = example(rules.products_sharing_left, tensor(2, 3, dtype="float16"), *halves, attrs=attrs)
    assert [term.dtype for term in apply(case).targets] == [out, out]
    check_law(case)


def test_different_dtypes_of_the_results_are_refused():
    attrs = ({"out_dtype": "float32"}, {"out_dtype": "float16"})
    halves = [tensor(3, 2, dtype="float16")] * 3
    case = example(
        rules.products_sharing_left, tensor(2, 3, dtype="float16"), *halves[1:], attrs=attrs
    )
    assert refusal(case) == "the operators differ in an attribute"


def test_weights_alone_are_left_alone():
    three = weight(3, 3), weight(3, 3), weight(3, 3)
    for law in (
        rules.products_sharing_left,
        rules.products_sharing_right,
        rules.products_of_one_left,
        rules.products_of_one_right,
        rules.stack_of_products,
    ):
        assert refusal(example(law, *three)) == "nothing but weights"
    case = example(
        rules.product_with_joined_columns, tensor(2, 3), *three[1:], attrs=({}, {"axis": 1})
    )
    assert refusal(case) == "nothing but weights"


def test_weights_and_inputs_do_not_share_a_group():
    case = example(rules.products_of_one_left, tensor(2, 3), weight(3, 1), tensor(3, 2))
    assert refusal(case) == "members of a group are not alike"


def test_empty_products():
    check_law(example(rules.products_sharing_left, tensor(0, 3), tensor(3, 2), tensor(3, 1)))
    check_law(example(rules.products_sharing_left, tensor(2, 0), tensor(0, 2), tensor(0, 1)))


def test_an_inner_axis_is_no_stack():
    case = example(
        rules.product_of_stacked_rows,
        tensor(2, 3),
        tensor(2, 4),
        weight(7, 2),
        attrs=({}, {"axis": 1}),
    )
    assert refusal(case) == "joined along the inner axis"


def test_batches_that_the_right_operand_shares_are_no_stack():
    operands = tensor(2, 3, 4), tensor(1, 3, 4), tensor(3, 4, 5)
    case = example(rules.product_of_stacked_rows, *operands, attrs=({}, {"axis": 0}))
    assert refusal(case) == "the right operand varies along that batch axis"
