"""Repeated tensors, and products that need not see them.

    tile(x), once               =  x                            tile_once
    tile(x) of unit axes        =  broadcast(x)                 tile_as_broadcast
    repeat(x)                   =  broadcast(x), reshaped       repeat_as_broadcast
    broadcast(a)·b              =  a·b                          product_of_broadcast_batches[left]
    a·broadcast(b)              =  a·b                          product_of_broadcast_batches[right]
    q·(b, each batch g times)   =  (g batches of q as rows)·b   product_with_repeated_batches, ...

All are exact: they say where a number lies, and each result is the same sum.

Good for: grouped-query attention (Llama, Qwen), where each head of keys and values is repeated for
g heads of queries: no copies, and products of g times as many rows. And for products that PyTorch
broadcasts before it multiplies.

Left out: a stack as a concatenation of reshaped parts. ONNX writes residual sums as sums of stacks,
which `elementwise` makes chains of sums; by this form too resnet50 had 3,088 e-nodes instead of
2,223 and shufflenet did not saturate.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_tensat.egraph.rule import ANY, EXACT, Rule, Term, refuse, rule
from tvm_tensat.rules.common import need_an_input, need_inputs
from tvm_tensat.rules.operators import (
    broadcast_to,
    matmul,
    need_matrices,
    permute_dims,
    repeat,
    reshape,
    tile,
)


@rule(keeps=EXACT, dtypes=ANY)
def tile_once(x):
    """A tensor that is tiled once is itself."""
    tiled = tile(x)
    yield tiled
    if any(count != 1 for count in tiled.repeats):
        refuse("tiled more than once")
    yield x


@rule(keeps=EXACT, dtypes=ANY)
def tile_as_broadcast(x):
    """To tile axes of extent one is to broadcast them."""
    tiled = tile(x)
    yield tiled
    lifted = (*(1,) * (tiled.ndim - x.ndim), *x.shape)
    if any(count != 1 and extent != 1 for count, extent in zip(tiled.repeats, lifted, strict=True)):
        refuse("an axis of more than one is tiled")
    yield broadcast_to(x, shape=tiled.shape)


@rule(keeps=EXACT, dtypes=ANY)
def repeat_as_broadcast(x):
    """To repeat each element is to broadcast along a new axis and join it."""
    repeated = repeat(x)
    yield repeated
    axis = repeated.axis
    if axis is None:
        refuse("repeated along no axis")
    front, back = x.shape[: axis + 1], x.shape[axis + 1 :]
    apart = reshape(x, shape=(*front, 1, *back))
    whole = broadcast_to(apart, shape=(*front, repeated.repeats, *back))
    yield reshape(whole, shape=repeated.shape)


# -- products ----------------------------------------------------------------------------------


def _product_of_broadcast_batches(left: bool) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def product_of_broadcast_batches(a, b):
        """A product broadcasts the batches of its operands by itself."""
        broadcast = broadcast_to(a if left else b)
        product = matmul(broadcast, b) if left else matmul(a, broadcast)
        yield product
        need_an_input(a, b)
        need_matrices(a, b)
        small = a if left else b
        if small.shape[-2:] != broadcast.shape[-2:]:
            refuse("rows or columns are broadcast")
        yield product.on(a, b)

    side = "left" if left else "right"
    return replace(product_of_broadcast_batches, name=f"product_of_broadcast_batches[{side}]")


product_of_broadcast_batches = (
    _product_of_broadcast_batches(left=True),
    _product_of_broadcast_batches(left=False),
)


def _repeated(b: Term, apart: Term, whole: Term) -> int:
    """Return how often the last batch axis of b is repeated by a broadcast and a reshape."""
    if b.ndim < 4 or b.shape[-3] != 1 or apart.ndim != b.ndim or whole.ndim != b.ndim - 1:
        refuse("not one axis before the matrix is broadcast and joined to its left neighbour")
    count, heads = apart.sizes[-3], b.sizes[-4]
    without = (*apart.shape[:-3], *apart.shape[-2:])
    if without != (*b.shape[:-3], *b.shape[-2:]):
        refuse("another axis is broadcast")
    if whole.shape != (*b.shape[:-4], heads * count, *b.shape[-2:]):
        refuse("the repeated axis is not joined to its left neighbour")
    return count


def _rows_of_all(q: Term, count: int, b: Term) -> Term:
    """Give the rows of `count` neighbouring batches of q to one batch."""
    if q.ndim != b.ndim - 1 or q.shape[:-3] != b.shape[:-4]:
        refuse("the batches differ")
    return reshape(q, shape=(*b.shape[:-3], count * q.sizes[-2], q.shape[-1]))


@rule(keeps=EXACT, dtypes=ANY)
def product_with_repeated_batches(q, b):
    """A product with repeated batches is one of more rows with each of them."""
    apart = broadcast_to(b)
    whole = reshape(apart)
    product = matmul(q, whole)
    yield product
    need_inputs(q)
    count = _repeated(b, apart, whole)
    once = reshape(b, shape=(*b.shape[:-3], *b.shape[-2:]))
    yield reshape(product.on(_rows_of_all(q, count, b), once), shape=product.shape)


@rule(keeps=EXACT, dtypes=ANY)
def product_with_repeated_transposes(q, b):
    """A product with transposes of repeated batches is one of more rows with each transpose."""
    apart = broadcast_to(b)
    whole = reshape(apart)
    turned = permute_dims(whole)
    product = matmul(q, turned)
    yield product
    need_inputs(q)
    count = _repeated(b, apart, whole)
    n = whole.ndim
    if turned.axes != (*range(n - 2), n - 1, n - 2):
        refuse("not a transpose of each matrix")
    once = turned.on(reshape(b, shape=(*b.shape[:-3], *b.shape[-2:])))
    yield reshape(product.on(_rows_of_all(q, count, b), once), shape=product.shape)
