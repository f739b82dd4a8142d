"""Convolutions with scales and shifts of channels."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.convolution_cases import Case, cases, others
from tests.rules.harness import Operand, check_law, constant, refusal, tensor, weight
from tests.rules.strategies import FLOATS, Strategy, example
from tvm_tensat.rules import convolution_scales as rules

scale_of = {law.name.partition("[")[2][:-1]: law for law in rules.scaled_convolution}
scaled_by = {law.name.partition("[")[2][:-1]: law for law in rules.convolution_of_scaled_channels}
OTHERS = ("conv1d", "conv3d", "conv2d_transpose")


@st.composite
def vector(draw: st.DrawFn, case: Case, channels: int, dtype: str) -> Operand:
    """Draw one number for each channel, or one for all."""
    shape = [channels if letter == "C" else 1 for letter in case.attrs["data_layout"]]
    if draw(st.booleans()):
        while shape and shape[0] == 1:  # broadcasting adds them again
            del shape[0]
    return weight(*draw(st.sampled_from([shape, shape, [], [1, 1]])), dtype=dtype)


@st.composite
def scaled_outputs(draw: st.DrawFn):
    case, dtype = draw(cases()), draw(FLOATS)
    factors = draw(vector(case, 2 * case.attrs["groups"], dtype))
    operands = case.input(dtype=dtype), case.kernel(dtype=dtype), factors
    return example(scale_of["conv2d"], *operands, attrs=({}, case.attrs))


@st.composite
def scaled_inputs(draw: st.DrawFn):
    case, dtype = draw(cases(groups=st.just(1))), draw(FLOATS)
    factors = draw(vector(case, case.channels, dtype))
    operands = case.input(dtype=dtype), factors, case.kernel(dtype=dtype)
    return example(scaled_by["conv2d"], *operands, attrs=(case.attrs,))


@st.composite
def shifted_inputs(draw: st.DrawFn):
    case, dtype = draw(cases(groups=st.just(1), padded=False)), draw(FLOATS)
    shift = draw(vector(case, case.channels, dtype))
    operands = case.input(dtype=dtype), shift, case.kernel(dtype=dtype)
    return example(rules.convolution_of_shifted_channels, *operands, attrs=(case.attrs,))


@st.composite
def other_outputs(draw: st.DrawFn, name):
    case, dtype = draw(others(name)), draw(FLOATS)
    shape = draw(st.sampled_from([case.vector(case.outputs), ()]))
    operands = (tensor(*case.input, dtype=dtype), weight(*case.kernel, dtype=dtype))
    return example(scale_of[name], *operands, weight(*shape, dtype=dtype), attrs=({}, case.attrs))


@st.composite
def other_inputs(draw: st.DrawFn, name):
    case, dtype = draw(others(name, st.just(1))), draw(FLOATS)
    shape = draw(st.sampled_from([case.vector(case.input[1]), ()]))
    factors, kernel = weight(*shape, dtype=dtype), weight(*case.kernel, dtype=dtype)
    return example(
        scaled_by[name], tensor(*case.input, dtype=dtype), factors, kernel, attrs=(case.attrs,)
    )


EXAMPLES: dict[str, Strategy] = {
    "scaled_convolution[conv2d]": scaled_outputs(),
    "convolution_of_scaled_channels[conv2d]": scaled_inputs(),
    **{scale_of[name].name: other_outputs(name) for name in OTHERS},
    **{scaled_by[name].name: other_inputs(name) for name in OTHERS},
    "convolution_of_shifted_channels": shifted_inputs(),
}


def test_a_padded_input_is_not_shifted():
    operands = tensor(1, 2, 4, 4), weight(2, 1, 1), weight(1, 2, 3, 3)
    case = example(rules.convolution_of_shifted_channels, *operands, attrs=({"padding": 1},))
    assert refusal(case) == "the padding is not shifted"


def test_scales_of_pixels_are_refused():
    operands = tensor(1, 2, 4, 4), weight(1, 2, 1, 1)
    case = example(scale_of["conv2d"], *operands, weight(4, 4))
    assert "varies along other axes" in str(refusal(case))


def test_grouped_inputs_are_scaled_by_numbers_only():
    x, w, groups = tensor(1, 4, 3, 3), weight(2, 2, 1, 1), ({"groups": 2},)
    law = scaled_by["conv2d"]
    check_law(example(law, x, constant(3.0), w, attrs=groups))
    assert refusal(example(law, x, weight(4, 1, 1), w, attrs=groups)) == "grouped convolution"


def test_filters_of_a_transposed_convolution_in_groups_stay():
    """Its kernel holds the filters of one group, which share the scale of no channel."""
    operands = tensor(1, 4, 3, 3), weight(4, 2, 2, 2), weight(4, 1, 1)
    case = example(scale_of["conv2d_transpose"], *operands, attrs=({}, {"groups": 2}))
    assert refusal(case) == "grouped convolution"
    one = example(scale_of["conv2d_transpose"], *operands[:2], weight(), attrs=({}, {"groups": 2}))
    assert refusal(one) is None
