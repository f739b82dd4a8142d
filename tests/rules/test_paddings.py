"""Zeros around an image, which convolutions and pools add themselves."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.rules.convolution_cases import others
from tests.rules.harness import refusal, tensor, weight
from tests.rules.strategies import FLOATS, SIZES, Strategy, example
from tvm_tensat.rules import paddings as rules

LAW = {law.name.partition("[")[2][:-1]: law for law in rules.padded_convolution}


def around(rank, widths):
    """Return the widths of a padding of pixels, channels first."""
    pairs = zip(widths[:rank], widths[rank:], strict=True)
    return [0, 0, 0, 0, *(width for pair in pairs for width in pair)]


@st.composite
def padded(draw: st.DrawFn, name, rank):
    case = draw(others("conv3d" if rank == 3 else "conv1d"))
    shape, kernel, attrs = case.input, case.kernel, case.attrs
    if rank == 2:
        shape, kernel = (*shape, 4), (*kernel, 2)
        attrs = attrs | {"strides": 2, "padding": [1, 0, 0, 1]}
    widths = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
    dtype = draw(st.sampled_from(["float32", "float64", "int32"]))
    operands = tensor(*shape, dtype=dtype), weight(*kernel, dtype=dtype)
    return example(LAW[name], *operands, attrs=(attrs, {"pad_width": around(rank, widths)}))


@st.composite
def padded_pool(draw: st.DrawFn):
    widths = [draw(st.integers(0, 2)) for _ in range(4)]
    counted = draw(st.booleans())
    pool = {
        "pool_size": draw(st.tuples(*(st.integers(1, 3),) * 2)),
        "strides": draw(st.tuples(*(st.integers(1, 2),) * 2)),
        "padding": draw(st.sampled_from([0, 1])) if counted else 0,
        "count_include_pad": counted,
    }
    x = tensor(draw(SIZES), draw(SIZES), 5, 4, dtype=draw(FLOATS))
    attrs = (pool, {"pad_width": around(2, widths)})
    return example(rules.padded_average_pool, x, attrs=attrs)


EXAMPLES: dict[str, Strategy] = {
    **{LAW[f"conv{k}d"].name: padded(f"conv{k}d", k) for k in (1, 2, 3)},
    "padded_average_pool": padded_pool(),
}

ONE = {"pad_width": [0, 0, 0, 0, 1, 1, 1, 1]}


@pytest.mark.parametrize(
    ("padding", "reason"),
    [
        (ONE | {"pad_value": 1.0}, "not padded with zeros"),
        (ONE | {"pad_value": -0.0}, "padded with -0"),
        (ONE | {"pad_mode": "edge"}, "not padded with zeros"),
        ({"pad_width": [0, 0, 1, 1] + [0] * 4}, "batches or channels are padded"),
        ({"pad_width": [1, 0, 0, 0] + [0] * 4}, "batches or channels are padded"),
    ],
)
def test_other_paddings_stay(padding, reason):
    channels = 2 + sum(padding["pad_width"][2:4])
    operands = tensor(1, 2, 4, 4), weight(3, channels, 2, 2)
    assert str(refusal(example(LAW["conv2d"], *operands, attrs=({}, padding)))).startswith(reason)


def test_a_pool_that_does_not_count_its_own_zeros_stays():
    law, x = rules.padded_average_pool, tensor(1, 1, 4, 4)
    reason = "windows that leave the image, or zeros that are not counted"
    own = {"pool_size": 2, "padding": 1}
    assert refusal(example(law, x, attrs=(own, ONE))) == reason
    assert refusal(example(law, x, attrs=(own | {"count_include_pad": True}, ONE))) is None
    assert refusal(example(law, x, attrs=({"pool_size": 2, "ceil_mode": True}, ONE))) == reason
