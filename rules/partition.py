"""Concatenating, splitting and slicing.

xs is a tuple of any length; the parts are along one axis.

    concat(x)                  =   x                           concat_of_one
    (s[0], ..., s[n-1])        =   s                           fields_of_tuple
    concat(split(x))           =   x                           concat_of_split
    split(concat(xs))          =   xs, or concats of some xs   split_of_concat
    concat(concat(xs), y)      =   concat(xs..., y)            concat_of_concat[left], [right]
    slice(concat(xs))          =   slice(xs[i])                slice_of_concat
    [[a b]; [c d]]             =   [[a; c] [b; d]]             block_matrix

All are exact: they only say where a number lies. Concatenations of more than `MOST_PARTS` parts
stay as they are, so that networks that concatenate all earlier results (DenseNet) do not explode.

Left out, because merged products make many splits: the field of a split as a slice (NasRNN after 7
iterations: 5037 e-nodes instead of 3941), and a split of a field as fields of a finer split (BERT
after 7 iterations: 11944 instead of 3678). TVM fuses a split with its readers as it does a slice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from tvm_tensat.egraph.rule import ANY, EXACT, Rule, Term, refuse, rule
from tvm_tensat.rules.common import (
    need_an_input,
)
from tvm_tensat.rules.operators import (
    concat,
    split,
    strided_slice,
    tuple_,
)

MOST_PARTS = 8


def concat_fields(parts: Term, **attrs: object) -> Term:
    """Concatenate the fields of a tuple."""
    return Term("relax.concat", (parts,), attrs)


def some_fields(parts: Term) -> range:
    """Return the numbers of the fields of a tuple that is not too long."""
    if parts.fields > MOST_PARTS:
        refuse(f"more than {MOST_PARTS} parts")
    return range(parts.fields)


def _bounds(extents: Sequence[int]) -> list[int]:
    return [0, *accumulate(extents)]


# -- concat and split undo each other ----------------------------------------------------------


@rule(keeps=EXACT, dtypes=ANY)
def concat_of_one(x):
    """A concatenation of one part is that part."""
    yield concat(x)
    yield x


def _fields_of_tuple(count: int) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def fields_of_tuple(whole):
        """A tuple of all fields of a tuple, in order, is that tuple."""
        yield tuple_(*(whole[index] for index in range(count)))
        yield whole

    return replace(fields_of_tuple, name=f"fields_of_tuple[{count}]")


fields_of_tuple = tuple(_fields_of_tuple(count) for count in (2, 3, 4))


@rule(keeps=EXACT, dtypes=ANY)
def concat_of_split(x):
    """The parts of a split, concatenated along its axis, are the whole."""
    parts = split(x)
    whole = concat_fields(parts)
    yield whole
    if whole.axis != parts.axis:
        refuse("two different axes")
    yield x


@rule(keeps=EXACT, dtypes=ANY)
def split_of_concat(parts):
    """A concatenation that is split where its parts meet gives the parts again."""
    whole = concat_fields(parts)
    fields = split(whole)
    yield fields
    axis = whole.axis
    if fields.axis != axis:
        refuse("two different axes")
    if fields.type == parts.type:
        yield parts
    else:
        yield tuple_(*_regrouped(parts, axis, fields.indices_or_sections))


def _regrouped(parts: Term, axis: int, cuts: Sequence[int]) -> list[Term]:
    """Concatenate the runs of parts between cuts, all of which must fall where parts meet."""
    bounds = _bounds([int(parts[index].shape[axis]) for index in some_fields(parts)])
    if len(set(bounds)) < len(bounds) or not set(cuts) <= set(bounds[1:-1]):
        refuse("a cut inside a part")
    ends = [bounds.index(cut) for cut in (0, *cuts, bounds[-1])]
    runs = [range(*pair) for pair in pairwise(ends)]
    groups = [[parts[index] for index in run] for run in runs]
    return [group[0] if len(group) == 1 else concat(*group, axis=axis) for group in groups]


# -- nested partitions -------------------------------------------------------------------------


def _concat_of_concat(left: bool) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def concat_of_concat(parts, x):
        """A concatenation of concatenations is one concatenation."""
        inner = concat_fields(parts)
        outer = concat(inner, x) if left else concat(x, inner)
        yield outer
        need_an_input(parts, x)
        if inner.axis != outer.axis:
            refuse("two different axes")
        fields = [parts[index] for index in some_fields(parts)]
        yield concat(*((*fields, x) if left else (x, *fields)), axis=outer.axis)

    return replace(concat_of_concat, name=f"concat_of_concat[{'left' if left else 'right'}]")


concat_of_concat = (_concat_of_concat(left=True), _concat_of_concat(left=False))


@rule(keeps=EXACT, dtypes=ANY)
def slice_of_concat(parts):
    """A slice of a concatenation that falls within one part is a slice of that part."""
    whole = concat_fields(parts)
    part = strided_slice(whole)
    yield part
    axis = whole.axis
    if axis not in part.axes:
        refuse("a slice across all parts")
    at = part.axes.index(axis)
    begin, end, stride = part.begin[at], part.end[at], part.strides[at]
    bounds = _bounds([int(parts[index].shape[axis]) for index in range(parts.fields)])
    number = bisect_right(bounds, begin) - 1
    if stride < 1 or not 0 <= begin < end <= bounds[-1] or end > bounds[number + 1]:
        refuse("a slice of several parts")
    begins, ends = list(part.begin), list(part.end)
    begins[at], ends[at] = begin - bounds[number], end - bounds[number]
    yield part.on(parts[number], begin=begins, end=ends)


@rule(keeps=EXACT, dtypes=ANY)
def block_matrix(a, b, c, d):
    """A matrix of blocks can be put together by rows or by columns."""
    top, bottom = concat(a, b), concat(c, d)
    whole = concat(top, bottom)
    yield whole
    need_an_input(a, b, c, d)
    if top.axis != bottom.axis or top.axis == whole.axis:
        refuse("no rows and columns")
    if a.shape[top.axis] != c.shape[top.axis]:
        refuse("the columns do not meet")
    left, right = concat(a, c, axis=whole.axis), concat(b, d, axis=whole.axis)
    yield concat(left, right, axis=top.axis)
