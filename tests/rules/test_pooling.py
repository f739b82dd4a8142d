"""Pools of images."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.harness import refusal, tensor
from tests.rules.strategies import FLOATS, SIZES, Strategy, example
from tvm_tensat.rules import pooling as rules

LAWS = {law.name: law for law in (*rules.pools_of_joined_images, *rules.joined_pools)}


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, object]:
    layout = draw(st.sampled_from(["NCHW", "NHWC"]))
    return {
        "pool_size": draw(st.sampled_from([(2, 2), (3, 3), (1, 2)])),
        "strides": draw(st.sampled_from([(1, 1), (2, 2)])),
        "padding": draw(st.sampled_from([(0, 0, 0, 0), (1, 0, 1, 0)])),
        "ceil_mode": draw(st.booleans()),
        "layout": layout,
    }


@st.composite
def joined(draw: st.DrawFn, law):
    attrs, dtype, letter = draw(geometries()), draw(FLOATS), draw(st.sampled_from("NC"))
    axis = attrs["layout"].index(letter)
    extents = {"N": draw(SIZES), "C": draw(SIZES), "H": 6, "W": 5}
    x = tensor(*(extents[k] for k in attrs["layout"]), dtype=dtype)
    extents[letter] = draw(SIZES)
    y = tensor(*(extents[k] for k in attrs["layout"]), dtype=dtype)
    at = {"axis": axis}
    outer_first = law in rules.pools_of_joined_images
    # Preorder: the tuple is a term between the concatenation and what it joins.
    return example(law, x, y, attrs=(attrs, at) if outer_first else (at, {}, attrs, attrs))


@st.composite
def rectified(draw: st.DrawFn):
    attrs, dtype = draw(geometries()) | {"ceil_mode": False}, draw(FLOATS)
    if attrs["pool_size"] == (1, 2):
        attrs["padding"] = (0, 1, 0, 1)
    extents = {"N": draw(st.sampled_from([2, "n"])), "C": draw(SIZES), "H": 6, "W": 5}
    x = tensor(*(extents[k] for k in attrs["layout"]), dtype=dtype)
    return example(rules.max_pool_of_relu, x, attrs=(attrs,))


EXAMPLES: dict[str, Strategy] = {
    **{name: joined(law) for name, law in LAWS.items()},
    "max_pool_of_relu": rectified(),
}


def test_images_joined_along_their_pixels_are_refused():
    for law in rules.pools_of_joined_images:
        case = example(law, tensor(1, 2, 4, 4), tensor(1, 2, 4, 4), attrs=({}, {"axis": 2}))
        assert "joined along the pixels" in str(refusal(case))


def test_windows_of_nothing_but_padding_are_refused():
    """There relu would turn the lowest number into 0."""
    for attrs in ({"pool_size": 3, "ceil_mode": True}, {"pool_size": (1, 2), "padding": 1}):
        case = example(rules.max_pool_of_relu, tensor(1, 1, 4, 4), attrs=(attrs,))
        assert refusal(case) == "a window may hold nothing but padding"
