"""Sums and means of what was scaled, shifted, moved, joined or multiplied."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.rules.harness import apply, refusal, tensor, weight
from tests.rules.strategies import (
    FLOATS,
    SIZES,
    WIDE_FLOATS,
    Strategy,
    example,
    permutations,
    shapes,
)
from tests.rules.tuples import with_tuples
from tvm_tensat.rules import reductions as rules

STATIC = shapes(1, 4, sizes=SIZES)


@st.composite
def reduced(draw: st.DrawFn, axes):
    """Draw the attributes of a reduction of some of these axes."""
    some = draw(st.lists(st.sampled_from(list(axes)), min_size=1, unique=True))
    return {"axis": sorted(some), "keepdims": draw(st.booleans())}


@st.composite
def nested(draw: st.DrawFn, law):
    shape = draw(shapes(2, 4, sizes=SIZES))
    inner = {"axis": [draw(st.integers(0, len(shape) - 1))], "keepdims": draw(st.booleans())}
    outer = draw(reduced(range(len(shape) if inner["keepdims"] else len(shape) - 1)))
    return example(law, tensor(*shape, dtype=draw(WIDE_FLOATS)), attrs=(outer, inner))


@st.composite
def with_weight(draw: st.DrawFn, law):
    """Draw a weight that does not vary along the reduced axes."""
    shape, dtype = draw(STATIC), draw(WIDE_FLOATS)
    attrs = draw(reduced(range(len(shape))))
    full = [1 if k in attrs["axis"] else n for k, n in enumerate(shape)]
    own = draw(st.sampled_from([full, []]))
    while own and own[0] == 1 and draw(st.booleans()):
        own = own[1:]
    return example(law, tensor(*shape, dtype=dtype), weight(*own, dtype=dtype), attrs=(attrs, {}))


@st.composite
def of_permuted(draw: st.DrawFn, law):
    shape = draw(STATIC)
    attrs = (draw(reduced(range(len(shape)))), {"axes": draw(permutations(len(shape)))})
    return example(law, tensor(*shape, dtype=draw(WIDE_FLOATS)), attrs=attrs)


@st.composite
def of_reshaped(draw: st.DrawFn, law):
    kept = draw(shapes(0, 2, sizes=SIZES))
    own, new = draw(st.permutations([(6,), (2, 3), (3, 1, 2)]))[:2]
    unit = draw(st.sampled_from([(), (1,)]))
    axes = range(len(unit) + len(kept), len(unit) + len(kept) + len(new))
    attrs = ({"axis": list(axes), "keepdims": draw(st.booleans())}, {"shape": (*unit, *kept, *new)})
    return example(law, tensor(*kept, *own, dtype=draw(WIDE_FLOATS)), attrs=attrs)


@st.composite
def rows(draw: st.DrawFn, law):
    batch = draw(shapes(0, 2, sizes=SIZES))
    n, k, m = (draw(SIZES) for _ in range(3))
    attrs, dtype = (draw(reduced(range(len(batch) + 1))), {}), draw(WIDE_FLOATS)
    operands = tensor(*batch, n, k, dtype=dtype), weight(k, m, dtype=dtype)
    return example(law, *operands, attrs=attrs)


@st.composite
def columns(draw: st.DrawFn, law):
    batch = draw(shapes(0, 2, sizes=SIZES))
    n, k, m = (draw(SIZES) for _ in range(3))
    attrs = ({"axis": [len(batch) + 1], "keepdims": draw(st.booleans())}, {})
    dtype = draw(WIDE_FLOATS)
    operands = weight(n, k, dtype=dtype), tensor(*batch, k, m, dtype=dtype)
    return example(law, *operands, attrs=attrs)


@st.composite
def weighted(draw: st.DrawFn):
    shape, dtype = draw(shapes(2, 3, sizes=SIZES)), draw(WIDE_FLOATS)
    own = draw(st.sampled_from([(shape[-1],), (1, shape[-1])]))
    attrs = ({"axis": [len(shape) - 1], "keepdims": draw(st.booleans())}, {})
    operands = tensor(*shape, dtype=dtype), weight(*own, dtype=dtype)
    return example(rules.weighted_sum_as_product, *operands, attrs=attrs)


@st.composite
def joined(draw: st.DrawFn, law, along):
    count, shape = draw(st.integers(1, 4)), draw(shapes(2, 3, sizes=SIZES))
    axis, dtype = draw(st.integers(0, len(shape) - 1)), draw(FLOATS if not along else WIDE_FLOATS)
    others = [k for k in range(len(shape)) if k != axis]
    attrs = draw(reduced(others))
    if along:
        attrs["axis"] = sorted({axis, *draw(st.lists(st.sampled_from(others), max_size=1))})
    extents = [draw(SIZES) for _ in range(count)]
    parts = [tensor(*shape[:axis], n, *shape[axis + 1 :], dtype=dtype) for n in extents]
    return example(with_tuples(law, count), *parts, attrs=(attrs, {"axis": axis}))


EXAMPLES: dict[str, Strategy] = {
    **{law.name: nested(law) for law in rules.nested_reduction},
    **{law.name: with_weight(law) for law in rules.reduction_of_scaled},
    "mean_of_shifted": with_weight(rules.mean_of_shifted),
    **{law.name: of_permuted(law) for law in rules.reduction_of_permuted},
    **{law.name: of_reshaped(law) for law in rules.reduction_of_reshaped},
    **{law.name: rows(law) for law in rules.reduced_rows_of_a_product},
    **{law.name: columns(law) for law in rules.reduced_columns_of_a_product},
    "weighted_sum_as_product": weighted(),
    **{law.name: joined(law, False) for law in rules.reduction_of_joined},
    **{law.name: joined(law, True) for law in rules.reduction_along_a_joined_axis},
}


def test_a_weight_that_varies_along_a_reduced_axis_stays_inside():
    attrs = ({"axis": [1]}, {})
    for law in (*rules.reduction_of_scaled, rules.mean_of_shifted):
        case = example(law, tensor(2, 3), weight(3), attrs=attrs)
        assert refusal(case) == "varies along a reduced axis"
        assert refusal(example(law, tensor(2, 3), weight(2, 1), attrs=attrs)) is None
        other = example(law, tensor(2, 3), tensor(2, 1), attrs=attrs)
        assert refusal(other) == "an operand is no weight"


def test_a_mean_of_fewer_elements_than_it_is_spread_over_is_refused():
    case = example(rules.mean_of_shifted, tensor(1, 3), weight(2, 1), attrs=({"axis": [1]}, {}))
    assert refusal(case) == "the shift broadcasts what it shifts"


def test_a_reshape_that_mixes_kept_and_reduced_axes_stays():
    law, _ = rules.reduction_of_reshaped
    case = example(law, tensor(4, 3), attrs=({"axis": [1]}, {"shape": (2, 6)}))
    assert refusal(case) == "the reshape mixes kept axes with reduced ones"
    middle = example(law, tensor(2, 6), attrs=({"axis": [1]}, {"shape": (2, 2, 3)}))
    assert refusal(middle) == "not all of the last axes are reduced"


def test_a_mean_over_tokens_leaves_one_row_to_multiply():
    _, law = rules.reduced_rows_of_a_product
    case = example(law, tensor(2, 8, 4), weight(4, 3), attrs=({"axis": [1]}, {}))
    (made,) = apply(case).targets
    assert made.operands[0].operands[0].shape == (2, 1, 4)


def test_reduced_columns_and_batches_of_the_right_operand_stay():
    law, _ = rules.reduced_rows_of_a_product
    reason = "columns are reduced, the right operand has batches, or the dtype changes"
    assert refusal(example(law, tensor(2, 3), weight(3, 4), attrs=({"axis": [1]}, {}))) == reason
    both = example(law, tensor(5, 2, 3), weight(5, 3, 4), attrs=({"axis": [0]}, {}))
    assert refusal(both) == reason
    half = tensor(2, 3, dtype="float16"), weight(3, 4, dtype="float16")
    wide = example(law, *half, attrs=({"axis": [0]}, {"out_dtype": "float32"}))
    assert refusal(wide) == reason


def test_a_scale_of_more_than_the_last_axis_is_no_product():
    law, attrs = rules.weighted_sum_as_product, ({"axis": [1]}, {})
    for own in ((2, 3), (2, 1), (1,), ()):
        case = example(law, tensor(2, 3), weight(*own), attrs=attrs)
        assert refusal(case) == "the scale varies along other axes"
    first = example(law, tensor(2, 3), weight(3), attrs=({"axis": [0]}, {}))
    assert refusal(first) == "not a sum along the last axis of matrices"


def test_joined_axes_are_told_from_others():
    along = with_tuples(rules.reduction_along_a_joined_axis[0], 2)
    beside = with_tuples(rules.reduction_of_joined[0], 2)
    parts = tensor(2, 3), tensor(2, 3)
    attrs = ({"axis": [1]}, {"axis": 0})
    assert refusal(example(along, *parts, attrs=attrs)) == "the joined axis is kept"
    attrs = ({"axis": [0]}, {"axis": 0})
    assert refusal(example(beside, *parts, attrs=attrs)) == "the joined axis is reduced"
