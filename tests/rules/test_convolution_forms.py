"""Convolutions as products, of fewer pixels, and in another layout."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.convolution_cases import cases
from tests.rules.harness import refusal, tensor, weight
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


EXAMPLES: dict[str, Strategy] = {
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
