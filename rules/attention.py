"""Attention as the products and the softmax that it is made of.

    attention(q, k, v)  =  softmax(q·k^T·scale + bias)·v, for each batch and head

Laws: attention_as_products, attention_with_bias_as_products. TVM's operator has the heads in the
axis before the last, so each operand is permuted; PyTorch's importer permutes them the other way,
and both cancel. The order of scale and bias is TVM's own, but its softmax is one with the products:
`REAL`.

Good for: everything where no library has a fused kernel. TVM lowers the operator to one function
that no schedule takes (128 tokens, 4 heads of 32 on one core: 11.9 ms, as products 0.64 ms), and
products take scales, transposes and siblings.

Left out: causal masks (TVM's lowering of them has no Relax operators that are folded), and windows,
which TVM does not lower.
"""

from __future__ import annotations

from tvm_tensat.egraph.rule import REAL, Term, refuse, rule
from tvm_tensat.rules.operators import (
    add,
    attention,
    attention_bias,
    matmul,
    multiply,
    number_of,
    permute_dims,
    scalar,
    softmax,
)


def _scores(whole: Term) -> Term:
    """Return q·k^T·scale, (batch, heads, queries, keys)."""
    q, k = whole.operands[:2]
    if whole.causal_mask is not None or whole.window_size is not None:
        refuse("a causal mask or a window")
    scale = q.sizes[-1] ** -0.5 if whole.scale is None else number_of(whole.scale)
    products = matmul(_by_head(q), permute_dims(k, axes=[0, 2, 3, 1]))
    return multiply(products, scalar(scale, products.dtype))


def _by_head(x: Term) -> Term:
    return permute_dims(x, axes=[0, 2, 1, 3])


@rule(keeps=REAL)
def attention_as_products(q, k, v):
    """Attention is the product of the values with the softmax of scaled products."""
    whole = attention(q, k, v)
    yield whole
    weights = softmax(_scores(whole), axis=-1)
    yield _by_head(matmul(weights, _by_head(v)))


@rule(keeps=REAL)
def attention_with_bias_as_products(q, k, v, bias):
    """Attention with a bias adds it to the scaled products before the softmax."""
    whole = attention_bias(q, k, v, bias)
    yield whole
    if bias.ndim != 4:
        refuse("a bias without batches and heads")
    weights = softmax(add(_scores(whole), bias), axis=-1)
    yield _by_head(matmul(weights, _by_head(v)))
