"""Quantized tensors, changed in shape while they are small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.rules.harness import check_law, constant, refusal, tensor, weight
from tests.rules.strategies import SIZES, Strategy, example, permutations, shapes
from tvm_tensat.rules import quantization as rules

STATIC = shapes(1, 3, sizes=SIZES)
BYTES = st.sampled_from(["int8", "uint8"])


def scale(value: float = 0.05) -> Any:
    return constant(value)


@st.composite
def of_shape(draw: st.DrawFn, law):
    """Draw a change of shape after dequantizing or before quantizing."""
    shape, dtype = draw(STATIC), draw(BYTES)
    if "permut" in law.name:
        change: dict[str, Any] = {"axes": draw(permutations(len(shape)))}
    elif "reshape" in law.name:
        change = {"shape": (1, *shape)}
    else:
        change = {"axes": [0], "begin": [0], "end": [draw(st.integers(1, shape[0]))]}
    z = constant(draw(st.integers(0, 9)), dtype=dtype)
    if law.name.startswith("quantized"):
        attrs, x = ({"out_dtype": dtype, "axis": 0}, change), tensor(*shape)
    else:
        attrs, x = (change, {"axis": 0}), tensor(*shape, dtype=dtype)
    return example(law, x, scale(), z, attrs=attrs)


@st.composite
def joined(draw: st.DrawFn):
    shape, dtype = draw(STATIC), draw(BYTES)
    z = constant(draw(st.integers(0, 9)), dtype=dtype)
    x = tensor(*shape, dtype=dtype)
    axis = draw(st.integers(0, len(shape) - 1))
    attrs = ({"axis": axis}, {}, {"axis": 0}, {"axis": 0})
    return example(rules.joined_dequantized, x, x, scale(), z, attrs=attrs)


@st.composite
def again(draw: st.DrawFn):
    dtype = draw(BYTES)
    z = constant(draw(st.integers(0, 9)), dtype=dtype)
    s = scale(draw(st.sampled_from([0.05, 1.0, 1 / 3, 2.0**-90, 1e20])))
    attrs = ({"out_dtype": dtype, "axis": 0}, {"axis": 0})
    return example(rules.quantized_again, tensor(*draw(STATIC), dtype=dtype), s, z, attrs=attrs)


SHAPED = (
    rules.permuted_dequantized,
    rules.quantized_permutation,
    rules.reshaped_dequantized,
    rules.quantized_reshape,
    rules.sliced_dequantized,
)
EXAMPLES: dict[str, Strategy] = {
    **{law.name: of_shape(law) for law in SHAPED},
    "joined_dequantized": joined(),
    "quantized_again": again(),
}


@pytest.mark.parametrize("value", [0.05, 1 / 3, 0.0078125, 0.3, 7e-30, 1.7e25])
def test_every_byte_comes_back(value):
    attrs = ({"out_dtype": "int8", "axis": 0}, {"axis": 0})
    z = constant(-3, dtype="int8")
    trial = example(rules.quantized_again, tensor(4096, dtype="int8"), scale(value), z, attrs=attrs)
    check_law(trial)


@pytest.mark.parametrize("value", [0.0, -0.05, np.inf, np.nan, 1e-40, 1e38])
def test_scales_that_lose_numbers_are_refused(value):
    attrs = ({"out_dtype": "int8", "axis": 0}, {"axis": 0})
    z = constant(0, dtype="int8")
    trial = example(rules.quantized_again, tensor(3, dtype="int8"), scale(value), z, attrs=attrs)
    assert refusal(trial) == "no constant scale, or one that is too small or too large"


def test_a_scale_for_each_channel_stays():
    attrs = ({"axes": [1, 0]}, {"axis": 0})
    operands = tensor(2, 3, dtype="int8"), weight(2), weight(2, dtype="int8")
    case = example(rules.permuted_dequantized, *operands, attrs=attrs)
    assert refusal(case) == "a scale for each channel"


def test_bytes_of_two_kinds_are_not_joined():
    operands = tensor(2, dtype="int8"), tensor(2, dtype="uint8"), scale(), constant(0, dtype="int8")
    attrs = ({"axis": 0}, {}, {"axis": 0}, {"axis": 0})
    reason = refusal(example(rules.joined_dequantized, *operands, attrs=attrs))
    assert reason == "different dtypes or axes"
