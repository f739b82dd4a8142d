"""Sums, products, and what is refused of them."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.convolution_cases import cases, others
from tests.rules.harness import check_law, constant, refusal, tensor, weight
from tests.rules.strategies import (
    FLOATS,
    NUMBERS,
    WIDE_FLOATS,
    broadcastable,
    example,
    shapes,
)
from tests.rules.tuples import with_tuples
from tvm_tensat.rules import elementwise as rules

SHAPES = shapes(max_rank=3)


@st.composite
def meeting(draw: st.DrawFn, law, kinds="", dtypes=FLOATS, positive=""):
    """Draw operands that broadcast to one shape: i for an input, w for a weight."""
    shape, dtype = draw(SHAPES), draw(dtypes)
    operands = []
    for k, kind in enumerate(kinds):
        own = shape if k == 0 else draw(broadcastable(shape))
        bounds = {"low": 0.5, "high": 2.0} if str(k) in positive else {}
        operands.append((weight if kind == "w" else tensor)(*own, dtype=dtype, **bounds))
    return example(law, *operands)


@st.composite
def of_stack(draw: st.DrawFn, law):
    count, shape = draw(st.integers(1, 5)), draw(shapes(max_rank=3))
    axis, dtype = draw(st.integers(-1, len(shape))), draw(WIDE_FLOATS)
    attrs = ({"axis": [axis], "keepdims": draw(st.booleans())}, {"axis": axis}, {})
    return example(with_tuples(law, count), *(tensor(*shape, dtype=dtype),) * count, attrs=attrs)


@st.composite
def of_one(draw: st.DrawFn, law):
    shape = draw(shapes(min_rank=1, max_rank=3))
    axis = draw(st.integers(0, len(shape) - 1))
    shape = (*shape[:axis], 1, *shape[axis + 1 :])
    attrs = ({"axis": [axis], "keepdims": draw(st.booleans())},)
    return example(law, tensor(*shape, dtype=draw(FLOATS)), attrs=attrs)


@st.composite
def power_of_two(draw: st.DrawFn):
    dtype = draw(WIDE_FLOATS)
    return example(
        rules.power_of_two, tensor(*draw(SHAPES), dtype=dtype), constant(2.0, dtype=dtype)
    )


@st.composite
def shifted_product(draw: st.DrawFn):
    batch, (n, k, m) = draw(SHAPES), draw(st.tuples(*[st.integers(0, 3)] * 3))
    dtype = draw(FLOATS)
    left, right = tensor(*batch, n, k, dtype=dtype), tensor(k, m, dtype=dtype)
    shift = weight(*draw(st.sampled_from([(m,), (n, 1), ()])), dtype=dtype)
    return example(product_shift, left, right, shift, tensor(*batch, n, m, dtype=dtype))


@st.composite
def shifted_convolution(draw: st.DrawFn):
    case = draw(cases())
    letters = dict.fromkeys("NCHW", 1) | {"C": 2 * case.attrs["groups"]}
    shift = weight(*(letters[letter] for letter in case.attrs["data_layout"]))
    attrs = ({}, {}, case.attrs)
    operands = case.input(), case.kernel(), shift, tensor(1)
    return example(convolution_shift, *operands, attrs=attrs)


@st.composite
def other_shifted_convolution(draw: st.DrawFn, name):
    case = draw(others(name))
    operands = tensor(*case.input), weight(*case.kernel), weight(*case.vector(case.outputs))
    return example(shift_of[name], *operands, tensor(1), attrs=({}, {}, case.attrs))


add_weights, multiply_weights = rules.weights_join
shift_of = {law.name.partition("[")[2][:-1]: law for law in rules.shift_moves_outward}
product_shift, convolution_shift = shift_of["matmul"], shift_of["conv2d"]
OTHERS = ("conv1d", "conv3d", "conv2d_transpose")
EXAMPLES = {
    "sum_commutes": meeting(rules.sum_commutes, "ii", NUMBERS),
    "product_commutes": meeting(rules.product_commutes, "wi", NUMBERS),
    "weights_join[add]": meeting(add_weights, "iww"),
    "weights_join[multiply]": meeting(multiply_weights, "iww"),
    "shift_moves_outward[matmul]": shifted_product(),
    "shift_moves_outward[conv2d]": shifted_convolution(),
    **{shift_of[name].name: other_shifted_convolution(name) for name in OTHERS},
    "scale_before_shift": meeting(rules.scale_before_shift, "iww"),
    "common_factor": meeting(rules.common_factor, "iii"),
    "scale_of_sum": meeting(rules.scale_of_sum, "iiw"),
    "minus_weight": meeting(rules.minus_weight, "iw"),
    "quotient_by_weight": meeting(rules.quotient_by_weight, "iw", WIDE_FLOATS, positive="1"),
    "quotient_by_root": meeting(rules.quotient_by_root, "ii", WIDE_FLOATS, positive="1"),
    "square_as_product": meeting(rules.square_as_product, "i", NUMBERS),
    "power_of_two": power_of_two(),
    "sigmoid_times_itself": meeting(rules.sigmoid_times_itself, "i"),
    "sum_of_stack": of_stack(rules.sum_of_stack),
    "mean_of_stack": of_stack(rules.mean_of_stack),
    **{law.name: of_one(law) for law in rules.reduction_of_one},
}


def test_weights_go_right_and_stay_there():
    for law in (rules.sum_commutes, rules.product_commutes):
        assert refusal(example(law, weight(3), tensor(3))) is None
        assert refusal(example(law, tensor(3), weight(3))) == "an operand is a weight"


def test_only_weights_are_joined_moved_and_distributed():
    x, s = tensor(3), weight(3)
    for law in (*rules.weights_join, rules.scale_before_shift):
        assert refusal(example(law, x, s, s)) is None
        assert refusal(example(law, x, s, x)) == "an operand is no weight"
        assert refusal(example(law, s, s, s)) == "an operand is a weight"
    a, b = tensor(3, 3), weight(3, 3)
    assert refusal(example(product_shift, a, b, s, x)) is None
    assert refusal(example(product_shift, a, b, x, x)) == "an operand is no weight"
    assert refusal(example(product_shift, a, b, s, s)) == "an operand is a weight"
    assert refusal(example(product_shift, b, b, s, x)) == "nothing but weights"
    assert refusal(example(rules.scale_of_sum, x, x, x)) == "an operand is no weight"
    assert refusal(example(rules.common_factor, x, s, s)) == "an operand is a weight"


def test_integer_sums_are_not_regrouped():
    x, s = tensor(3, dtype="int32"), weight(3, dtype="int32")
    assert refusal(example(add_weights, x, s, s)) == "dtype int32"


def test_half_floats_have_no_room_for_reciprocals():
    x, s = tensor(3, dtype="float16"), weight(3, dtype="float16")
    assert refusal(example(rules.quotient_by_weight, x, s)) == "dtype float16"


def test_infinite_and_missing_inputs_stay_so_past_finite_weights():
    x, s, t = tensor(40), constant(2.0, 40), constant(0.5)
    for law in (*rules.weights_join, rules.scale_before_shift):
        check_law(example(law, x, s, t), special=True)
    check_law(example(rules.quotient_by_weight, x, constant(3.0)), special=True)
    check_law(example(rules.scale_of_sum, x, x, constant(2.0)), special=True)
    product = tensor(4, 4), constant(1.0, 4, 4)
    check_law(example(product_shift, *product, t, tensor(4)), special=True)
    check_law(example(rules.power_of_two, x, constant(2.0)), special=True)
    check_law(example(rules.quotient_by_root, x, tensor(40)), special=True)


def test_quotients_by_zero_keep_their_infinities():
    for zero in (0.0, -0.0):
        check_law(example(rules.quotient_by_weight, tensor(40), constant(zero, 40)), special=True)


def test_another_power_is_no_product():
    assert refusal(example(rules.power_of_two, tensor(3), constant(3.0))) == "another power"
    assert refusal(example(rules.power_of_two, tensor(3), weight(3))) == "another power"


def test_a_sum_over_another_axis_is_no_chain():
    law = with_tuples(rules.sum_of_stack, 2)
    attrs = ({"axis": [1]}, {"axis": 0})
    assert refusal(example(law, tensor(2), tensor(2), attrs=attrs)) == "another axis is reduced"
    both = ({"axis": None}, {"axis": 0})
    assert refusal(example(law, tensor(2), tensor(2), attrs=both)) == "another axis is reduced"


def test_a_sum_of_many_stays_a_reduction():
    law = with_tuples(rules.sum_of_stack, 17)
    attrs = ({"axis": [0]}, {"axis": 0})
    assert refusal(example(law, *(tensor(2),) * 17, attrs=attrs)) == "more than 16 terms"


def test_a_sum_over_a_longer_axis_is_no_reshape():
    for law in rules.reduction_of_one:
        reason = refusal(example(law, tensor(2, 1), attrs=({"axis": [0, 1]},)))
        assert reason == "an axis of more than one"


def test_empty_tensors():
    x, s = tensor(2, 0), weight(2, 0)
    check_law(example(rules.common_factor, x, x, s))
    check_law(example(rules.scale_before_shift, x, s, s))
    stack = with_tuples(rules.sum_of_stack, 2)
    check_law(example(stack, x, x, attrs=({"axis": [0]}, {"axis": 0})))
