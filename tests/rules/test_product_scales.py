"""Products with scales of rows, columns, or the inner axis."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.rules.harness import check_law, constant, refusal, tensor, weight
from tests.rules.strategies import FLOATS, SIZES, SIZES_OR_SYMBOLS, Strategy, example
from tvm_tensat.rules import product_scales as rules

BATCHES = st.sampled_from([(), (2,), ("n",), (3, 2)])
LEFT, RIGHT, PRODUCT = 0, 1, 2


@st.composite
def scaled(draw: st.DrawFn, law, what: int, axis: int):
    """Scale rows (axis -2) or columns (-1) of an operand or of the product, or all by a number."""
    batch, dtype = draw(BATCHES), draw(FLOATS)
    rows, inner, columns = draw(SIZES_OR_SYMBOLS), draw(SIZES_OR_SYMBOLS), draw(SIZES)
    own = draw(st.sampled_from([(), batch]))
    shapes = [(*batch, rows, inner), (*own, inner, columns), (*batch, rows, columns)]
    extent = shapes[what][axis]
    vector = (extent, 1) if axis == -2 else (extent,)
    forms = [vector, (), (1,), (1, *vector), (1,) * len(shapes[what])]
    form = draw(st.sampled_from([f for f in forms if len(f) <= len(shapes[what])]))
    s = draw(st.sampled_from([tensor, weight]))(*form, dtype=dtype)
    x = tensor(*shapes[LEFT], dtype=dtype)
    w = (weight if s.weight and what != RIGHT else tensor)(*shapes[RIGHT], dtype=dtype)
    return example(law, x, s, w) if what == LEFT else example(law, x, w, s)


EXAMPLES: dict[str, Strategy] = {
    "product_of_a_scaled_left_operand": scaled(rules.product_of_a_scaled_left_operand, LEFT, -1),
    "product_with_a_scaled_right_operand": scaled(
        rules.product_with_a_scaled_right_operand, RIGHT, -2
    ),
    "scaled_columns_of_a_product": scaled(rules.scaled_columns_of_a_product, PRODUCT, -1),
    "scaled_rows_of_a_product": scaled(rules.scaled_rows_of_a_product, PRODUCT, -2),
    "product_of_scaled_rows": scaled(rules.product_of_scaled_rows, LEFT, -2),
    "product_with_scaled_columns": scaled(rules.product_with_scaled_columns, RIGHT, -1),
}


@pytest.mark.parametrize("shape", [(2, 3), (3, 1, 1), (2, 1)])
def test_scales_that_vary_elsewhere_are_refused(shape):
    case = example(rules.scaled_columns_of_a_product, tensor(3, 2, 2), weight(2, 3), weight(*shape))
    assert "varies along other axes" in str(refusal(case))


def test_scales_that_broadcast_are_refused():
    case = example(rules.product_of_a_scaled_left_operand, tensor(2, 1), weight(3), weight(3, 2))
    assert refusal(case) == "the scale broadcasts what it scales"
    case = example(rules.scaled_columns_of_a_product, tensor(2, 2), weight(2, 3), weight(1, 1, 3))
    assert refusal(case) == "the operand raises the rank"


def test_a_product_of_one_column_may_be_scaled_to_several():
    check_law(example(rules.scaled_columns_of_a_product, tensor(2, 2), weight(2, 1), weight(3)))


def test_scaled_weights_stay():
    case = example(rules.product_with_scaled_columns, tensor(2, 2), weight(2, 3), constant(2.0))
    assert refusal(case) == "nothing but weights"


def test_weights_are_not_scaled_at_run_time():
    x, w, row = tensor(1, 2), weight(2, 3), tensor(1, 1)
    reason = "a weight would be scaled at run time"
    assert refusal(example(rules.product_of_a_scaled_left_operand, x, row, w)) == reason
    assert refusal(example(rules.scaled_columns_of_a_product, x, w, row)) == reason
    assert (
        refusal(example(rules.scaled_rows_of_a_product, weight(1, 2), tensor(2, 3), row)) == reason
    )
    right = example(rules.product_with_a_scaled_right_operand, weight(1, 2), tensor(2, 3), row)
    assert refusal(right) == reason
    assert refusal(example(rules.scaled_rows_of_a_product, x, w, row)) is None
