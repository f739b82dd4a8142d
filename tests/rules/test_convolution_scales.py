"""Convolutions with scales and shifts of channels."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.convolution_cases import Case, cases
from tests.rules.harness import Operand, check_law, constant, refusal, tensor, weight
from tests.rules.strategies import FLOATS, Strategy, example
from tvm_tensat.rules import convolution_scales as rules


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
    return example(rules.scaled_convolution, *operands, attrs=({}, case.attrs))


@st.composite
def scaled_inputs(draw: st.DrawFn):
    case, dtype = draw(cases(groups=st.just(1))), draw(FLOATS)
    factors = draw(vector(case, case.channels, dtype))
    operands = case.input(dtype=dtype), factors, case.kernel(dtype=dtype)
    return example(rules.convolution_of_scaled_channels, *operands, attrs=(case.attrs,))


@st.composite
def shifted_inputs(draw: st.DrawFn):
    case, dtype = draw(cases(groups=st.just(1), padded=False)), draw(FLOATS)
    shift = draw(vector(case, case.channels, dtype))
    operands = case.input(dtype=dtype), shift, case.kernel(dtype=dtype)
    return example(rules.convolution_of_shifted_channels, *operands, attrs=(case.attrs,))


EXAMPLES: dict[str, Strategy] = {
    "scaled_convolution": scaled_outputs(),
    "convolution_of_scaled_channels": scaled_inputs(),
    "convolution_of_shifted_channels": shifted_inputs(),
}


def test_a_padded_input_is_not_shifted():
    operands = tensor(1, 2, 4, 4), weight(2, 1, 1), weight(1, 2, 3, 3)
    case = example(rules.convolution_of_shifted_channels, *operands, attrs=({"padding": 1},))
    assert refusal(case) == "the padding is not shifted"


def test_scales_of_pixels_are_refused():
    operands = tensor(1, 2, 4, 4), weight(1, 2, 1, 1)
    case = example(rules.scaled_convolution, *operands, weight(4, 4))
    assert "varies along other axes" in str(refusal(case))


def test_grouped_inputs_are_scaled_by_numbers_only():
    x, w, groups = tensor(1, 4, 3, 3), weight(2, 2, 1, 1), ({"groups": 2},)
    law = rules.convolution_of_scaled_channels
    check_law(example(law, x, constant(3.0), w, attrs=groups))
    assert refusal(example(law, x, weight(4, 1, 1), w, attrs=groups)) == "grouped convolution"
