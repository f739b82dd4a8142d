"""Products of matrices with scales, which move to whatever is known at compile time.

S scales the inner axis, R rows, C columns; each may be one number.

    (x S)·w  =  x·(S w)   product_of_a_scaled_left_operand, product_with_a_scaled_right_operand
    (x·w) C  =  x·(w C)   scaled_columns_of_a_product, product_with_scaled_columns
    R (x·w)  =  (R x)·w   scaled_rows_of_a_product, product_of_scaled_rows

They round differently, so all are `REAL`. Scaled weights stay as they are: they cost nothing. A
scale that is known at run time only does not move to a weight, which would then be scaled for each
input: the scales of a norm of one row are single numbers, and with them a layer of GPT-2 that gives
the next token met the limit of 50,000 e-nodes instead of staying at 1,347.
"""

from __future__ import annotations

from tvm_tensat.egraph.rule import REAL, Term, refuse, rule
from tvm_tensat.rules.common import need_an_input
from tvm_tensat.rules.operators import matmul, moved, multiply, need_matrices


def _need_no_work(s: Term, to: Term) -> None:
    if to.is_weight and not s.is_weight:
        refuse("a weight would be scaled at run time")


@rule(keeps=REAL)
def product_of_a_scaled_left_operand(x, s, w):
    """A scale of the inner axis of the left operand may scale the rows of the right one."""
    scaled = multiply(x, s)
    product = matmul(scaled, w)
    yield product
    need_matrices(x, w)
    need_an_input(x, s)
    _need_no_work(s, w)
    if scaled.shape != x.shape:
        refuse("the scale broadcasts what it scales")
    yield product.on(x, multiply(w, moved(s, x.ndim, x.ndim - 1, w.ndim, w.ndim - 2)))


@rule(keeps=REAL)
def product_with_a_scaled_right_operand(x, w, s):
    """A scale of the inner axis of the right operand may scale the columns of the left one."""
    scaled = multiply(w, s)
    product = matmul(x, scaled)
    yield product
    need_matrices(x, w)
    need_an_input(w, s)
    _need_no_work(s, x)
    if scaled.shape != w.shape:
        refuse("the scale broadcasts what it scales")
    yield product.on(multiply(x, moved(s, w.ndim, w.ndim - 2, x.ndim, x.ndim - 1)), w)


@rule(keeps=REAL)
def scaled_columns_of_a_product(x, w, s):
    """A scale of the columns of a product may scale the columns of its right operand."""
    product = matmul(x, w)
    scaled = multiply(product, s)
    yield scaled
    need_matrices(x, w)
    need_an_input(x, w)
    _need_no_work(s, w)
    yield product.on(x, multiply(w, moved(s, product.ndim, product.ndim - 1, w.ndim, w.ndim - 1)))


@rule(keeps=REAL)
def scaled_rows_of_a_product(x, w, s):
    """A scale of the rows of a product may scale the rows of its left operand."""
    product = matmul(x, w)
    scaled = multiply(product, s)
    yield scaled
    need_matrices(x, w)
    need_an_input(x, w)
    _need_no_work(s, x)
    yield product.on(multiply(x, moved(s, product.ndim, product.ndim - 2, x.ndim, x.ndim - 2)), w)


@rule(keeps=REAL)
def product_of_scaled_rows(x, s, w):
    """A product of an operand with scaled rows is the product with scaled rows."""
    scaled = multiply(x, s)
    product = matmul(scaled, w)
    yield product
    need_matrices(x, w)
    need_an_input(x, s)
    if scaled.shape != x.shape:
        refuse("the scale broadcasts what it scales")
    n = product.ndim
    yield multiply(product.on(x, w), moved(s, x.ndim, x.ndim - 2, n, n - 2))


@rule(keeps=REAL)
def product_with_scaled_columns(x, w, s):
    """A product with an operand of scaled columns is the product with scaled columns."""
    scaled = multiply(w, s)
    product = matmul(x, scaled)
    yield product
    need_matrices(x, w)
    need_an_input(w, s)
    if scaled.shape != w.shape:
        refuse("the scale broadcasts what it scales")
    n = product.ndim
    yield multiply(product.on(x, w), moved(s, w.ndim, w.ndim - 1, n, n - 1))
