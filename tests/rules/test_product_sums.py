"""Products in sums and in products."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.harness import check_law, refusal, tensor, weight
from tests.rules.strategies import FLOATS, SIZES, SIZES_OR_SYMBOLS, Strategy, example
from tvm_tensat.rules import product_sums as rules

BATCHES = st.sampled_from([(), (2,), ("n",), (3, 2)])


@st.composite
def chain(draw: st.DrawFn, law):
    """Three matrices, each with the batch axes or with none."""
    batch, dtype = draw(BATCHES), draw(FLOATS)
    extents = [draw(SIZES_OR_SYMBOLS) for _ in range(4)]
    shapes = [(*draw(st.sampled_from([(), batch])), *extents[k : k + 2]) for k in range(3)]
    return example(law, *(tensor(*shape, dtype=dtype) for shape in shapes))


@st.composite
def with_sum_on_the_right(draw: st.DrawFn, law):
    batch, dtype, inner = draw(BATCHES), draw(FLOATS), draw(SIZES_OR_SYMBOLS)
    own = draw(st.sampled_from([(), batch]))
    x = tensor(*batch, draw(SIZES_OR_SYMBOLS), inner, dtype=dtype)
    right = (*own, inner, draw(SIZES_OR_SYMBOLS))
    return example(law, x, tensor(*right, dtype=dtype), weight(*right, dtype=dtype))


@st.composite
def with_sum_on_the_left(draw: st.DrawFn, law):
    batch, dtype, inner = draw(BATCHES), draw(FLOATS), draw(SIZES_OR_SYMBOLS)
    left = (*batch, draw(SIZES_OR_SYMBOLS), inner)
    second = tensor(*left, dtype=dtype)
    if law is rules.product_of_a_sum:
        shape = draw(st.sampled_from([left, (inner,), (1, inner), (1,), (), (*left[:-1], 1)]))
        second = weight(*shape, dtype=dtype)
    a = tensor(inner, draw(SIZES_OR_SYMBOLS), dtype=dtype)
    return example(law, tensor(*left, dtype=dtype), second, a)


@st.composite
def along_two_inner_axes(draw: st.DrawFn, law):
    batch, dtype = draw(BATCHES), draw(FLOATS)
    k, m, rows, columns = draw(SIZES), draw(SIZES), draw(SIZES_OR_SYMBOLS), draw(SIZES_OR_SYMBOLS)
    x, y = (tensor(*batch, rows, inner, dtype=dtype) for inner in (k, m))
    if law is rules.sum_of_products:
        return example(law, x, y, *(tensor(inner, columns, dtype=dtype) for inner in (k, m)))
    w = weight(k + m, columns, dtype=dtype)
    return example(law, x, y, w, attrs=({}, {"axis": len(batch) + 1}))


EXAMPLES: dict[str, Strategy] = {
    "product_reassociated_right": chain(rules.product_reassociated_right),
    "product_reassociated_left": chain(rules.product_reassociated_left),
    "sum_of_products_of_one_left": with_sum_on_the_right(rules.sum_of_products_of_one_left),
    "product_with_a_sum": with_sum_on_the_right(rules.product_with_a_sum),
    "sum_of_products_with_one_right": with_sum_on_the_left(rules.sum_of_products_with_one_right),
    "product_of_a_sum": with_sum_on_the_left(rules.product_of_a_sum),
    "sum_of_products": along_two_inner_axes(rules.sum_of_products),
    "product_along_a_joined_axis": along_two_inner_axes(rules.product_along_a_joined_axis),
}


def test_vectors_are_refused():
    case = example(rules.product_reassociated_right, tensor(3), tensor(3, 3), tensor(3, 3))
    assert refusal(case) == "an operand is a vector"
    case = example(rules.sum_of_products_of_one_left, tensor(2, 3), tensor(3), tensor(3))
    assert refusal(case) == "an operand is a vector"


def test_products_of_integers_are_refused():
    case = example(rules.product_reassociated_right, *(tensor(2, 2, dtype="int8"),) * 3)
    assert refusal(case) == "dtype int8"


def test_summands_of_different_rank_or_shape_are_refused():
    case = example(rules.product_with_a_sum, tensor(2, 3), tensor(3, 2), tensor(4, 3, 2))
    assert refusal(case) == "summands differ in shape"
    case = example(rules.sum_of_products_of_one_left, tensor(2, 3), tensor(3, 1), tensor(3, 2))
    assert refusal(case) == "right operands differ in shape"


def test_sums_of_weights_stay():
    case = example(rules.product_with_a_sum, tensor(2, 3), weight(3, 2), weight(3, 2))
    assert refusal(case) == "nothing but weights"


def test_products_of_two_weights_are_split_only_where_that_saves_work():
    full = example(rules.product_reassociated_left, tensor(2, 8), weight(8, 8), weight(8, 8))
    assert refusal(full) == "the product of the weights is no larger than they are"
    check_law(example(rules.product_reassociated_left, tensor(2, 8), weight(8, 2), weight(2, 8)))
    full = example(rules.product_reassociated_right, weight(8, 8), weight(8, 8), tensor(8, 2))
    assert refusal(full) == "the product of the weights is no larger than they are"


def test_a_broadcast_activation_is_not_multiplied_on_its_own():
    case = example(rules.product_of_a_sum, tensor(2, 3), tensor(1, 3), weight(3, 2))
    assert refusal(case) == "the second summand is broadcast and no weight"


def test_empty_inner_axes():
    check_law(
        example(rules.sum_of_products, tensor(2, 0), tensor(2, 3), tensor(0, 2), tensor(3, 2))
    )
