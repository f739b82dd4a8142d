"""Activation functions written out: with the right numbers they are one operator, else not."""

from __future__ import annotations

import math

import pytest
from hypothesis import strategies as st

from tests.rules.harness import check_law, constant, refusal, tensor, weight
from tests.rules.strategies import FLOATS, WIDE_FLOATS, Strategy, example, shapes
from tvm_tensat.rules import activations as rules

ROOT, PI = math.sqrt(2.0), math.sqrt(2.0 / math.pi)
GELU = {  # rule -> its constants
    law.name: (1 / ROOT if "multiply" in law.name else ROOT, 1.0, 0.5)
    for law in rules.gelu_written_out
}
GELU_TANH = {law.name: (0.044715, PI, 1.0, 0.5) for law in rules.gelu_tanh_written_out}
FAST_GELU = {"fast_gelu_written_out": (PI, 0.044715 * PI, 1.0, 0.5)}
OTHERS = {"power_of_three": (3.0,), "sigmoid_written_out": (1.0, 1.0), "silu_written_out": (1.0,)}
CONSTANTS = GELU | GELU_TANH | FAST_GELU | OTHERS
LAWS = {
    law.name: law
    for law in (
        *rules.gelu_written_out,
        *rules.gelu_tanh_written_out,
        rules.fast_gelu_written_out,
        rules.power_of_three,
        rules.sigmoid_written_out,
        rules.silu_written_out,
    )
}
HALF = ("sigmoid_written_out", "silu_written_out")  # erf and powers of float16 are not TVM's


@st.composite
def written_out(draw: st.DrawFn, name: str):
    dtype = draw(FLOATS if name in HALF else WIDE_FLOATS)
    numbers = [constant(c, dtype=dtype) for c in CONSTANTS[name]]
    return example(LAWS[name], tensor(*draw(shapes(max_rank=3)), dtype=dtype), *numbers)


@st.composite
def with_zero(draw: st.DrawFn, law, slopes=()):
    """Draw what meets the number zero, and a slope before it where there is one."""
    dtype = draw(FLOATS)
    numbers = [constant(draw(st.sampled_from(slopes)), dtype=dtype)] if slopes else []
    if law is not rules.leakyrelu_as_maximum:
        numbers.append(constant(0.0, dtype=dtype))
    return example(law, tensor(*draw(shapes(max_rank=3)), dtype=dtype), *numbers)


EXAMPLES: dict[str, Strategy] = {
    **{name: written_out(name) for name in LAWS},
    "relu_written_out": with_zero(rules.relu_written_out),
    "leakyrelu_as_maximum": with_zero(rules.leakyrelu_as_maximum, (0.25, 1.0, 2.0**-9)),
    "leakyrelu_as_choice": with_zero(rules.leakyrelu_as_choice, (0.25, -2.0, 3.0)),
}


@pytest.mark.parametrize("name", GELU | GELU_TANH | FAST_GELU)
def test_one_other_number_is_no_gelu(name):
    numbers = CONSTANTS[name]
    assert refusal(example(LAWS[name], tensor(3), *map(constant, numbers))) is None
    for k, number in enumerate(numbers):
        for other in (constant(number * 1.001), weight()):
            operands = [constant(n) if n != number else other for n in numbers]
            assert refusal(example(LAWS[name], tensor(3), *operands)) == f"not {number:g}", k


def test_a_number_rounded_to_its_dtype_is_that_number():
    law = rules.gelu_written_out[1]
    for dtype, rounded in (("float16", 1.4140625), ("float32", 1.4142135), ("bfloat16", 1.4140625)):
        one, half = constant(1.0, dtype=dtype), constant(0.5, dtype=dtype)
        c = constant(rounded, dtype=dtype)
        assert refusal(example(law, tensor(3, dtype=dtype), c, one, half)) is None
    operands = (constant(1.4140625), constant(1.0), constant(0.5))
    assert refusal(example(law, tensor(3), *operands)) == "not 1.41421"


def test_large_and_infinite_numbers_give_the_same_limits():
    for law, numbers in ((LAWS[name], CONSTANTS[name]) for name in HALF):
        numbers = map(constant, numbers)
        check_law(example(law, tensor(60, low=-200.0, high=200.0), *numbers))


def test_another_threshold_or_slope_is_no_relu():
    x, slope = tensor(3), constant(0.5)
    assert refusal(example(rules.relu_written_out, x, constant(-0.0))) == "not +0"
    assert refusal(example(rules.relu_written_out, x, constant(1.0))) == "not +0"
    for steep in (constant(1.5), constant(-0.5), constant(0.0), weight()):
        assert refusal(example(rules.leakyrelu_as_maximum, x, steep)) == "not a fraction"
    reason = refusal(example(rules.leakyrelu_as_choice, x, slope, constant(1.0)))
    assert reason == "no constant slope, or another threshold than zero"
