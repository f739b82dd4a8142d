"""Convolutions that share an input or a kernel, or whose channels are joined."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.rules.convolution_cases import BATCH, KERNELS, cases
from tests.rules.harness import Operand, apply, check_law, refusal, tensor, weight
from tests.rules.strategies import FLOATS, NUMBERS, SIZES, Strategy, example
from tvm_tensat.rules import convolutions as rules

PLAIN = cases(groups=st.just(1))


@st.composite
def sharing_input(draw: st.DrawFn, law, group=False):
    case, dtype = draw(PLAIN), draw(NUMBERS)
    outputs = draw(st.lists(SIZES, min_size=2, max_size=4 if group else 2))
    kernels = [case.kernel(outputs=n, dtype=dtype) for n in outputs]
    return example(law, case.input(dtype=dtype), *kernels, attrs=(case.attrs,) * len(kernels))


@st.composite
def sharing_kernel(draw: st.DrawFn):
    case, dtype = draw(cases()), draw(NUMBERS)
    x, y = (case.input(dtype=dtype, batch=draw(SIZES)) for _ in range(2))
    kernel = case.kernel(dtype=dtype)
    return example(rules.convolutions_sharing_kernel, kernel, x, y, attrs=(case.attrs,) * 2)


@st.composite
def unequal_kernels(draw: st.DrawFn, law):
    """Two kernels whose windows have the same centre, or one of them another dilation of 1x1."""
    case = draw(PLAIN)
    small, large = draw(
        st.sampled_from([((1, 1), (3, 3)), ((1, 3), (3, 1)), ((3, 3), (5, 5)), ((1, 1), (3, 1))])
    )
    dilation = draw(st.sampled_from([(1, 1), (2, 1)]))
    attrs, kernels = [], []
    for extent in draw(st.permutations([small, large])):
        pads = [d * (e // 2) for d, e in zip(dilation, extent, strict=True)]
        own = dilation if extent != (1, 1) else (1, 1)
        attrs.append(case.attrs | {"padding": (*pads, *pads), "dilation": own})
        outputs = 2 if law is rules.sum_of_convolutions_of_one_input else draw(SIZES)
        kernels.append(case.kernel(outputs=outputs, window=extent))
    one_sum = law is rules.sum_of_convolutions_of_one_input
    return example(law, case.input(), *kernels, attrs=({}, *attrs) if one_sum else tuple(attrs))


@st.composite
def one_kernel(draw: st.DrawFn):
    case, dtype = draw(cases()), draw(FLOATS)
    x = case.input(dtype=dtype)
    operands = x, x, case.kernel(dtype=dtype)
    attrs = ({}, case.attrs, case.attrs)
    return example(rules.sum_of_convolutions_by_one_kernel, *operands, attrs=attrs)


@st.composite
def joined_channels(draw: st.DrawFn, law):
    case, dtype, m, n = draw(PLAIN), draw(FLOATS), draw(SIZES), draw(SIZES)
    x, y = (case.input(channels=k, dtype=dtype) for k in (m, n))
    if law is rules.sum_of_convolutions:
        kernels = [case.kernel(channels=k, dtype=dtype) for k in (m, n)]
        return example(law, x, y, *kernels, attrs=({}, case.attrs, case.attrs))
    whole = case.kernel(channels=m + n, outputs=1, dtype=dtype)
    axis = case.attrs["data_layout"].index("C")
    return example(law, x, y, whole, attrs=(case.attrs | {"padding": 0}, {"axis": axis}))


@st.composite
def in_groups(draw: st.DrawFn):
    groups, inputs, outputs = draw(st.sampled_from([2, 4, 6])), draw(st.integers(2, 3)), draw(SIZES)
    attrs = {"groups": groups, "strides": draw(st.sampled_from([1, 2])), "padding": 1}
    dtype = draw(FLOATS)
    x = tensor(draw(BATCH), groups * inputs, 5, 4, dtype=dtype)
    w = weight(groups * outputs, inputs, *draw(KERNELS), dtype=dtype)
    return example(rules.convolution_in_half_the_groups, x, w, attrs=(attrs,))


EXAMPLES: dict[str, Strategy] = {
    "convolutions_sharing_input": sharing_input(rules.convolutions_sharing_input),
    "convolutions_of_one_input": sharing_input(rules.convolutions_of_one_input, group=True),
    "convolutions_sharing_kernel": sharing_kernel(),
    "convolutions_of_unequal_kernels": unequal_kernels(rules.convolutions_of_unequal_kernels),
    "sum_of_convolutions_of_one_input": unequal_kernels(rules.sum_of_convolutions_of_one_input),
    "sum_of_convolutions_by_one_kernel": one_kernel(),
    "sum_of_convolutions": joined_channels(rules.sum_of_convolutions),
    "convolution_of_joined_channels": joined_channels(rules.convolution_of_joined_channels),
    "convolution_in_half_the_groups": in_groups(),
}


def _pair(law, first: Operand, second: Operand, *attrs: dict[str, object]):
    return example(law, tensor(1, 2, 6, 6), first, second, attrs=attrs)


def test_other_geometries_are_refused():
    law = rules.convolutions_sharing_input
    same = weight(1, 2, 3, 3)
    assert refusal(_pair(law, same, same, {"padding": 1}, {"padding": 0}))
    assert refusal(_pair(law, same, same, {"strides": 2}, {}))
    assert refusal(_pair(law, same, weight(1, 2, 1, 3), {}, {}))


@pytest.mark.parametrize(
    ("small", "large", "reason"),
    [
        ({"padding": 0}, {"padding": 0}, "extent"),
        ({"padding": 0, "strides": 2}, {"padding": 1}, "besides their windows"),
        ({"padding": 1}, {"padding": 2, "dilation": 2}, "different dilations"),
    ],
)
def test_windows_that_do_not_align_are_refused(small, large, reason):
    extent = 3 if small["padding"] else 1
    kernels = weight(1, 2, extent, extent), weight(1, 2, 3, 3)
    case = _pair(rules.convolutions_of_unequal_kernels, *kernels, small, large)
    assert reason in str(refusal(case))


def test_windows_off_the_centre_align():
    """A 2x2 kernel whose window begins one pixel before the output's, beside a 1x1 kernel."""
    case = _pair(
        rules.convolutions_of_unequal_kernels,
        weight(1, 2, 2, 2),
        weight(3, 2, 1, 1),
        {"padding": (1, 1, 0, 0)},
        {},
    )
    check_law(case)
    merged = apply(case).targets[0].operands[0].operands[0]
    assert merged.padding == (1, 1, 0, 0) and merged.operands[1].shape == (4, 2, 2, 2)


def test_grouped_convolutions_are_not_merged():
    attrs = {"groups": 2}
    kernel = weight(4, 1, 1, 1)
    for law in (rules.convolutions_sharing_input, rules.convolutions_of_one_input):
        assert refusal(_pair(law, kernel, kernel, attrs, attrs)) == "grouped convolution"


def test_blocked_layouts_are_refused():
    attrs = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i4o"}
    kernel = weight(1, 1, 1, 1, 4, 4)
    case = example(
        rules.convolutions_sharing_input, tensor(1, 1, 3, 3, 4), kernel, kernel, attrs=(attrs,) * 2
    )
    assert "inner blocks" in str(refusal(case))


def test_a_sum_larger_than_the_joined_input_is_refused():
    operands = tensor(1, 2, 6, 6), tensor(1, 2, 6, 6), weight(4, 4, 1, 1)
    case = example(rules.convolution_of_joined_channels, *operands, attrs=({}, {"axis": 1}))
    assert refusal(case) == "the sum is larger than the joined input"


def test_depthwise_convolutions_keep_their_groups():
    case = example(
        rules.convolution_in_half_the_groups,
        tensor(1, 4, 3, 3),
        weight(4, 1, 3, 3),
        attrs=({"groups": 4},),
    )
    assert refusal(case) == "depthwise convolution"
