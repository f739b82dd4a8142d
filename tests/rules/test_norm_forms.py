"""Normalizations written out, and their scales and shifts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.rules.harness import check_law, constant, refusal, tensor, weight
from tests.rules.strategies import SIZES, WIDE_FLOATS, Strategy, example, shapes
from tvm_tensat.rules import norm_forms as rules

NORMED = st.sampled_from(["float32", "float32", "float16"])
LAYER, GROUP, INSTANCE = range(3)
KEPT = {"keepdims": True}


@st.composite
def written_out(draw: st.DrawFn, law, reductions):
    """Draw what is normalized along its last axes; `reductions` places their attributes."""
    shape, dtype = draw(shapes(2, 3, sizes=st.integers(2, 5))), draw(NORMED)
    least = 1 if law is rules.rms_norm_written_out else 0
    axes = list(range(draw(st.integers(least, len(shape) - 1)), len(shape)))
    attrs = [{} for _ in range(max(reductions) + 1)]
    for place in reductions:
        attrs[place] = {"axis": axes} | KEPT
    epsilon = constant(draw(st.sampled_from([1e-5, 0.5])), dtype=dtype)
    return example(law, tensor(*shape, dtype=dtype), epsilon, attrs=tuple(attrs))


# Preorder: multiply, subtract, mean, rsqrt, add, mean, multiply, subtract, mean, subtract, mean.
LAYER_NORM, BY_VARIANCE, RMS_NORM = (2, 5, 8, 10), (2, 5), (3,)


def norm_of(kind, shape):
    """Return the attributes and the vectors' extent of a norm of this shape."""
    if kind == LAYER:
        return {"axes": [len(shape) - 1]}, shape[-1], len(shape) - 1
    attrs = {"channel_axis": 1, "axes": list(range(2, len(shape)))}
    return (attrs | {"num_groups": 2} if kind == GROUP else attrs), shape[1], 1


@st.composite
def changed(draw: st.DrawFn, law, kind):
    """Draw a norm that meets a weight along the axis that it scales, or a number."""
    shape = (draw(SIZES), 2 * draw(st.integers(1, 2)), draw(SIZES), draw(st.integers(2, 4)))
    dtype = draw(NORMED)
    attrs, extent, axis = norm_of(kind, shape)
    vector = [extent if k == axis else 1 for k in range(len(shape))]
    own = draw(st.sampled_from([vector, vector[axis:], []]))
    s = weight(*own, dtype=dtype)
    x, each = tensor(*shape, dtype=dtype), weight(extent, dtype=dtype)
    return example(law, x, each, each, s, attrs=({}, attrs))


@st.composite
def scaled_rms_norm(draw: st.DrawFn):
    shape, dtype = draw(shapes(2, 3, sizes=SIZES)), draw(NORMED)
    vector = weight(shape[-1], dtype=dtype)
    s = draw(st.sampled_from([vector, weight(dtype=dtype)]))
    x = tensor(*shape, dtype=dtype)
    return example(rules.scaled_rms_norm, x, vector, s, attrs=({}, {"axes": [len(shape) - 1]}))


@st.composite
def siblings(draw: st.DrawFn):
    shape, dtype = draw(shapes(1, 3, sizes=SIZES)), draw(NORMED)
    count = draw(st.integers(2, 3))
    vectors = [weight(shape[-1], dtype=dtype) for _ in range(2 * count)]
    attrs = ({"axes": [len(shape) - 1]},) * count
    return example(rules.norms_of_one_input, tensor(*shape, dtype=dtype), *vectors, attrs=attrs)


@st.composite
def softmaxes(draw: st.DrawFn, law):
    shape, dtype = draw(shapes(1, 3)), draw(WIDE_FLOATS)
    axis = draw(st.integers(0, len(shape) - 1))
    x = tensor(*shape, dtype=dtype)
    if law is rules.softmax_written_out:
        return example(law, x, attrs=({}, {}, {"axis": [axis]} | KEPT))
    if law is rules.log_of_softmax:
        return example(law, x, attrs=({}, {"axis": axis}))
    kept = [extent if k != axis else 1 for k, extent in enumerate(shape)]
    c = tensor(*draw(st.sampled_from([kept, []])), dtype=dtype)
    return example(law, x, c, attrs=({"axis": axis}, {}))


EXAMPLES: dict[str, Strategy] = {
    "layer_norm_written_out": written_out(rules.layer_norm_written_out, LAYER_NORM),
    "layer_norm_by_variance": written_out(rules.layer_norm_by_variance, BY_VARIANCE),
    "rms_norm_written_out": written_out(rules.rms_norm_written_out, RMS_NORM),
    **{law.name: changed(law, kind) for kind, law in enumerate(rules.scaled_norm)},
    **{law.name: changed(law, kind) for kind, law in enumerate(rules.shifted_norm)},
    "scaled_rms_norm": scaled_rms_norm(),
    "norms_of_one_input": siblings(),
    "softmax_written_out": softmaxes(rules.softmax_written_out),
    "softmax_of_difference": softmaxes(rules.softmax_of_difference),
    "log_of_softmax": softmaxes(rules.log_of_softmax),
}


def layer(first, second, epsilon=None):
    attrs = [{} for _ in range(11)]
    for place in LAYER_NORM:
        attrs[place] = first
    attrs[5] = second
    operands = tensor(4, 4), constant(1e-5) if epsilon is None else epsilon
    return example(rules.layer_norm_written_out, *operands, attrs=tuple(attrs))


def test_means_along_other_axes_are_no_layer_norm():
    last, first = {"axis": [1]} | KEPT, {"axis": [0]} | KEPT
    assert refusal(layer(last, last)) is None
    assert refusal(layer(last, first)) == "reduced along different axes, or axes are dropped"
    assert refusal(layer(first, first)) == "not along the last axes"


@pytest.mark.parametrize("epsilon", [weight(), constant(-1.0), constant(np.inf), constant(np.nan)])
def test_a_norm_needs_a_constant_that_is_added_to_the_variance(epsilon):
    last = {"axis": [1]} | KEPT
    assert refusal(layer(last, last, epsilon)) == "no constant is added to the variance"


def test_norms_that_tvm_does_not_lower_are_not_made():
    last, x = {"axis": [0]} | KEPT, tensor(4)
    case = example(rules.rms_norm_written_out, x, constant(1e-5), attrs=({}, {}, {}, last))
    assert refusal(case) == "TVM lowers no norm by the root mean square along all axes"
    wide = tensor(4, 4, dtype="float64"), constant(1e-5, dtype="float64")
    both = ({}, {}, {"axis": [1]} | KEPT, {}, {}, {"axis": [1]} | KEPT)
    assert refusal(example(rules.layer_norm_by_variance, *wide, attrs=both)) == "dtype float64"


def test_scales_along_other_axes_stay_outside():
    law, _, _ = rules.scaled_norm
    operands = tensor(2, 3), weight(3), weight(3)
    attrs = ({}, {"axes": [1]})
    assert "varies along other axes" in str(
        refusal(example(law, *operands, weight(2, 1), attrs=attrs))
    )
    assert refusal(example(law, *operands, tensor(3), attrs=attrs)) == "an operand is no weight"
    both = ({}, {"axes": [0, 1]})
    wide = tensor(2, 3), weight(2, 3), weight(2, 3), weight(3)
    assert refusal(example(law, *wide, attrs=both)) == "normalized along several axes"


def test_norms_with_different_epsilons_share_nothing():
    attrs = ({"axes": [1]}, {"axes": [1], "epsilon": 0.5})
    case = example(rules.norms_of_one_input, tensor(2, 3), *(weight(3),) * 4, attrs=attrs)
    assert refusal(case) == "members of a group are not alike"


def test_a_sum_along_another_number_of_axes_is_no_softmax():
    for reduced in ({"axis": [0, 1]} | KEPT, {"axis": [1]}):
        case = example(rules.softmax_written_out, tensor(3, 3), attrs=({}, {}, reduced))
        assert refusal(case) == "summed along several axes, or the axis is dropped"


def test_differences_along_the_axis_of_softmax_are_refused():
    case = example(rules.softmax_of_difference, tensor(2, 3), tensor(3), attrs=({"axis": 1}, {}))
    assert refusal(case) == "the shift varies along the axis of softmax"


def test_large_numbers_do_not_overflow_where_they_did_not():
    x = tensor(3, 5, low=-80.0, high=80.0)
    check_law(example(rules.softmax_written_out, x, attrs=({}, {}, {"axis": [1]} | KEPT)))
