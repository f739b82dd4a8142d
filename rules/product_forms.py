"""Other operators, and products of other kinds, as products of matrices.

    x·v, a vector          =  x·(v as a matrix), reshaped       product_with_a_vector
    v·x                    =  (v as a matrix)·x, reshaped       product_of_a_vector
    einsum of two tensors  =  permuted, reshaped, multiplied    einsum_as_product
    cast(a)·cast(b)        =  a·b with that out_dtype           product_of_casts
    conv(cast(x), cast(w)) =  conv(x, w) with that out_dtype    convolution_of_casts

Products of vectors and casts are exact: TVM casts to the result's dtype before it multiplies. An
einsum may sum along several axes in another order.

Good for: what only products take: merging, flattening, scales; casts cost no kernel of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_tensat.egraph.language import DimLike
from tvm_tensat.egraph.rule import ANY, EXACT, REAL, Term, refuse, rule
from tvm_tensat.rules.common import need_an_input
from tvm_tensat.rules.operators import astype, conv2d, einsum, matmul, permute_dims, reshape, tuple_


@rule(keeps=EXACT, dtypes=ANY)
def product_with_a_vector(x, v):
    """A product with a vector is the product with a matrix of one column."""
    product = matmul(x, v)
    yield product
    need_an_input(x, v)
    if x.ndim < 2 or v.ndim != 1:
        refuse("no matrix times a vector")
    yield reshape(product.on(x, reshape(v, shape=(*v.shape, 1))), shape=product.shape)


@rule(keeps=EXACT, dtypes=ANY)
def product_of_a_vector(v, x):
    """A product of a vector is the product of a matrix of one row."""
    product = matmul(v, x)
    yield product
    need_an_input(x, v)
    if v.ndim != 1 or x.ndim < 2:
        refuse("no vector times a matrix")
    yield reshape(product.on(reshape(v, shape=(1, *v.shape)), x), shape=product.shape)


@rule(keeps=REAL)
def einsum_as_product(a, b):
    """An einsum of two tensors is a product of matrices between permutations."""
    whole = einsum(tuple_(a, b))
    yield whole
    need_an_input(a, b)
    (left, right), out = _letters(whole.subscripts)
    extent = dict(zip(left, a.shape, strict=True)) | dict(zip(right, b.shape, strict=True))
    batch = [letter for letter in out if letter in left and letter in right]
    inner = [letter for letter in left if letter in right and letter not in out]
    rows = [letter for letter in left if letter not in right]
    columns = [letter for letter in right if letter not in left]
    if sorted(out) != sorted(batch + rows + columns):
        refuse("an axis of one operand is summed over")
    sizes = [[extent[letter] for letter in letters] for letters in (batch, rows, inner, columns)]
    product = matmul(
        _grouped(a, left, batch + rows + inner, (*sizes[0], _one(sizes[1]), _one(sizes[2]))),
        _grouped(b, right, batch + inner + columns, (*sizes[0], _one(sizes[2]), _one(sizes[3]))),
        out_dtype=whole.dtype,
    )
    order = batch + rows + columns
    apart = reshape(product, shape=[extent[letter] for letter in order])
    yield _permuted(apart, order, list(out))


def _letters(subscripts: str) -> tuple[list[str], str]:
    """Return the operands' letters and the result's; refuse what is no plain product."""
    text = subscripts.replace(" ", "")
    if "." in text or "->" not in text:
        refuse("an ellipsis, or no result is named")
    operands, _, out = text.partition("->")
    letters = operands.split(",")
    if any(len(set(word)) < len(word) for word in (*letters, out)):
        refuse("a diagonal")
    return letters, out


def _one(extents: Sequence[DimLike]) -> DimLike:
    """Return the extent of several axes joined; of more than one they must be numbers."""
    if len(extents) == 1:
        return extents[0]
    total = 1
    for extent in extents:
        total *= int(extent)
    return total


def _permuted(x: Term, before: Sequence[str], after: Sequence[str]) -> Term:
    axes = [list(before).index(letter) for letter in after]
    return x if axes == sorted(axes) else permute_dims(x, axes=axes)


def _grouped(x: Term, before: str, after: Sequence[str], shape: Sequence[DimLike]) -> Term:
    """Order the axes as the letters say and join them to this shape."""
    ordered = _permuted(x, list(before), after)
    return ordered if ordered.shape == tuple(shape) else reshape(ordered, shape=shape)


# -- casts -------------------------------------------------------------------------------------

WIDER = {  # dtype -> the dtypes of results that TVM's products and convolutions accumulate in
    "float16": ("float32",),
    "bfloat16": ("float32",),
    "int8": ("int32",),
    "uint8": ("int32",),
}


def _need_wider(a: Term, b: Term, copies: tuple[Term, Term], result: Term) -> None:
    if a.dtype != b.dtype or result.dtype not in WIDER.get(a.dtype, ()):
        refuse("operands of two dtypes, or none that accumulates in the result's")
    if any(copy.dtype != result.dtype for copy in copies):
        refuse("a copy has another dtype than the result")


@rule(keeps=EXACT, dtypes=ANY)
def product_of_casts(a, b):
    """A product of wider copies is a product with a wider result."""
    copies = astype(a), astype(b)
    product = matmul(*copies)
    yield product
    need_an_input(a, b)
    _need_wider(a, b, copies, product)
    yield product.on(a, b)


@rule(keeps=EXACT, dtypes=ANY)
def convolution_of_casts(x, w):
    """A convolution of wider copies is a convolution with a wider result."""
    copies = astype(x), astype(w)
    conv = conv2d(*copies)
    yield conv
    need_an_input(x, w)
    _need_wider(x, w, copies, conv)
    yield conv.on(x, w)
