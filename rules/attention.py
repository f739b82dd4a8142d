"""Attention as the products and the softmax that it is made of.

    attention(q, k, v)  =  softmax(q·k^T·scale + bias)·v, for each batch and head

Laws: attention_as_products, attention_with_bias_as_products. TVM's operator has the heads in the
axis before the last, so each operand is permuted. The order of scale and bias is TVM's own, but its
softmax is one with the products: `REAL`.

A single batch has no axis in the products. PyTorch's importer permutes what goes into the operator
and what comes out of it; were the result here the same permutation the other way round, both would
form a cycle, and cycle filtering hides the newer.

Good for: everything where no library has a fused kernel. TVM lowers the operator to one function
that no schedule takes (128 tokens, 4 heads of 32 on one core: 11.9 ms, as products 0.64 ms), and
products take scales, transposes and siblings.

Left out: causal masks (TVM's lowering of them has no Relax operators that are folded), and windows,
which TVM does not lower.
"""

from __future__ import annotations

from tvm_tensat.egraph.language import DimLike
from tvm_tensat.egraph.rule import REAL, Term, refuse, rule
from tvm_tensat.rules.operators import (
    add,
    attention,
    attention_bias,
    matmul,
    multiply,
    number_of,
    permute_dims,
    reshape,
    scalar,
    softmax,
)


def _by_head(x: Term) -> Term:
    """Put the heads before the tokens, and drop the axis of a single batch."""
    if x.shape[0] == 1:
        return permute_dims(reshape(x, shape=x.shape[1:]), axes=[1, 0, 2])
    return permute_dims(x, axes=[0, 2, 1, 3])


def _by_token(x: Term, shape: tuple[DimLike, ...]) -> Term:
    """Put the tokens before the heads, and restore the axis of a single batch."""
    if x.ndim == 3:
        return reshape(permute_dims(x, axes=[1, 0, 2]), shape=shape)
    return permute_dims(x, axes=[0, 2, 1, 3])


def _scores(whole: Term) -> Term:
    """Return q·k^T·scale, (batch, heads, queries, keys) or (heads, queries, keys)."""
    q, k = whole.operands[:2]
    if whole.causal_mask is not None or whole.window_size is not None:
        refuse("a causal mask or a window")
    scale = int(q.shape[-1]) ** -0.5 if whole.scale is None else number_of(whole.scale)
    keys = _by_head(k)
    axes = (*range(keys.ndim - 2), keys.ndim - 1, keys.ndim - 2)
    products = matmul(_by_head(q), permute_dims(keys, axes=axes))
    return multiply(products, scalar(scale, products.dtype))


@rule(keeps=REAL)
def attention_as_products(q, k, v):
    """Attention is the product of the values with the softmax of scaled products."""
    whole = attention(q, k, v)
    yield whole
    weights = softmax(_scores(whole), axis=-1)
    yield _by_token(matmul(weights, _by_head(v)), whole.shape)


@rule(keeps=REAL)
def attention_with_bias_as_products(q, k, v, bias):
    """Attention with a bias adds it to the scaled products before the softmax."""
    whole = attention_bias(q, k, v, bias)
    yield whole
    if bias.ndim != 4:
        refuse("a bias without batches and heads")
    scores = _scores(whole)
    own = bias if scores.ndim == 4 else reshape(bias, shape=bias.shape[1:])
    yield _by_token(matmul(softmax(add(scores, own), axis=-1), _by_head(v)), whole.shape)
