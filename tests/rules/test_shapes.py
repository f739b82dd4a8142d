"""Reshapes, broadcasts, slices, padding and casts."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import strategies as st

from tests.rules.harness import apply, check_law, refusal, tensor, weight
from tests.rules.strategies import (
    DTYPES,
    FLOATS,
    NUMBERS,
    SIZES,
    SIZES_OR_EMPTY,
    broadcastable,
    example,
    needed,
    shapes,
)
from tvm_tensat.rules import shapes as rules

STATIC = shapes(max_rank=3, sizes=SIZES)
MAYBE_EMPTY = shapes(min_rank=1, max_rank=3, sizes=SIZES_OR_EMPTY)


@st.composite
def reshaped(draw: st.DrawFn, shape):
    """Draw a shape of as many elements: a factor moved, axes joined, unit axes put in."""
    extents = [e for e in shape if e != 1]
    if draw(st.booleans()):
        extents = [prod(extents)]
    for at in draw(st.lists(st.integers(0, len(extents)), max_size=2)):
        extents.insert(at, 1)
    return tuple(extents)


@st.composite
def reshape_of_reshape(draw: st.DrawFn):
    shape = draw(STATIC)  # TVM's reshape reads an extent 0 as "the same as before"
    attrs = tuple({"shape": draw(reshaped(shape))} for _ in range(2))
    return example(rules.reshape_of_reshape, tensor(*shape, dtype=draw(DTYPES)), attrs=attrs)


@st.composite
def to_its_shape(draw: st.DrawFn, law):
    shape = draw(MAYBE_EMPTY)
    return example(law, tensor(*shape, dtype=draw(DTYPES)), attrs=({"shape": shape},))


@st.composite
def as_reshape(draw: st.DrawFn, law):
    shape = draw(shapes(min_rank=1, max_rank=3))
    attrs = {}
    if law.name.endswith("[expand_dims]"):
        attrs = {"axis": [draw(st.integers(0, len(shape)))]}
    if law.name.endswith("[squeeze]"):
        axis = draw(st.integers(0, len(shape)))
        shape = (*shape[:axis], 1, *shape[axis:])
        attrs = {"axis": [axis]}
    return example(law, tensor(*shape, dtype=draw(DTYPES)), attrs=(attrs,))


@st.composite
def unary(draw: st.DrawFn, law):
    shape = draw(STATIC)
    attrs = ({"shape": draw(reshaped(shape))}, needed(law))
    return example(law, tensor(*shape, dtype=draw(FLOATS)), attrs=attrs)


@st.composite
def reshaped_binary(draw: st.DrawFn, law):
    """Draw operands of one shape, or one that is repeated and a reshape of unit axes."""
    shape, dtype = draw(STATIC), draw(NUMBERS)
    other, new = shape, draw(reshaped(shape))
    if draw(st.booleans()):
        other = draw(broadcastable(shape))
        extents = [e for e in shape if e != 1]
        for at in draw(st.lists(st.integers(0, len(extents)), max_size=2)):
            extents.insert(at, 1)
        new = tuple(extents)
    operands = (tensor(*own, dtype=dtype) for own in (shape, other))
    return example(law, *operands, attrs=({"shape": new}, {}))


@st.composite
def binary_of_reshaped(draw: st.DrawFn, law):
    shape, dtype = draw(STATIC), draw(NUMBERS)
    reshape = {"shape": draw(reshaped(shape))}
    x = tensor(*shape, dtype=dtype)
    return example(law, x, x, attrs=({}, reshape, reshape))


@st.composite
def broadcast_of_broadcast(draw: st.DrawFn):
    outer = draw(STATIC)
    inner = draw(broadcastable(outer))
    small = draw(broadcastable(inner))
    attrs = ({"shape": outer}, {"shape": inner})
    return example(rules.broadcast_of_broadcast, tensor(*small, dtype=draw(DTYPES)), attrs=attrs)


@st.composite
def broadcast_as_reshape(draw: st.DrawFn):
    shape = draw(STATIC)
    attrs = ({"shape": (*(1,) * draw(st.integers(0, 2)), *shape)},)
    return example(rules.broadcast_as_reshape, tensor(*shape, dtype=draw(DTYPES)), attrs=attrs)


@st.composite
def a_slice(draw: st.DrawFn, rank: int):
    """Draw a forward slice; TVM compiles none that begins after its end."""
    axes = draw(st.lists(st.integers(0, rank - 1), min_size=1, unique=True))
    pairs = [sorted(draw(st.tuples(*(st.integers(0, 12),) * 2))) for _ in axes]
    begins, ends = (list(column) for column in zip(*pairs, strict=True))
    strides = [draw(st.integers(1, 3)) for _ in axes]
    return {"axes": axes, "begin": begins, "end": ends, "strides": strides}


@st.composite
def slice_of_slice(draw: st.DrawFn):
    shape = draw(shapes(min_rank=1, max_rank=3, sizes=st.integers(1, 12)))
    attrs = (draw(a_slice(len(shape))), draw(a_slice(len(shape))))
    return example(rules.slice_of_slice, tensor(*shape, dtype=draw(DTYPES)), attrs=attrs)


@st.composite
def whole_slice(draw: st.DrawFn):
    shape = draw(MAYBE_EMPTY)
    rank = len(shape)
    ends = [extent + draw(st.integers(0, 2)) for extent in shape]
    attrs = ({"axes": list(range(rank)), "begin": [0] * rank, "end": ends},)
    return example(rules.whole_slice, tensor(*shape, dtype=draw(DTYPES)), attrs=attrs)


@st.composite
def pad_of_pad(draw: st.DrawFn):
    shape, value = draw(STATIC.filter(bool)), draw(st.sampled_from([0.0, -0.0, 1.5]))
    width = st.lists(st.integers(0, 2), min_size=2 * len(shape), max_size=2 * len(shape))
    attrs = tuple({"pad_width": draw(width), "pad_value": value} for _ in range(2))
    return example(rules.pad_of_pad, tensor(*shape, dtype=draw(FLOATS)), attrs=attrs)


@st.composite
def no_pad(draw: st.DrawFn):
    shape = draw(STATIC.filter(bool))
    mode = draw(st.sampled_from(["constant", "edge"]))
    attrs = ({"pad_width": [0, 0] * len(shape), "pad_mode": mode},)
    return example(rules.no_pad, tensor(*shape, dtype=draw(FLOATS)), attrs=attrs)


@st.composite
def identity_cast(draw: st.DrawFn):
    dtype = draw(DTYPES)
    operand = tensor(*draw(shapes(max_rank=2)), dtype=dtype)
    return example(rules.identity_cast, operand, attrs=({"dtype": dtype},))


CASTS = [  # from, through, to
    ("bool", "int8", "bool"),
    ("bool", "float32", "bool"),
    ("bool", "float32", "int32"),
    ("int8", "int32", "int8"),
    ("int8", "int32", "uint8"),
    ("int8", "float32", "int8"),
    ("int8", "float16", "float64"),
    ("uint8", "int16", "bool"),
    ("int16", "int64", "int8"),
    ("int16", "float32", "float16"),
    ("int32", "float64", "float32"),
    ("float16", "float32", "float16"),
    ("float16", "float64", "float32"),
    ("float32", "float64", "float16"),
    ("float32", "float64", "float32"),
]


@st.composite
def cast_of_exact_cast(draw: st.DrawFn):
    before, through, after = draw(st.sampled_from(CASTS))
    operand = tensor(*draw(shapes(max_rank=2)), dtype=before)
    attrs = ({"dtype": after}, {"dtype": through})
    return example(rules.cast_of_exact_cast, operand, attrs=attrs)


EXAMPLES = {
    "reshape_of_reshape": reshape_of_reshape(),
    "identity_reshape": to_its_shape(rules.identity_reshape),
    **{law.name: as_reshape(law) for law in rules.as_reshape},
    **{law.name: unary(law) for law in rules.reshaped_unary},
    **{law.name: reshaped_binary(law) for law in rules.reshaped_binary},
    **{law.name: binary_of_reshaped(law) for law in rules.binary_of_reshaped},
    "broadcast_of_broadcast": broadcast_of_broadcast(),
    "identity_broadcast": to_its_shape(rules.identity_broadcast),
    "broadcast_as_reshape": broadcast_as_reshape(),
    "slice_of_slice": slice_of_slice(),
    "whole_slice": whole_slice(),
    "pad_of_pad": pad_of_pad(),
    "no_pad": no_pad(),
    "identity_cast": identity_cast(),
    "cast_of_exact_cast": cast_of_exact_cast(),
}


@pytest.mark.parametrize("casts", CASTS, ids="-".join)
def test_casts_through_a_wider_dtype(casts):
    before, through, after = casts
    attrs = ({"dtype": after}, {"dtype": through})
    trial = example(rules.cast_of_exact_cast, tensor(64, dtype=before), attrs=attrs)
    check_law(trial, special=before.startswith("float"))


@pytest.mark.parametrize(
    "casts",
    [
        ("float32", "float16", "float32"),
        ("float32", "bool", "float32"),
        ("int32", "float32", "int32"),
        ("int32", "bool", "int32"),
        ("int64", "float64", "int64"),
        ("uint8", "int8", "uint8"),
        ("float32", "bfloat16", "float32"),
    ],
    ids="-".join,
)
def test_casts_through_a_dtype_that_loses_values_stay(casts):
    before, through, after = casts
    attrs = ({"dtype": after}, {"dtype": through})
    reason = refusal(example(rules.cast_of_exact_cast, tensor(3, dtype=before), attrs=attrs))
    assert reason == f"{through} cannot hold every {before}"


@pytest.mark.parametrize("casts", [("float16", "float32", "int8"), ("int32", "float64", "int8")])
def test_casts_of_floats_that_may_be_out_of_range_stay(casts):
    before, through, after = casts
    attrs = ({"dtype": after}, {"dtype": through})
    reason = refusal(example(rules.cast_of_exact_cast, tensor(3, dtype=before), attrs=attrs))
    assert reason == "what TVM makes of a float that is out of range is not defined"


def test_slices_compose_as_numpy_does():
    attrs = (  # outer first: x[1:9:2][1:3], which is x[3:6:2]
        {"axes": [0], "begin": [1], "end": [3]},
        {"axes": [0], "begin": [1], "end": [9], "strides": [2]},
    )
    (made,) = apply(example(rules.slice_of_slice, tensor(10), attrs=attrs)).targets
    assert (made.begin, made.end, made.strides) == ((3,), (6,), (2,))


def test_backward_slices_and_parts_are_no_whole():
    back = ({"axes": [0], "begin": [3], "end": [-5], "strides": [-1]},)
    assert refusal(example(rules.whole_slice, tensor(4), attrs=back)) == "a part"
    reason = refusal(example(rules.slice_of_slice, tensor(4), attrs=back * 2))
    assert reason == "a slice that goes backwards or begins outside"


def test_slices_of_symbolic_axes_are_refused_or_right():
    attrs = ({"axes": [1], "begin": [1], "end": [3]}, {"axes": [1], "begin": [0], "end": [4]})
    check_law(example(rules.slice_of_slice, tensor("n", 5), attrs=attrs))
    assert refusal(example(rules.slice_of_slice, tensor(5, "n"), attrs=attrs)) is not None


def test_paddings_with_different_constants_stay():
    def trial(first, second):
        return example(
            rules.pad_of_pad,
            tensor(2),
            attrs=({"pad_width": [1, 1]} | second, {"pad_width": [1, 1]} | first),
        )

    assert refusal(trial({}, {"pad_value": 1.0})) == "different constants"
    assert refusal(trial({"pad_value": -0.0}, {})) == "different constants"
    assert refusal(trial({"pad_mode": "edge"}, {})) == "no constant padding"
    assert refusal(trial({}, {})) is None


def test_an_operand_repeated_along_a_reshaped_axis_stays():
    law, _ = rules.reshaped_binary
    trial = example(law, tensor(4, 6), weight(6), attrs=({"shape": [24]}, {}))
    assert refusal(trial) == "an operand is repeated along a reshaped axis"


def test_a_repeating_broadcast_is_no_reshape():
    trial = example(rules.broadcast_as_reshape, tensor(1, 3), attrs=({"shape": [2, 3]},))
    assert refusal(trial) == "elements are repeated"


def test_weights_are_not_dragged_along():
    attrs = ({"shape": [6]}, {})
    for law in rules.reshaped_unary:
        one = example(law, weight(2, 3), attrs=({"shape": [6]}, needed(law)))
        assert refusal(one) == "an operand is a weight"
    for law in rules.reshaped_binary:
        assert refusal(example(law, weight(2, 3), weight(3), attrs=attrs)) == "nothing but weights"
