"""Convolutions as products, of fewer pixels, and in another layout."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.convolution_cases import cases
from tests.rules.harness import refusal, tensor, weight
from tests.rules.strategies import FLOATS, NUMBERS, SIZES, Strategy, example
from tvm_tensat.rules import convolution_forms as rules

ONE = st.just((1, 1))
STRIDES = st.sampled_from([(2, 2), (2, 1), (3, 2)])


@st.composite
def pointwise(draw: st.DrawFn, law, strides):
    case = draw(cases(groups=st.just(1), windows=ONE, padded=False))
    attrs = case.attrs | {"strides": draw(strides)}
    x, dtype = case.input(), draw(NUMBERS)
    if law is rules.pointwise_convolution_as_product:
        x = case.input(batch=draw(SIZES))
    x, w = tensor(*x.shape, dtype=dtype), case.kernel(dtype=dtype)
    return example(law, x, w, attrs=(attrs,))


@st.composite
def of_one_point(draw: st.DrawFn, law, rank):
    batch, inputs, outputs, *pixels = (draw(SIZES) for _ in range(3 + rank))
    dtype = draw(NUMBERS)
    x = tensor(batch, inputs, *pixels, dtype=dtype)
    return example(law, x, weight(outputs, inputs, *(1,) * rank, dtype=dtype))


@st.composite
def touching_windows(draw: st.DrawFn):
    batch, inputs, outputs, *pixels = (draw(SIZES) for _ in range(5))
    window, dtype = draw(st.tuples(*(st.integers(1, 3),) * 2)), draw(FLOATS)
    x, w = (
        tensor(batch, inputs, *pixels, dtype=dtype),
        weight(inputs, outputs, *window, dtype=dtype),
    )
    law = rules.transposed_convolution_as_product
    return example(law, x, w, attrs=({"strides": window},))


@st.composite
def of_stride_one(draw: st.DrawFn):
    batch, inputs, outputs = (draw(SIZES) for _ in range(3))
    window, dtype = draw(st.tuples(*(st.integers(1, 3),) * 2)), draw(FLOATS)
    padding = [draw(st.integers(0, extent - 1)) for extent in window * 2]
    x, w = tensor(batch, inputs, 4, 3, dtype=dtype), weight(inputs, outputs, *window, dtype=dtype)
    law = rules.transposed_convolution_as_convolution
    return example(law, x, w, attrs=({"padding": padding},))


EXAMPLES: dict[str, Strategy] = {
    **{
        law.name: of_one_point(law, k)
        for k, law in zip((1, 3), rules.pointwise_convolution, strict=True)
    },
    "transposed_convolution_as_product": touching_windows(),
    "transposed_convolution_as_convolution": of_stride_one(),
    "pointwise_convolution_as_product": pointwise(
        rules.pointwise_convolution_as_product, st.just((1, 1))
    ),
    "pointwise_convolution_of_fewer_pixels": pointwise(
        rules.pointwise_convolution_of_fewer_pixels, STRIDES
    ),
}


def test_other_convolutions_are_no_product():
    law = rules.pointwise_convolution_as_product
    x, w = tensor(1, 2, 4, 4), weight(3, 2, 1, 1)
    assert refusal(example(law, x, weight(3, 2, 1, 2))) == "the kernel is not 1x1"
    assert refusal(example(law, x, w, attrs=({"padding": 1},))) == "padded"
    assert "strided" in str(refusal(example(law, x, w, attrs=({"strides": 2},))))
    assert "symbolic: n" in str(refusal(example(law, tensor(1, 2, "n", 4), w)))
    grouped = example(law, x, weight(2, 1, 1, 1), attrs=({"groups": 2},))
    assert refusal(grouped) == "grouped convolution"


def test_kernels_of_more_than_a_point_are_no_product():
    line, _ = rules.pointwise_convolution
    x, w = tensor(1, 2, 4), weight(3, 2, 1)
    reason = "the kernel is more than one point, strided or padded"
    assert refusal(example(line, x, w)) is None
    assert refusal(example(line, x, weight(3, 2, 2))) == reason
    assert refusal(example(line, x, w, attrs=({"strides": 2},))) == reason
    assert refusal(example(line, x, w, attrs=({"padding": 1},))) == reason
    groups = example(line, x, weight(2, 1, 1), attrs=({"groups": 2},))
    assert refusal(groups) == "grouped convolution"
    last = {"data_layout": "NWC"}
    assert refusal(example(line, tensor(1, 4, 2), w, attrs=(last,))) == "layout NWC"


def test_windows_that_overlap_or_leave_gaps_are_no_product():
    law = rules.transposed_convolution_as_product
    x, w = tensor(1, 2, 3, 3), weight(2, 3, 2, 2)
    for attrs in ({}, {"strides": 3}, {"strides": 2, "padding": 1}):
        reason = refusal(example(law, x, w, attrs=(attrs,)))
        assert reason == "the windows overlap or leave gaps, or the result is cut"
    more = {"strides": 2, "output_padding": 1}
    assert refusal(example(law, x, w, attrs=(more,))) == "padded after the convolution"
    grouped = example(law, x, weight(2, 2, 2, 2), attrs=({"strides": 2, "groups": 2},))
    assert refusal(grouped) == "grouped convolution"


def test_strided_and_deeply_cut_transposed_convolutions_are_no_convolution():
    law = rules.transposed_convolution_as_convolution
    x, w = tensor(1, 2, 5, 5), weight(2, 3, 2, 2)
    for attrs in ({"strides": 2}, {"padding": 2}):
        reason = refusal(example(law, x, w, attrs=(attrs,)))
        assert reason == "strided, or cut by more than a window"
