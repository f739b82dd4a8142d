"""Sums and means of what was scaled, shifted, moved, joined or multiplied.

r is a sum or a mean; s and t are weights that do not vary along the reduced axes.

    r(r(x))              =  r(x) over the axes of both     nested_reduction
    r(x·s)               =  r(x)·s                         reduction_of_scaled
    mean(x + t)          =  mean(x) + t                    mean_of_shifted
    r(permute(x))        =  permute(r(x))                  reduction_of_permuted
    r(reshape(x))        =  r(x), reshaped                 reduction_of_reshaped, of trailing axes
    r over rows of a·b   =  r(a)·b                         reduced_rows_of_a_product
    r over columns       =  a·r(b)                         reduced_columns_of_a_product
    Σ x·s over the last  =  x·s as a product               weighted_sum_as_product
    r(concat(xs))        =  concat(r(xs)...)               reduction_of_joined, along other axes
    r(concat(xs))        =  r(x0)·n0/n + ...               reduction_along_a_joined_axis

The sums of `reduction_of_joined` are the same, so that it is `EXACT`, for maxima and minima too;
the others add in another order. Maxima of maxima and of permutations are left out: where there is a
NaN, TVM's result depends on the order.

Good for: pooled classifiers. A mean over pixels or tokens travels up past concatenations, biases
and products, which are then computed for one pixel instead of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm_tensat.egraph.language import DimLike
from tvm_tensat.egraph.rule import ANY, EXACT, REAL, Rule, Term, refuse, rule
from tvm_tensat.rules.common import Apply, for_each, full_rank, need_inputs, need_weights
from tvm_tensat.rules.operators import (
    add,
    concat,
    matmul,
    max_,
    mean,
    min_,
    multiply,
    need_matrices,
    permute_dims,
    reshape,
    scalar,
    sum_,
)
from tvm_tensat.rules.partition import concat_fields, some_fields

LINEAR: tuple[Apply, ...] = (sum_, mean)


def _shaped(x: Term, shape: Sequence[DimLike]) -> Term:
    return x if x.shape == tuple(shape) else reshape(x, shape=shape)


def _kept(reduced: Term, ndim: int) -> list[int]:
    """Return which axes of the operand the axes of the result are."""
    return [axis for axis in range(ndim) if reduced.keepdims or axis not in reduced.axis]


def _constant_along(s: Term, x: Term, reduced: Term) -> Term:
    """Return a weight that does not vary along the reduced axes, to meet the result."""
    need_weights(s)
    if s.ndim == 0:
        return s
    lifted = full_rank(s, x.ndim)
    if any(lifted.shape[axis] != 1 for axis in reduced.axis):
        refuse("varies along a reduced axis")
    return _shaped(lifted, [lifted.shape[axis] for axis in _kept(reduced, x.ndim)])


# -- other reductions, scales, shifts ----------------------------------------------------------


def _nested_reduction(reduce: Apply) -> Rule:
    @rule(keeps=REAL)
    def nested_reduction(x):
        """A reduction of a reduction is one over the axes of both."""
        inner = reduce(x)
        outer = reduce(inner)
        yield outer
        need_inputs(x)
        kept = _kept(inner, x.ndim)
        axes = sorted({*inner.axis, *(kept[axis] for axis in outer.axis)})
        yield _shaped(reduce(x, axis=axes, keepdims=outer.keepdims), outer.shape)

    return nested_reduction


def _reduction_of_scaled(reduce: Apply) -> Rule:
    @rule(keeps=REAL)
    def reduction_of_scaled(x, s):
        """A scale that does not vary along the reduced axes scales the result."""
        scaled = multiply(x, s)
        reduced = reduce(scaled)
        yield reduced
        need_inputs(x)
        if scaled.shape != x.shape:
            refuse("the scale broadcasts what it scales")
        yield multiply(reduced.on(x), _constant_along(s, x, reduced))

    return reduction_of_scaled


@rule(keeps=REAL)
def mean_of_shifted(x, t):
    """A shift that does not vary along the axes of a mean shifts the mean."""
    shifted = add(x, t)
    reduced = mean(shifted)
    yield reduced
    need_inputs(x)
    if shifted.shape != x.shape:
        refuse("the shift broadcasts what it shifts")
    yield add(reduced.on(x), _constant_along(t, x, reduced))


# -- other shapes ------------------------------------------------------------------------------


def _reduction_of_permuted(reduce: Apply) -> Rule:
    @rule(keeps=REAL)
    def reduction_of_permuted(x):
        """A reduction of a permutation is the permutation of a reduction."""
        permuted = permute_dims(x)
        reduced = reduce(permuted)
        yield reduced
        need_inputs(x)
        axes = sorted(permuted.axes[axis] for axis in reduced.axis)
        if reduced.keepdims:
            yield permuted.on(reduced.on(x, axis=axes))
            return
        order = [axis for axis in permuted.axes if axis not in axes]
        own = [sorted(order).index(axis) for axis in order]
        made = reduced.on(x, axis=axes)
        yield made if own == sorted(own) else permute_dims(made, axes=own)

    return reduction_of_permuted


def _reduction_of_reshaped(reduce: Apply) -> Rule:
    @rule(keeps=REAL)
    def reduction_of_reshaped(x):
        """A reduction of all later axes can come before a reshape that keeps the first."""
        reshaped = reshape(x)
        reduced = reduce(reshaped)
        yield reduced
        need_inputs(x)
        first = reduced.axis[0]
        if reduced.axis != tuple(range(first, reshaped.ndim)):
            refuse("not all of the last axes are reduced")
        made = reduce(x, axis=list(_trailing(x.shape, reshaped.shape[:first])), keepdims=False)
        yield _shaped(made, reduced.shape)

    return reduction_of_reshaped


def _trailing(shape: Sequence[DimLike], kept: Sequence[DimLike]) -> range:
    """Return the axes after those that hold the kept extents."""
    long = [extent for extent in kept if extent != 1]
    for count in range(len(shape)):
        if [extent for extent in shape[:count] if extent != 1] == long:
            return range(count, len(shape))
    refuse("the reshape mixes kept axes with reduced ones")


nested_reduction = for_each(LINEAR, _nested_reduction)
reduction_of_scaled = for_each(LINEAR, _reduction_of_scaled)
reduction_of_permuted = for_each(LINEAR, _reduction_of_permuted)
reduction_of_reshaped = for_each(LINEAR, _reduction_of_reshaped)

# -- products ----------------------------------------------------------------------------------


def _reduced_rows_of_a_product(reduce: Apply) -> Rule:
    @rule(keeps=REAL)
    def reduced_rows_of_a_product(a, b):
        """A reduction over rows and batches of a product is the product of reduced rows."""
        product = matmul(a, b)
        reduced = reduce(product)
        yield reduced
        need_matrices(a, b)
        need_inputs(a)
        if b.ndim != 2 or product.ndim - 1 in reduced.axis or product.dtype != a.dtype:
            refuse("columns are reduced, the right operand has batches, or the dtype changes")
        rows = reduce(a, axis=list(reduced.axis), keepdims=True)
        yield _shaped(product.on(rows, b), reduced.shape)

    return reduced_rows_of_a_product


def _reduced_columns_of_a_product(reduce: Apply) -> Rule:
    @rule(keeps=REAL)
    def reduced_columns_of_a_product(a, b):
        """A reduction over the columns of a product is the product with reduced columns."""
        product = matmul(a, b)
        reduced = reduce(product)
        yield reduced
        need_matrices(a, b)
        need_inputs(b)
        if reduced.axis != (product.ndim - 1,) or product.dtype != b.dtype:
            refuse("other axes than the columns are reduced, or the dtype changes")
        columns = reduce(b, axis=[b.ndim - 1], keepdims=True)
        yield _shaped(product.on(a, columns), reduced.shape)

    return reduced_columns_of_a_product


@rule(keeps=REAL)
def weighted_sum_as_product(x, s):
    """A sum along the last axis of what was scaled along it is a product with the scale."""
    scaled = multiply(x, s)
    total = sum_(scaled)
    yield total
    need_inputs(x)
    need_weights(s)
    if x.ndim < 2 or scaled.shape != x.shape or total.axis != (x.ndim - 1,):
        refuse("not a sum along the last axis of matrices")
    if prod(s.sizes) != x.shape[-1] or s.ndim == 0 or s.shape[-1] != x.shape[-1]:
        refuse("the scale varies along other axes")
    yield _shaped(matmul(x, reshape(s, shape=(x.shape[-1], 1))), total.shape)


reduced_rows_of_a_product = for_each(LINEAR, _reduced_rows_of_a_product)
reduced_columns_of_a_product = for_each(LINEAR, _reduced_columns_of_a_product)

# -- joined tensors ----------------------------------------------------------------------------


def _reduction_of_joined(reduce: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def reduction_of_joined(parts):
        """A reduction along other axes than the joined one joins the parts' reductions."""
        whole = concat_fields(parts)
        reduced = reduce(whole)
        yield reduced
        need_inputs(parts)
        if whole.axis in reduced.axis:
            refuse("the joined axis is reduced")
        axis = _kept(reduced, whole.ndim).index(whole.axis)
        yield concat(*(reduced.on(parts[i]) for i in some_fields(parts)), axis=axis)

    return reduction_of_joined


def _reduction_along_a_joined_axis(reduce: Apply) -> Rule:
    @rule(keeps=REAL)
    def reduction_along_a_joined_axis(parts):
        """A sum or mean along a joined axis is the sum of the parts' shares."""
        whole = concat_fields(parts)
        reduced = reduce(whole)
        yield reduced
        need_inputs(parts)
        if whole.axis not in reduced.axis:
            refuse("the joined axis is kept")
        total = None
        for part in (parts[i] for i in some_fields(parts)):
            own = reduced.on(part)
            if reduce is mean:
                share = part.sizes[whole.axis] / whole.sizes[whole.axis]
                own = multiply(own, scalar(share, own.dtype))
            total = own if total is None else add(total, own)
        yield total

    return reduction_along_a_joined_axis


reduction_of_joined = for_each((sum_, mean, max_, min_), _reduction_of_joined)
reduction_along_a_joined_axis = for_each(LINEAR, _reduction_along_a_joined_axis)
