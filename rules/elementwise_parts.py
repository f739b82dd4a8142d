"""Elementwise functions and permutations commute with concatenating and splitting.

xs and ys are tuples of any length, ts are weights, f is a function of one operand, ∘ of two.

    f(concat(xs))              =   concat(f(xs)...)            unary_of_concat
    concat(f(x), f(y), ...)    =   f(concat(x, y, ...))        concat_of_unaries
    concat(xs) ∘ concat(ys)    =   concat((xs ∘ ys)...)        binary_of_concats
    concat(x ∘ s, y ∘ t, ...)  =   concat(x, y) ∘ concat(s, t) concat_of_binaries
    f(split(x)[i])             =   split(f(x))[i]              unary_of_field
    split(x)[i] ∘ ti, all i    =   split(x ∘ concat(ts))       weights_on_fields
    permute(concat(xs))        =   concat(permute(xs)...)      permuted_concat

With them products and convolutions that differ in bias and activation only can be merged: what
follows them is merged too. All are exact: each element sees the same operations.

Left out: a weight that meets a concat could be cut and meet the parts. In networks that
concatenate all earlier results (DenseNet) this makes quadratically many products, and each part
has other readers, so that nothing is saved. Two more are left out for their number:
concat_of_binaries of four parts, and permuted fields of splits. With all rules, inception_v2 has
21633 e-nodes after 7 iterations; with the first of them it met the limit of 50000, with the second
it had 33861.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from tvm_tensat.egraph.rule import ANY, EXACT, Rule, Term, group_rule, refuse, rule
from tvm_tensat.rules.common import (
    BINARY,
    UNARY,
    Apply,
    for_each,
    full_rank,
    need_an_input,
    need_inputs,
    need_weights,
    of_many,
)
from tvm_tensat.rules.operators import (
    broadcast_to,
    concat,
    gelu,
    get,
    need_same_operator,
    permute_dims,
    relu,
    silu,
    split,
)
from tvm_tensat.rules.partition import concat_fields, some_fields

# -- concat ------------------------------------------------------------------------------------


def _unary_of_concat(apply: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def unary_of_concat(parts):
        """An elementwise function of a concatenation is the concatenation of its values."""
        whole = concat_fields(parts)
        outer = apply(whole)
        yield outer
        need_inputs(parts)
        yield concat(*(outer.on(parts[i]) for i in some_fields(parts)), axis=whole.axis)

    return unary_of_concat


def _binary_of_concats(apply: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def binary_of_concats(xs, ys):
        """Two concatenations of equal parts meet part by part."""
        left, right = concat_fields(xs), concat_fields(ys)
        outer = apply(left, right)
        yield outer
        need_an_input(xs, ys)
        axis = left.axis - left.ndim
        if right.axis - right.ndim != axis:
            refuse("two different axes")
        extents = [[parts[i].shape[axis] for i in some_fields(parts)] for parts in (xs, ys)]
        if extents[0] != extents[1]:
            refuse("the parts do not meet")
        yield concat(*(outer.on(xs[i], ys[i]) for i in some_fields(xs)), axis=axis)

    return binary_of_concats


# A rule for each number of parts: whether all parts are made alike cannot be asked of a tuple.
def _concat_of_unaries(count: int, apply: Apply) -> Rule:
    @of_many(count, keeps=EXACT, dtypes=ANY)
    def concat_of_unaries(*xs):
        """A concatenation of values of an elementwise function is the function of all operands."""
        values = [apply(x) for x in xs]
        whole = concat(*values)
        yield whole
        need_inputs(*xs)
        need_same_operator(*values)
        yield values[0].on(concat(*xs, axis=whole.axis))

    return concat_of_unaries


def _concat_of_binaries(count: int, apply: Apply) -> Rule:
    @of_many(2 * count, keeps=EXACT, dtypes=ANY)
    def concat_of_binaries(*operands):
        """Parts that met a weight each are a whole that met one weight."""
        xs, ys = operands[:count], operands[count:]
        parts = [apply(x, y) for x, y in zip(xs, ys, strict=True)]
        whole = concat(*parts)
        yield whole
        need_inputs(*xs)
        need_weights(*ys)
        axis = whole.axis
        left, right = (
            [spanning(o, part, axis) for o, part in zip(some, parts, strict=True)]
            for some in (xs, ys)
        )
        yield parts[0].on(concat(*left, axis=axis), concat(*right, axis=axis))

    return concat_of_binaries


def spanning(operand: Term, part: Term, axis: int) -> Term:
    """Give an operand of broadcasting the part's rank and its extent along one axis.

    Parts of a concatenation then have operands that can be concatenated too. Only a weight is
    repeated for this, at compile time.
    """
    lifted, extent = full_rank(operand, part.ndim), part.shape[axis]
    if lifted.shape[axis] == extent:
        return lifted
    need_weights(operand)
    shape = (*lifted.shape[:axis], extent, *lifted.shape[axis + 1 :])
    return broadcast_to(lifted, shape=shape)


unary_of_concat = for_each(UNARY, _unary_of_concat)
binary_of_concats = for_each(BINARY, _binary_of_concats)
concat_of_unaries = tuple(
    law for n in (2, 3, 4) for law in for_each(UNARY, partial(_concat_of_unaries, n))
)
concat_of_binaries = tuple(
    law for n in (2, 3) for law in for_each(BINARY, partial(_concat_of_binaries, n))
)


@rule(keeps=EXACT, dtypes=ANY)
def permuted_concat(parts):
    """A permutation of a concatenation is the concatenation of permuted parts."""
    whole = concat_fields(parts)
    outer = permute_dims(whole)
    yield outer
    need_inputs(parts)
    axis = outer.axes.index(whole.axis)
    yield concat(*(outer.on(parts[i]) for i in some_fields(parts)), axis=axis)


# -- split -------------------------------------------------------------------------------------


MOST_FIELDS = 4


# It pays when all fields meet the same function, so not for the gates of recurrent cells: no
# sigmoid or tanh, and few fields.
def _unary_of_field(apply: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def unary_of_field(x):
        """An elementwise function of a field of a split can come before the split."""
        whole = split(x)
        part = get(whole)
        outer = apply(part)
        yield outer
        need_inputs(x)
        if whole.fields > MOST_FIELDS:
            refuse(f"more than {MOST_FIELDS} fields")
        yield whole.on(outer.on(x))[part.index]

    return unary_of_field


unary_of_field = for_each((relu, gelu, silu), _unary_of_field)


def _same_split(meeting: Term) -> Hashable:
    """Return which split a field was taken from, and whether the sum keeps the field's type."""
    part = meeting.operands[0]
    return part.operands[0].operator, part.type == meeting.type


def _weights_on_fields(apply: Apply) -> Rule:
    @group_rule(keeps=EXACT, dtypes=ANY, alike=_same_split)
    def weights_on_fields(x, t):
        """Weights that meet all fields of a split meet the whole as one weight."""
        members = yield apply(get(split(x)), t)
        need_inputs(x)
        fields = [member.operands[0] for member in members]
        weights = [member.operands[1] for member in members]
        need_weights(*weights)
        whole = fields[0].operands[0]
        order = [field.index for field in fields]
        if sorted(order) != list(range(whole.fields)):
            refuse("not every field meets one weight")
        spans = [spanning(t, f, whole.axis) for t, f in zip(weights, fields, strict=True)]
        joint = concat(*(spans[order.index(k)] for k in range(len(spans))), axis=whole.axis)
        parts = whole.on(members[0].on(x, joint))
        yield [parts[index] for index in order]

    return weights_on_fields


weights_on_fields = for_each(BINARY, _weights_on_fields)
