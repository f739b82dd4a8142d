"""Products of matrices that share an operand, or whose operands are joined or cut.

    x·a, x·b            =  the halves of x·[a b]          products_sharing_left
    a·x, b·x            =  the halves of [a; b]·x         products_sharing_right
    x·a, x·b, x·c, ...  =  the parts of x·[a b c ...]     products_of_one_left
    a·x, b·x, c·x, ...  =  the parts of [a; b; c; ...]·x  products_of_one_right
    [a; b]·w            =  [a·w; b·w]                     product_of_stacked_rows, stack_of_products
    x·[a b]             =  [x·a x·b]                      product_with_joined_columns, ...
    (part of x)·w       =  part of x·w                    product_of_a_part_of_the_rows
    x·(part of w)       =  part of x·w                    product_with_a_part_of_the_columns

[a b] joins columns, [a; b] rows. These laws are `EXACT`: in Relax each element of the result is the
same sum of the same products of numbers, although a kernel of another size may add them up in
another order. Vectors, whose products drop an axis, are refused everywhere, and so are products,
joints and cuts of weights alone, which cost nothing as they are.
"""

from __future__ import annotations

from tvm_tensat.egraph.language import DimLike
from tvm_tensat.egraph.rule import ANY, EXACT, Term, group_rule, multi_rule, refuse, rule
from tvm_tensat.rules.common import need_an_input
from tvm_tensat.rules.operators import (
    concat,
    cut,
    get,
    matmul,
    need_matrices,
    need_same_operator,
    split,
    without,
)


def _but_columns(product: Term) -> tuple[DimLike, ...]:
    """Return what right operands must share to be joined by columns: batch and inner axes."""
    need_matrices(*product.operands)
    need_an_input(*product.operands)
    return without(product.operands[1].shape, -1)


def _but_rows(product: Term) -> tuple[DimLike, ...]:
    """Return what left operands must share to be joined by rows: batch and inner axes."""
    need_matrices(*product.operands)
    need_an_input(*product.operands)
    return without(product.operands[0].shape, -2)


def _right_kind(product: Term) -> tuple[object, ...]:
    """Return what all products of a group share: weights are joined for nothing, inputs are not."""
    return product.operands[1].is_weight, _but_columns(product)


def _left_kind(product: Term) -> tuple[object, ...]:
    """Return what all products of a group share: weights are joined for nothing, inputs are not."""
    return product.operands[0].is_weight, _but_rows(product)


# -- products that share an operand ----------------------------------------------------------------


def _merged_left(products: list[Term]) -> list[Term]:
    rights = [p.operands[1] for p in products]
    wide = products[0].on(products[0].operands[0], concat(*rights, axis=-1))
    return cut(wide, [right.shape[-1] for right in rights], axis=-1)


def _merged_right(products: list[Term]) -> list[Term]:
    lefts = [p.operands[0] for p in products]
    tall = products[0].on(concat(*lefts, axis=-2), products[0].operands[1])
    return cut(tall, [left.shape[-2] for left in lefts], axis=-2)


@multi_rule(keeps=EXACT, dtypes=ANY)
def products_sharing_left(x, a, b):
    """Two products of one left operand are one product with a wider right operand, cut in two."""
    p, q = matmul(x, a), matmul(x, b)
    yield p, q
    need_same_operator(p, q)
    if _but_columns(p) != _but_columns(q):
        refuse("right operands differ in batch axes")
    yield _merged_left([p, q])


@multi_rule(keeps=EXACT, dtypes=ANY)
def products_sharing_right(x, a, b):
    """Two products with one right operand are one product of a taller left operand, cut in two."""
    p, q = matmul(a, x), matmul(b, x)
    yield p, q
    need_same_operator(p, q)
    if _but_rows(p) != _but_rows(q):
        refuse("left operands differ in batch axes")
    yield _merged_right([p, q])


@group_rule(keeps=EXACT, dtypes=ANY, alike=_right_kind)
def products_of_one_left(x, a):
    """All products of one left operand are one product with a wide right operand, cut in parts."""
    products = yield matmul(x, a)
    for product in products:
        need_an_input(*product.operands)
    yield _merged_left(products)


@group_rule(keeps=EXACT, dtypes=ANY, alike=_left_kind)
def products_of_one_right(x, a):
    """All products with one right operand are one product of a tall left operand, cut in parts."""
    products = yield matmul(a, x)
    for product in products:
        need_an_input(*product.operands)
    yield _merged_right(products)


# -- products of what is joined or cut -------------------------------------------------------------


def _row_axis_of_product(product: Term, axis: int) -> int:
    """Return which axis of the product an axis of the left operand, not the inner one, becomes."""
    left, right = product.operands
    need_matrices(left, right)
    if axis == left.ndim - 1:
        refuse("joined along the inner axis")
    own = axis - (left.ndim - right.ndim)
    if axis < left.ndim - 2 and own >= 0 and right.shape[own] != 1:
        refuse("the right operand varies along that batch axis")
    return axis + product.ndim - left.ndim


@rule(keeps=EXACT, dtypes=ANY)
def product_of_stacked_rows(a, b, w):
    """A product of matrices stacked along rows or batches is the stack of their products."""
    stacked = concat(a, b)
    product = matmul(stacked, w)
    yield product
    need_an_input(a, b)
    axis = _row_axis_of_product(product, stacked.axis)
    yield concat(product.on(a, w), product.on(b, w), axis=axis)


@rule(keeps=EXACT, dtypes=ANY)
def stack_of_products(a, b, w):
    """Products with one right operand, joined by rows, are a product of the joined operands."""
    p, q = matmul(a, w), matmul(b, w)
    joined = concat(p, q)
    yield joined
    need_same_operator(p, q)
    if _but_rows(p) != _but_rows(q) or joined.axis != joined.ndim - 2:
        refuse("not joined along the rows")
    yield p.on(concat(a, b, axis=-2), w)


@rule(keeps=EXACT, dtypes=ANY)
def product_with_joined_columns(x, a, b):
    """A product with matrices joined by columns joins the columns of the products."""
    joined = concat(a, b)
    product = matmul(x, joined)
    yield product
    need_an_input(a, b)
    need_matrices(x, a)
    if joined.axis != joined.ndim - 1:
        refuse("not joined along the columns")
    yield concat(product.on(x, a), product.on(x, b), axis=-1)


@rule(keeps=EXACT, dtypes=ANY)
def joined_columns_of_products(x, a, b):
    """Products of one left operand, joined by columns, are a product with the joined operands."""
    p, q = matmul(x, a), matmul(x, b)
    joined = concat(p, q)
    yield joined
    need_same_operator(p, q)
    if _but_columns(p) != _but_columns(q) or joined.axis != joined.ndim - 1:
        refuse("not joined along the columns")
    yield p.on(x, concat(a, b, axis=-1))


@rule(keeps=EXACT, dtypes=ANY)
def product_of_a_part_of_the_rows(x, w):
    """A product of some rows or batches of a matrix is those rows or batches of its product."""
    parts = split(x)
    part = get(parts)
    product = matmul(part, w)
    yield product
    need_an_input(x)
    axis = _row_axis_of_product(product, parts.axis)
    yield parts.on(product.on(x, w), axis=axis)[part.index]


@rule(keeps=EXACT, dtypes=ANY)
def product_with_a_part_of_the_columns(x, w):
    """A product with some columns of a matrix is those columns of the product with all of it."""
    parts = split(w)
    part = get(parts)
    product = matmul(x, part)
    yield product
    need_an_input(w)
    need_matrices(x, w)
    if parts.axis != w.ndim - 1:
        refuse("not cut along the columns")
    yield parts.on(product.on(x, w), axis=product.ndim - 1)[part.index]
