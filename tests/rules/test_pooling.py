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


EXAMPLES: dict[str, Strategy] = {
    **{name: joined(law) for name, law in LAWS.items()},
}


def test_images_joined_along_their_pixels_are_refused():
    for law in rules.pools_of_joined_images:
        case = example(law, tensor(1, 2, 4, 4), tensor(1, 2, 4, 4), attrs=({}, {"axis": 2}))
        assert "joined along the pixels" in str(refusal(case))
