"""Slices travel towards the operands."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.rules.harness import apply, check_law, constant, refusal, tensor, weight
from tests.rules.strategies import (
    DTYPES,
    FLOATS,
    NUMBERS,
    SIZES,
    Strategy,
    broadcastable,
    example,
    needed,
    permutations,
    shapes,
)
from tvm_tensat.rules import narrowing as rules

STATIC = shapes(1, 4, sizes=SIZES)


@st.composite
def a_slice(draw: st.DrawFn, shape, axes=None):
    """Draw a slice along some of these axes, all by default, that leaves something."""
    axes = range(len(shape)) if axes is None else axes
    some = draw(st.lists(st.sampled_from(list(axes)), min_size=1, unique=True)) if axes else []
    pairs = [sorted(draw(st.tuples(*(st.integers(0, shape[k] - 1),) * 2))) for k in some]
    return {"axes": some, "begin": [b for b, _ in pairs], "end": [e + 1 for _, e in pairs]}


@st.composite
def unary(draw: st.DrawFn, law):
    shape = draw(STATIC)
    attrs = (draw(a_slice(shape)), needed(law))
    return example(law, tensor(*shape, dtype=draw(FLOATS)), attrs=attrs)


@st.composite
def binary(draw: st.DrawFn, law):
    shape, dtype = draw(STATIC), draw(NUMBERS)
    operands = draw(st.permutations([shape, draw(broadcastable(shape))]))
    attrs = (draw(a_slice(shape)), {})
    return example(law, *(tensor(*own, dtype=dtype) for own in operands), attrs=attrs)


@st.composite
def product(draw: st.DrawFn):
    batch = draw(st.sampled_from([(), (2,), (3, 2)]))
    rows, inner, columns = (draw(SIZES) for _ in range(3))
    left, right = draw(st.sampled_from([(batch, ()), (batch, batch), ((), batch)]))
    dtype, whole = draw(NUMBERS), (*batch, rows, columns)
    operands = tensor(*left, rows, inner, dtype=dtype), tensor(*right, inner, columns, dtype=dtype)
    return example(rules.sliced_product, *operands, attrs=(draw(a_slice(whole)), {}))


@st.composite
def norm(draw: st.DrawFn, law, vectors):
    shape, dtype = draw(shapes(2, 3, sizes=SIZES)), draw(st.sampled_from(["float32", "float16"]))
    last = len(shape) - 1
    each = weight(shape[-1], dtype=dtype)
    attrs = (draw(a_slice(shape, range(last))), {"axes": [last]} if vectors else {"axis": last})
    return example(law, tensor(*shape, dtype=dtype), *(each,) * vectors, attrs=attrs)


@st.composite
def reduction(draw: st.DrawFn, law):
    shape, dtype = draw(shapes(2, 4, sizes=SIZES)), draw(FLOATS)
    axis, keepdims = draw(st.integers(0, len(shape) - 1)), draw(st.booleans())
    result = [1 if k == axis else n for k, n in enumerate(shape) if keepdims or k != axis]
    attrs = (draw(a_slice(result)), {"axis": [axis], "keepdims": keepdims})
    return example(law, tensor(*shape, dtype=dtype), attrs=attrs)


@st.composite
def permutation(draw: st.DrawFn):
    shape = draw(STATIC)
    axes = draw(permutations(len(shape)))
    attrs = (draw(a_slice([shape[axis] for axis in axes])), {"axes": axes})
    return example(rules.sliced_permutation, tensor(*shape, dtype=draw(DTYPES)), attrs=attrs)


@st.composite
def reshape(draw: st.DrawFn):
    """Draw a reshape of the last axes, and a slice of the others."""
    kept, own = draw(shapes(1, 2, sizes=SIZES)), draw(st.sampled_from([(4,), (2, 2), (1, 4)]))
    new = draw(st.sampled_from([(4,), (2, 2), (1, 4, 1)]))
    front = draw(st.sampled_from([(), (1,)]))
    shape = (*front, *kept, *new)
    cut = draw(a_slice(shape, range(len(front), len(front) + len(kept))))
    operand = tensor(*kept, *own, dtype=draw(DTYPES))
    return example(rules.sliced_reshape, operand, attrs=(cut, {"shape": shape}))


@st.composite
def take_of_one(draw: st.DrawFn):
    shape = draw(STATIC)
    axis = draw(st.integers(0, len(shape) - 1))
    at = constant(
        draw(st.integers(0, shape[axis] - 1)), *draw(st.sampled_from([(), (1,)])), dtype="int64"
    )
    return example(
        rules.take_of_one, tensor(*shape, dtype=draw(DTYPES)), at, attrs=({"axis": axis},)
    )


EXAMPLES: dict[str, Strategy] = {
    **{law.name: unary(law) for law in rules.sliced_unary},
    **{law.name: binary(law) for law in rules.sliced_binary},
    "sliced_product": product(),
    "sliced_layer_norm": norm(rules.sliced_layer_norm, 2),
    "sliced_rms_norm": norm(rules.sliced_rms_norm, 1),
    "sliced_softmax": norm(rules.sliced_softmax, 0),
    **{law.name: reduction(law) for law in rules.sliced_reduction},
    "sliced_permutation": permutation(),
    "sliced_reshape": reshape(),
    "take_of_one": take_of_one(),
}

FIRST = {"axes": [0], "begin": [0], "end": [1]}
LAST = {"axes": [1], "begin": [0], "end": [1]}


def test_the_first_token_of_a_product_multiplies_one_row():
    cut = {"axes": [1], "begin": [0], "end": [1]}
    case = example(rules.sliced_product, tensor(2, 8, 4), weight(4, 3), attrs=(cut, {}))
    (made,) = apply(case).targets
    assert [operand.shape for operand in made.operands] == [(2, 1, 4), (4, 3)]


def test_a_slice_along_an_axis_that_is_computed_over_stays():
    x, g = tensor(2, 3), weight(3)
    reason = "cut along an axis that is computed over"
    axes = {"axes": [1]}
    assert refusal(example(rules.sliced_layer_norm, x, g, g, attrs=(LAST, axes))) == reason
    assert refusal(example(rules.sliced_rms_norm, x, g, attrs=(LAST, axes))) == reason
    assert refusal(example(rules.sliced_softmax, x, attrs=(LAST, {"axis": 1}))) == reason


@pytest.mark.parametrize(
    "cut",
    [
        {"axes": [0], "begin": [0], "end": [6], "strides": [2]},
        {"axes": [0], "begin": [5], "end": [0], "strides": [-1]},
    ],
)
def test_slices_with_strides_stay(cut):
    reason = refusal(example(rules.sliced_unary[0], tensor(6), attrs=(cut, {})))
    assert reason is not None and reason.startswith("a slice that")


def test_empty_and_symbolic_slices_stay():
    none = {"axes": [0], "begin": [2], "end": [2]}
    law = rules.sliced_unary[0]
    assert "empty" in str(refusal(example(law, tensor(6), attrs=(none, {}))))
    assert refusal(example(law, tensor("n"), attrs=(FIRST, {}))) is not None
    check_law(example(law, tensor("n", 3), attrs=(LAST, {})))


def test_a_slice_of_an_axis_that_a_reshape_makes_stays():
    case = example(rules.sliced_reshape, tensor(6), attrs=(FIRST, {"shape": (2, 3)}))
    assert refusal(case) == "a slice of an axis that the reshape makes"
    swapped = example(rules.sliced_reshape, tensor(2, 3), attrs=(LAST, {"shape": (3, 2)}))
    assert refusal(swapped) == "a slice of an axis that the reshape makes"


@pytest.mark.parametrize("at", [-1, 3])
def test_an_index_that_counts_from_the_end_or_leaves_the_tensor_stays(at):
    case = example(rules.take_of_one, tensor(3), constant(at, dtype="int64"), attrs=({"axis": 0},))
    assert refusal(case) == "an index that is negative or out of bounds"


def test_several_or_unknown_indices_are_no_slice():
    for index in (constant(1, 2, dtype="int64"), tensor(dtype="int64")):
        case = example(rules.take_of_one, tensor(3), index, attrs=({"axis": 0},))
        assert refusal(case) == "not one constant index"
