"""Products of matrices whose axes are in another order, or grouped otherwise.

    (a·b)^T         =  b^T·a^T                         transpose_of_a_product, product_of_transposes
    (x permuted)·w  =  (x·w) permuted                  product_of_a_permuted_operand, ...
    x·w             =  (x as one matrix)·w, reshaped   product_of_flattened_rows

Each element of the result is the same sum in the same order, so all are `EXACT`. The last has no
way back: one matrix is the form in which products meet, and its reshapes are views.
"""

from __future__ import annotations

from math import prod

from tvm_tensat.egraph.rule import ANY, EXACT, Term, refuse, rule
from tvm_tensat.rules.common import need_an_input
from tvm_tensat.rules.operators import matmul, need_matrices, permute_dims, reshape


def _swapped(ndim: int) -> tuple[int, ...]:
    return (*range(ndim - 2), ndim - 1, ndim - 2)


def _transposed(x: Term) -> Term:
    return permute_dims(x, axes=_swapped(x.ndim))


@rule(keeps=EXACT, dtypes=ANY)
def transpose_of_a_product(a, b):
    """The transpose of a product is the product of the transposes in the other order."""
    product = matmul(a, b)
    outer = permute_dims(product)
    yield outer
    need_matrices(a, b)
    need_an_input(a, b)
    if outer.axes != _swapped(outer.ndim):
        refuse("not a transpose of each matrix")
    yield product.on(_transposed(b), _transposed(a))


@rule(keeps=EXACT, dtypes=ANY)
def product_of_transposes(a, b):
    """A product of transposes is the transpose of the product in the other order."""
    left, right = permute_dims(a), permute_dims(b)
    product = matmul(left, right)
    yield product
    need_matrices(a, b)
    need_an_input(a, b)
    if left.axes != _swapped(a.ndim) or right.axes != _swapped(b.ndim):
        refuse("not a transpose of each matrix")
    yield _transposed(product.on(b, a))


@rule(keeps=EXACT, dtypes=ANY)
def product_of_a_permuted_operand(x, w):
    """A product of an operand with permuted rows and batches is the product permuted alike."""
    outer = permute_dims(x)
    product = matmul(outer, w)
    yield product
    need_matrices(x, w)
    need_an_input(x, w)
    if w.ndim != 2 or outer.axes[-1] != x.ndim - 1:
        refuse("the permutation moves the inner axis, or the right operand has batches")
    yield outer.on(product.on(x, w))


@rule(keeps=EXACT, dtypes=ANY)
def permuted_rows_of_a_product(x, w):
    """A product whose rows and batches are permuted is the product of the permuted operand."""
    product = matmul(x, w)
    outer = permute_dims(product)
    yield outer
    need_matrices(x, w)
    need_an_input(x, w)
    if w.ndim != 2 or outer.axes[-1] != x.ndim - 1:
        refuse("the permutation moves the columns, or the right operand has batches")
    yield product.on(outer.on(x), w)


@rule(keeps=EXACT, dtypes=ANY)
def product_of_flattened_rows(x, w):
    """A product of many matrices with one is a product of all their rows with it."""
    product = matmul(x, w)
    yield product
    need_an_input(x, w)
    if x.ndim < 3 or w.ndim != 2:
        refuse("no batches on the left, or some on the right")
    rows = prod(int(extent) for extent in x.shape[:-1])
    flat = product.on(reshape(x, shape=(rows, x.shape[-1])), w)
    yield reshape(flat, shape=product.shape)
