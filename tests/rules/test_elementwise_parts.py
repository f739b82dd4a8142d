"""Elementwise functions and permutations past concatenating and splitting."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from tests.rules.harness import apply, check_law, constant, refusal, tensor, weight
from tests.rules.strategies import (
    DTYPES,
    FLOATS,
    NUMBERS,
    SIZES,
    example,
    needed,
    permutations,
    shapes,
)
from tests.rules.tuples import with_tuples
from tvm_tensat.rules import elementwise_parts as rules


@st.composite
def parts(draw: st.DrawFn, count, dtypes=FLOATS, least=0):
    """Draw the shapes of parts that differ along one axis, the axis and a dtype."""
    shape = draw(shapes(min_rank=1, max_rank=3, sizes=SIZES))
    axis = draw(st.integers(0, len(shape) - 1))
    extents = draw(st.lists(st.integers(least, 4), min_size=count, max_size=count))
    return [(*shape[:axis], n, *shape[axis + 1 :]) for n in extents], axis, draw(dtypes)


@st.composite
def unary_of_concat(draw: st.DrawFn, law):
    count = draw(st.integers(1, 4))
    own, axis, dtype = draw(parts(count))
    operands = [tensor(*shape, dtype=dtype) for shape in own]
    return example(with_tuples(law, count), *operands, attrs=(needed(law), {"axis": axis}))


@st.composite
def concat_of_unaries(draw: st.DrawFn, law):
    own, axis, dtype = draw(parts(len(law.variables)))
    attrs = ({"axis": axis}, {}, *(needed(law),) * len(own))
    return example(law, *(tensor(*s, dtype=dtype) for s in own), attrs=attrs)


@st.composite
def binary_of_concats(draw: st.DrawFn, law):
    count = draw(st.integers(1, 3))
    own, axis, dtype = draw(parts(count, NUMBERS))
    operands = [tensor(*shape, dtype=dtype) for shape in own + _thin(draw, own, axis)]
    attrs = ({}, {"axis": axis}, {}, {"axis": axis}, {})
    return example(with_tuples(law, count, count), *operands, attrs=attrs)


def _thin(draw, own, axis):
    """Make all axes but the partitioned one of extent one, or none."""
    if draw(st.booleans()):
        return own
    return [tuple(e if k == axis else 1 for k, e in enumerate(shape)) for shape in own]


@st.composite
def concat_of_binaries(draw: st.DrawFn, law):
    count = len(law.variables) // 2
    own, axis, dtype = draw(parts(count, NUMBERS))
    seconds = [weight(*shape, dtype=dtype) for shape in _thin(draw, own, axis)]
    if draw(st.booleans()):
        seconds[draw(st.integers(0, count - 1))] = weight(dtype=dtype)
        rank = len(own[0])  # one scalar: all others must broadcast along the other axes too
        seconds = [s if not s.shape else _row(s, axis, rank) for s in seconds]
    return example(law, *(tensor(*s, dtype=dtype) for s in own), *seconds, attrs=({"axis": axis},))


def _row(operand, axis, rank):
    shape = tuple(operand.shape[axis] if k == axis else 1 for k in range(rank))
    return weight(*shape, dtype=operand.dtype)


@st.composite
def a_split(draw: st.DrawFn):
    """Draw a shape and a split of it into at least two fields."""
    shape = draw(shapes(min_rank=1, max_rank=3, sizes=st.integers(2, 5)))
    axis = draw(st.integers(0, len(shape) - 1))
    cuts = draw(st.lists(st.integers(1, shape[axis] - 1), min_size=1, unique=True))
    return shape, {"axis": axis, "indices_or_sections": sorted(cuts)}


@st.composite
def unary_of_field(draw: st.DrawFn, law):
    shape, split = draw(a_split())
    split["indices_or_sections"] = split["indices_or_sections"][:3]
    index = draw(st.integers(0, len(split["indices_or_sections"])))
    attrs = ({}, {"index": index}, split)
    return example(law, tensor(*shape, dtype=draw(FLOATS)), attrs=attrs)


@st.composite
def permuted_concat(draw: st.DrawFn):
    count = draw(st.integers(1, 4))
    own, axis, dtype = draw(parts(count, DTYPES, least=1))  # TVM cannot permute [0, 1]
    attrs = ({"axes": draw(permutations(len(own[0])))}, {"axis": axis})
    operands = [tensor(*shape, dtype=dtype) for shape in own]
    return example(with_tuples(rules.permuted_concat, count), *operands, attrs=attrs)


@st.composite
def weights_on_fields(draw: st.DrawFn, law):
    shape, split = draw(a_split())
    axis, dtype = split["axis"], draw(NUMBERS)
    ends = [0, *split["indices_or_sections"], shape[axis]]
    sizes = [end - begin for begin, end in pairwise(ends)]
    own = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    weights = [weight(*s, dtype=dtype) for s in _thin(draw, own, axis)]
    order = draw(st.permutations(range(len(sizes))))
    attrs = [attrs for index in order for attrs in ({}, {"index": index}, split)]
    operands = [weights[index] for index in order]
    return example(law, tensor(*shape, dtype=dtype), *operands, attrs=tuple(attrs))


EXAMPLES = {
    **{law.name: unary_of_concat(law) for law in rules.unary_of_concat},
    **{law.name: concat_of_unaries(law) for law in rules.concat_of_unaries},
    **{law.name: binary_of_concats(law) for law in rules.binary_of_concats},
    **{law.name: concat_of_binaries(law) for law in rules.concat_of_binaries},
    **{law.name: unary_of_field(law) for law in rules.unary_of_field},
    "permuted_concat": permuted_concat(),
    **{law.name: weights_on_fields(law) for law in rules.weights_on_fields},
}


def test_biases_of_merged_convolutions_become_one_bias():
    """A field with a bias of channels, one with a scalar bias: one vector of all channels."""
    law, _ = rules.weights_on_fields
    split = {"axis": 1, "indices_or_sections": [2]}
    attrs = ({}, {"index": 0}, split, {}, {"index": 1}, split)
    trial = example(law, tensor(1, 5, 4, 4), weight(1, 2, 1, 1), constant(3.0), attrs=attrs)
    first, second = apply(trial).targets
    assert first.operands[0] is second.operands[0]
    joint = first.operands[0].operands[0].operands[1]
    assert joint.name == "relax.concat" and joint.shape == (1, 5, 1, 1)
    check_law(trial, special=True)


def test_fields_without_a_weight_of_their_own_stay():
    law, _ = rules.weights_on_fields
    split = {"axis": 0, "indices_or_sections": [1]}

    def trial(other, *indices):
        attrs = tuple(a for index in indices for a in ({}, {"index": index}, split))
        return example(law, tensor(2, 3), *(other,) * len(indices), attrs=attrs)

    assert refusal(trial(weight(1, 3), 0, 1)) is None
    assert refusal(trial(weight(1, 3), 0, 0)) == "not every field meets one weight"
    assert refusal(trial(tensor(1, 3), 0, 1)) == "an operand is no weight"


def test_only_weights_meet_the_parts_and_are_repeated_for_it():
    law, attrs = rules.concat_of_binaries[0], ({"axis": 1},)
    x, t, thin = tensor(2, 3), weight(2, 3), weight(2, 1)
    assert refusal(example(law, x, x, t, thin, attrs=attrs)) is None
    assert refusal(example(law, x, x, t, x, attrs=attrs)) == "an operand is no weight"
    assert refusal(example(law, x, t, t, t, attrs=attrs)) == "an operand is a weight"
    spread = example(law, tensor(2, 1), x, t, t, attrs=attrs)
    assert refusal(spread) == "an operand is no weight"


def test_the_gates_of_a_recurrent_cell_stay():
    split = {"axis": 0, "indices_or_sections": [1, 2, 3, 4]}
    trial = example(rules.unary_of_field[0], tensor(5), attrs=({}, {"index": 0}, split))
    assert refusal(trial) == "more than 4 fields"


def test_parts_of_different_extents_do_not_meet():
    law = with_tuples(rules.binary_of_concats[0], 2, 2)
    operands = [tensor(1), tensor(3), tensor(3), tensor(1)]
    assert refusal(example(law, *operands)) == "the parts do not meet"


def test_concatenations_of_different_rank_meet_along_one_axis():
    """Counted from the end: axis 1 of a matrix is axis 0 of a vector."""
    law = with_tuples(rules.binary_of_concats[0], 2, 2)
    matrices, vectors = [tensor(2, 1), tensor(2, 3)], [tensor(1), tensor(3)]
    attrs = ({}, {"axis": 1}, {}, {"axis": 0}, {})
    check_law(example(law, *matrices, *vectors, attrs=attrs))
    rows = ({}, {"axis": 0}, {}, {"axis": 0}, {})
    tall = [tensor(1, 4), tensor(3, 4)]
    assert refusal(example(law, *tall, tensor(1), tensor(3), attrs=rows)) == "two different axes"


def test_parts_that_broadcast_along_the_axis_do_not_meet():
    """[1 row; 2 rows] plus [2 rows; 1 row], part by part, has 4 rows and not 3."""
    law = rules.concat_of_binaries[0]
    operands = [tensor(1, 2), tensor(2, 2), weight(2, 2), weight(1, 2)]
    assert refusal(example(law, *operands, attrs=({"axis": 0},))) == "an operand is no weight"


def test_long_concatenations_stay():
    law = with_tuples(rules.unary_of_concat[0], 9)
    assert refusal(example(law, *(tensor(1),) * 9)) == "more than 8 parts"
