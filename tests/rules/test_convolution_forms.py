"""Convolutions as products, of fewer pixels, and in another layout."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.convolution_cases import cases
from tests.rules.harness import apply, refusal, tensor, weight
from tests.rules.strategies import NUMBERS, SIZES, Strategy, example
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
def channels_first(draw: st.DrawFn):
    case, dtype = draw(cases(groups=st.just(1), layouts=st.just(("NCHW", "OIHW")))), draw(NUMBERS)
    operands = case.input(dtype=dtype), case.kernel(dtype=dtype)
    return example(rules.convolution_with_channels_last, *operands, attrs=(case.attrs,))


EXAMPLES: dict[str, Strategy] = {
    "pointwise_convolution_as_product": pointwise(
        rules.pointwise_convolution_as_product, st.just((1, 1))
    ),
    "pointwise_convolution_of_fewer_pixels": pointwise(
        rules.pointwise_convolution_of_fewer_pixels, STRIDES
    ),
    "convolution_with_channels_last": channels_first(),
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


def test_channels_last_names_its_layouts():
    case = example(rules.convolution_with_channels_last, tensor(1, 2, 5, 5), weight(3, 2, 3, 3))
    inner = apply(case).targets[0].operands[0]
    assert (inner.data_layout, inner.kernel_layout, inner.out_layout) == ("NHWC", "HWIO", "NHWC")
