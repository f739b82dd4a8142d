"""Products of matrices in sums and in products.

    (x·a)·b    =  x·(a·b)      product_reassociated_right, product_reassociated_left
    x·a + x·b  =  x·(a + b)    sum_of_products_of_one_left, product_with_a_sum
    x·a + y·a  =  (x + y)·a    sum_of_products_with_one_right, product_of_a_sum
    x·a + y·b  =  [x y]·[a; b] sum_of_products, product_along_a_joined_axis

[x y] joins columns, [a; b] rows. They round differently, so all are `REAL`. What is computed from
weights alone stays, for it costs nothing.
"""

from __future__ import annotations

from tvm_tensat.egraph.language import DimLike
from tvm_tensat.egraph.rule import REAL, Term, refuse, rule
from tvm_tensat.rules.common import need_an_input
from tvm_tensat.rules.operators import (
    add,
    broadcast_to,
    concat,
    cut,
    matmul,
    need_matrices,
    need_same_operator,
    reshape,
    without,
)


def _check_one_dtype(*terms: Term) -> None:
    if len({term.dtype for term in terms}) > 1:
        refuse("dtypes differ")


def _need_low_rank(a: Term, b: Term) -> None:
    """Refuse to split a product of two weights, unless it has more elements than both of them."""
    if a.is_weight and b.is_weight:
        rows, inner, columns = *a.sizes[-2:], b.sizes[-1]
        if rows * columns <= inner * (rows + columns):
            refuse("the product of the weights is no larger than they are")


@rule(keeps=REAL)
def product_reassociated_right(x, a, b):
    """A product of three matrices may start with the last two."""
    inner = matmul(x, a)
    outer = matmul(inner, b)
    yield outer
    need_matrices(x, a, b)
    _check_one_dtype(x, a, b, inner, outer)
    if not b.is_weight:  # weights alone are nested to the right, so that equal ones meet
        _need_low_rank(x, a)
    yield matmul(x, matmul(a, b))


@rule(keeps=REAL)
def product_reassociated_left(x, a, b):
    """A product of three matrices may start with the first two."""
    inner = matmul(a, b)
    outer = matmul(x, inner)
    yield outer
    need_matrices(x, a, b)
    _check_one_dtype(x, a, b, inner, outer)
    _need_low_rank(a, b)
    yield matmul(matmul(x, a), b)


@rule(keeps=REAL)
def sum_of_products_of_one_left(x, a, b):
    """A sum of products of one left operand is its product with the sum of the others."""
    p, q = matmul(x, a), matmul(x, b)
    yield add(p, q)
    need_matrices(x, a, b)
    need_an_input(x, a)
    need_an_input(x, b)
    need_same_operator(p, q)
    if a.shape != b.shape:
        refuse("right operands differ in shape")
    yield p.on(x, add(a, b))


@rule(keeps=REAL)
def sum_of_products_with_one_right(x, y, a):
    """A sum of products with one right operand is the product of the sum of the others with it."""
    p, q = matmul(x, a), matmul(y, a)
    yield add(p, q)
    need_matrices(x, y, a)
    need_an_input(x, a)
    need_an_input(y, a)
    need_same_operator(p, q)
    if x.shape != y.shape:
        refuse("left operands differ in shape")
    yield p.on(add(x, y), a)


@rule(keeps=REAL)
def product_with_a_sum(x, a, b):
    """A product with a sum is the sum of the products with the summands."""
    product = matmul(x, add(a, b))
    yield product
    need_matrices(x, a, b)
    need_an_input(a, b)
    if a.shape != b.shape:
        refuse("summands differ in shape")
    yield add(product.on(x, a), product.on(x, b))


@rule(keeps=REAL)
def product_of_a_sum(x, y, a):
    """A product of a sum is the sum of the products of the summands."""
    total = add(x, y)
    product = matmul(total, a)
    yield product
    need_matrices(total, a)
    need_an_input(x, y)
    if x.shape != total.shape:
        refuse("the first summand is broadcast")
    if y.shape != x.shape and not y.is_weight:
        refuse("the second summand is broadcast and no weight")
    yield add(product.on(x, a), product.on(_as_rows(y, total.shape[-1]), a))


def _as_rows(y: Term, inner: DimLike) -> Term:
    """Give a summand that is broadcast at least one row, and the whole inner axis."""
    shape = (*(1,) * (2 - y.ndim), *y.shape)
    rows = y if shape == y.shape else reshape(y, shape=shape)
    return rows if shape[-1] == inner else broadcast_to(rows, shape=(*shape[:-1], inner))


@rule(keeps=REAL)
def sum_of_products(x, y, a, b):
    """A sum of products is one product along a joined inner axis."""
    p, q = matmul(x, a), matmul(y, b)
    yield add(p, q)
    need_matrices(x, y, a, b)
    need_an_input(x, a)
    need_an_input(y, b)
    need_same_operator(p, q)
    if without(x.shape, -1) != without(y.shape, -1) or without(a.shape, -2) != without(b.shape, -2):
        refuse("operands differ besides the inner axis")
    yield p.on(concat(x, y, axis=-1), concat(a, b, axis=-2))


@rule(keeps=REAL)
def product_along_a_joined_axis(x, y, w):
    """A product along a joined inner axis is a sum of products with the parts of the other."""
    joined = concat(x, y)
    product = matmul(joined, w)
    yield product
    need_matrices(joined, w)
    need_an_input(x, y)
    if joined.axis != joined.ndim - 1:
        refuse("not joined along the inner axis")
    a, b = cut(w, [x.shape[-1], y.shape[-1]], axis=-2)
    yield add(product.on(x, a), product.on(y, b))
