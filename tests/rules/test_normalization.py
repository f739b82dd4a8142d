"""Normalization as it is at inference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.rules.harness import constant, refusal, tensor, weight
from tests.rules.strategies import DTYPES, FLOATS, WIDE_FLOATS, Strategy, example, shapes
from tvm_tensat.rules import normalization as rules

LAWS = {
    "batch_norm_as_scale_and_shift": rules.batch_norm_as_scale_and_shift,
    "batch_norm_keeps_mean": rules.batch_norm_keeps_mean,
    "batch_norm_keeps_variance": rules.batch_norm_keeps_variance,
}


@st.composite
def batch_norms(draw: st.DrawFn, law):
    shape, dtype = draw(shapes(2, 4)), draw(WIDE_FLOATS)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    attrs = {
        "axis": axis,
        "epsilon": draw(st.sampled_from([1e-5, 1e-3])),
        "center": draw(st.booleans()),
        "scale": draw(st.booleans()),
        "momentum": 0.9,
        "training": False,
    }
    vectors = [weight(shape[axis], dtype=dtype) for _ in range(3)]
    variance = weight(shape[axis], dtype=dtype, low=0.1, high=2.0)
    return example(law, tensor(*shape, dtype=dtype), *vectors, variance, attrs=({}, attrs))


@st.composite
def shifted(draw: st.DrawFn):
    shape, dtype = draw(shapes(1, 3)), draw(FLOATS)
    axis = draw(st.integers(0, len(shape) - 1))
    kept = [extent if k != axis else 1 for k, extent in enumerate(shape)]
    c = tensor(*draw(st.sampled_from([kept, [], [1]])), dtype=dtype)
    return example(
        rules.softmax_of_shifted, tensor(*shape, dtype=dtype), c, attrs=({"axis": axis},)
    )


EXAMPLES: dict[str, Strategy] = {
    **{name: batch_norms(law) for name, law in LAWS.items()},
    "dropout_is_identity": st.tuples(shapes(), DTYPES.filter(lambda d: d != "bool")).map(
        lambda drawn: example(rules.dropout_is_identity, tensor(*drawn[0], dtype=drawn[1]))
    ),
    "softmax_of_shifted": shifted(),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_training_statistics_are_left_alone(law):
    operands = (weight(3),) * 4
    case = example(law, tensor(2, 3), *operands, attrs=({}, {"axis": 1, "training": True}))
    assert refusal(case) == "normalizes by the statistics of the batch"


def test_shifts_along_the_axis_of_softmax_are_refused():
    case = example(rules.softmax_of_shifted, tensor(2, 3), tensor(3), attrs=({"axis": -1},))
    assert refusal(case) == "the shift varies along the axis of softmax"


def test_infinite_shifts_are_refused():
    case = example(rules.softmax_of_shifted, tensor(2, 3), constant(-np.inf))
    assert refusal(case) == "an infinite shift"
