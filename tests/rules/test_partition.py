"""Concatenating, splitting and slicing; also in an e-graph, where tuples are merged with tuples."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from tvm import relax

from tests.rules.harness import check_law, refusal, tensor
from tests.rules.strategies import DTYPES, SIZES, SIZES_OR_EMPTY, example, shapes
from tests.rules.tuples import with_tuples
from tvm_tensat.egraph import EGraph, explore
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.rules import partition as rules


@st.composite
def parts(draw: st.DrawFn, count, sizes=SIZES_OR_EMPTY):
    """Draw tensors that differ along one axis, and that axis."""
    shape = draw(shapes(min_rank=1, max_rank=3, sizes=SIZES))
    axis, dtype = draw(st.integers(0, len(shape) - 1)), draw(DTYPES)
    extents = draw(st.lists(sizes, min_size=count, max_size=count))
    tensors = [tensor(*shape[:axis], n, *shape[axis + 1 :], dtype=dtype) for n in extents]
    return tensors, extents, axis


def bounds(extents):
    return [sum(extents[:k]) for k in range(1, len(extents))]


@st.composite
def concat_of_one(draw: st.DrawFn):
    tensors, _, axis = draw(parts(1))
    return example(rules.concat_of_one, *tensors, attrs=({"axis": axis},))


@st.composite
def fields_of_tuple(draw: st.DrawFn, law, count):
    operands = [tensor(*draw(shapes(max_rank=2)), dtype=draw(DTYPES)) for _ in range(count)]
    return example(with_tuples(law, count), *operands)


@st.composite
def concat_of_split(draw: st.DrawFn):
    (x,), (extent,), axis = draw(parts(1, SIZES.filter(lambda size: size > 1)))
    cuts = draw(st.lists(st.integers(1, extent - 1), min_size=1, max_size=3, unique=True))
    attrs = ({"axis": axis}, {"axis": axis, "indices_or_sections": sorted(cuts)})
    return example(rules.concat_of_split, x, attrs=attrs)


@st.composite
def split_of_concat(draw: st.DrawFn):
    count = draw(st.integers(2, 5))
    tensors, extents, axis = draw(parts(count, SIZES))
    cuts = bounds(extents)
    if draw(st.booleans()):
        cuts = sorted(draw(st.lists(st.sampled_from(cuts), min_size=1, unique=True)))
    attrs = ({"axis": axis, "indices_or_sections": cuts}, {"axis": axis})
    return example(with_tuples(rules.split_of_concat, count), *tensors, attrs=attrs)


@st.composite
def concat_of_concat(draw: st.DrawFn, law, left):
    count = draw(st.integers(1, 4))
    (*inner, x), _, axis = draw(parts(count + 1))
    outer = [({"axis": axis}), {}, {"axis": axis}]
    return example(with_tuples(law, count, None), *inner, x, attrs=tuple(outer))


@st.composite
def slice_of_concat(draw: st.DrawFn):
    count = draw(st.integers(1, 4))
    tensors, extents, axis = draw(parts(count).filter(lambda drawn: any(drawn[1])))
    number = draw(st.sampled_from([k for k in range(count) if extents[k]]))
    start = sum(extents[:number])
    begin = draw(st.integers(start, start + extents[number] - 1))
    end = draw(st.integers(begin + 1, start + extents[number]))
    axes, begins, ends, strides = [axis], [begin], [end], [draw(st.integers(1, 2))]
    if len(tensors[0].shape) > 1 and draw(st.booleans()):
        axes, begins, ends = [(axis + 1) % len(tensors[0].shape), *axes], [0, begin], [1, end]
        strides = [1, *strides]
    attrs = ({"axes": axes, "begin": begins, "end": ends, "strides": strides}, {"axis": axis})
    return example(with_tuples(rules.slice_of_concat, count), *tensors, attrs=attrs)


@st.composite
def block_matrix(draw: st.DrawFn):
    rows, columns = draw(st.tuples(SIZES, SIZES)), draw(st.tuples(SIZES, SIZES))
    dtype, flipped = draw(DTYPES), draw(st.booleans())
    grid = [(m, n) for m in rows for n in columns]
    operands = [tensor(*((n, 2, m) if flipped else (m, 2, n)), dtype=dtype) for m, n in grid]
    inner, outer = {"axis": 0 if flipped else 2}, {"axis": 2 if flipped else 0}
    return example(rules.block_matrix, *operands, attrs=(outer, {}, inner, {}, inner))


EXAMPLES = {
    "concat_of_one": concat_of_one(),
    **{law.name: fields_of_tuple(law, n) for n, law in enumerate(rules.fields_of_tuple, start=2)},
    "concat_of_split": concat_of_split(),
    "split_of_concat": split_of_concat(),
    **{law.name: concat_of_concat(law, "left" in law.name) for law in rules.concat_of_concat},
    "slice_of_concat": slice_of_concat(),
    "block_matrix": block_matrix(),
}


def test_partitions_along_two_axes_stay():
    x, concat, split = tensor(4, 4), {"axis": 0}, {"axis": 1, "indices_or_sections": [2]}
    assert refusal(example(rules.concat_of_split, x, attrs=(concat, split))) == "two different axes"
    law = with_tuples(rules.split_of_concat, 2)
    assert refusal(example(law, x, x, attrs=(split, concat))) == "two different axes"


def test_cuts_inside_a_part_stay():
    x, cut = tensor(4), {"axis": 0, "indices_or_sections": [3]}
    law = with_tuples(rules.split_of_concat, 2)
    assert refusal(example(law, x, x, attrs=(cut, {}))) == "a cut inside a part"


def test_slices_of_several_parts_stay():
    law, x = with_tuples(rules.slice_of_concat, 2), tensor(4)
    several = {"axes": [0], "begin": [3], "end": [5]}
    assert refusal(example(law, x, x, attrs=(several, {}))) == "a slice of several parts"
    backward = {"axes": [0], "begin": [3], "end": [-7], "strides": [-1]}
    assert refusal(example(law, x, x, attrs=(backward, {}))) == "a slice of several parts"
    across = {"axes": [1], "begin": [0], "end": [1]}
    trial = example(law, tensor(2, 2), tensor(2, 2), attrs=(across, {"axis": 0}))
    assert refusal(trial) == "a slice across all parts"


def test_blocks_that_do_not_line_up_stay():
    """[a b] over [c d] with the border at 1 above and at 2 below."""
    blocks = [tensor(1, 1), tensor(1, 2), tensor(1, 2), tensor(1, 1)]
    columns, rows = {"axis": 1}, {"axis": 0}
    attrs = (rows, {}, columns, {}, columns)
    assert refusal(example(rules.block_matrix, *blocks, attrs=attrs)) == "the columns do not meet"


def test_long_concatenations_are_not_flattened():
    law, x = with_tuples(rules.concat_of_concat[0], 9, None), tensor(1)
    assert refusal(example(law, *(x,) * 10)) == "more than 8 parts"


def test_symbolic_axes_beside_the_partition_are_no_hindrance():
    x, y = tensor("n", 2), tensor("n", 3)
    cut, axis = {"axis": 1, "indices_or_sections": [2]}, {"axis": 1}
    check_law(example(with_tuples(rules.split_of_concat, 2), x, y, attrs=(cut, axis)))


class Builder:
    """An e-graph of Relax terms, built by hand."""

    def __init__(self) -> None:
        self.language = RelaxLanguage()
        self.graph = EGraph(self.language)
        self.type: dict[int, int] = {}

    def leaf(self, *shape: int) -> int:
        operator, kind = self.language.leaf(relax.Var("x", relax.TensorType(shape, "float32")))
        return self._add(operator, [], kind)

    def term(self, name: str, *children: int, **attrs: object) -> int:
        types = tuple(self.type[child] for child in children)
        operator, kind = self.language.make(name, attrs, types)
        return self._add(operator, list(children), kind)

    def _add(self, operator: int, children: list[int], kind: int) -> int:
        number = self.graph.add(operator, children, kind)
        self.type[number] = kind
        return number


def every_rule():
    singles = [law for law in vars(rules).values() if hasattr(law, "law")]
    return [*singles, *rules.fields_of_tuple, *rules.concat_of_concat]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_fields_of_a_split_concatenate_to_the_whole(count):
    """concat(split(x)[0], ..., split(x)[n-1]) is in the class of x."""
    built = Builder()
    x = built.leaf(2, 8)
    cut = built.term("relax.split", x, indices_or_sections=list(range(1, count)), axis=1)
    fields = built.term("tuple", *(built.term("get", cut, index=k) for k in range(count)))
    whole = built.term("relax.concat", fields, axis=1)
    report = explore(built.graph, every_rule())
    assert report.stopped == "saturated"
    assert built.graph.find(whole) == built.graph.find(x)


def test_fields_in_another_order_are_not_the_whole():
    built = Builder()
    x = built.leaf(2, 8)
    cut = built.term("relax.split", x, indices_or_sections=[4], axis=1)
    fields = built.term("tuple", *(built.term("get", cut, index=k) for k in (1, 0)))
    whole = built.term("relax.concat", fields, axis=1)
    explore(built.graph, every_rule())
    assert built.graph.find(whole) != built.graph.find(x)


def test_a_field_of_a_split_concat_is_the_part():
    """get(split(concat(a, b, c)), i) is in the class of the i-th part."""
    built = Builder()
    parts = [built.leaf(n, 3) for n in (1, 2, 4)]
    whole = built.term("relax.concat", built.term("tuple", *parts), axis=0)
    cut = built.term("relax.split", whole, indices_or_sections=[1, 3], axis=0)
    fields = [built.term("get", cut, index=k) for k in range(3)]
    explore(built.graph, every_rule())
    assert [built.graph.find(k) for k in fields] == [built.graph.find(k) for k in parts]
