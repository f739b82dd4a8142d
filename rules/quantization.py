"""Quantized tensors, changed in shape while they are small.

q = round(x/s) + z, clipped; s and z are one number each.

    permute(dequantize(q))               =  dequantize(permute(q))         permuted_dequantized
    quantize(permute(x))                 =  permute(quantize(x))           quantized_permutation
    reshape(dequantize(q))               =  dequantize(reshape(q))         reshaped_dequantized
    quantize(reshape(x))                 =  reshape(quantize(x))           quantized_reshape
    slice(dequantize(q))                 =  dequantize(slice(q))           sliced_dequantized
    concat(dequantize(p), dequantize(q)) =  dequantize(concat(p, q))       joined_dequantized
    quantize(dequantize(q))              =  q                              quantized_again

All are exact; the last for one and the same s, which is a positive normal number, and z.

Good for: ONNX models in QDQ form. Copies move a quarter of the bytes, and pairs that have come
together vanish.
"""

from __future__ import annotations

from tvm_tensat.egraph.rule import ANY, EXACT, Term, refuse, rule
from tvm_tensat.rules.common import need_inputs
from tvm_tensat.rules.operators import (
    concat,
    dequantize,
    permute_dims,
    quantize,
    reshape,
    strided_slice,
)

SMALLEST, LARGEST = 2.0**-100, 2.0**100  # of scales: products and quotients stay normal numbers


def _need_one_scale(s: Term, z: Term) -> None:
    if s.ndim or z.ndim:
        refuse("a scale for each channel")


@rule(keeps=EXACT, dtypes=ANY)
def permuted_dequantized(q, s, z):
    """A permutation of dequantized numbers dequantizes the permuted."""
    real = dequantize(q, s, z)
    permuted = permute_dims(real)
    yield permuted
    need_inputs(q)
    _need_one_scale(s, z)
    yield real.on(permuted.on(q), s, z, axis=0)


@rule(keeps=EXACT, dtypes=ANY)
def quantized_permutation(x, s, z):
    """Permuted numbers that are quantized are quantized and then permuted."""
    permuted = permute_dims(x)
    small = quantize(permuted, s, z)
    yield small
    need_inputs(x)
    _need_one_scale(s, z)
    yield permuted.on(small.on(x, s, z, axis=0))


@rule(keeps=EXACT, dtypes=ANY)
def reshaped_dequantized(q, s, z):
    """A reshape of dequantized numbers dequantizes the reshaped."""
    real = dequantize(q, s, z)
    reshaped = reshape(real)
    yield reshaped
    need_inputs(q)
    _need_one_scale(s, z)
    yield real.on(reshape(q, shape=reshaped.shape), s, z, axis=0)


@rule(keeps=EXACT, dtypes=ANY)
def quantized_reshape(x, s, z):
    """Reshaped numbers that are quantized are quantized and then reshaped."""
    reshaped = reshape(x)
    small = quantize(reshaped, s, z)
    yield small
    need_inputs(x)
    _need_one_scale(s, z)
    yield reshape(small.on(x, s, z, axis=0), shape=reshaped.shape)


@rule(keeps=EXACT, dtypes=ANY)
def sliced_dequantized(q, s, z):
    """A slice of dequantized numbers dequantizes the slice."""
    real = dequantize(q, s, z)
    part = strided_slice(real)
    yield part
    need_inputs(q)
    _need_one_scale(s, z)
    yield real.on(part.on(q), s, z, axis=0)


@rule(keeps=EXACT, dtypes=ANY)
def joined_dequantized(p, q, s, z):
    """Numbers dequantized by one scale and then joined can be joined first."""
    left, right = dequantize(p, s, z), dequantize(q, s, z)
    whole = concat(left, right)
    yield whole
    need_inputs(p, q)
    _need_one_scale(s, z)
    if not left.same_operator(right) or p.dtype != q.dtype:
        refuse("different dtypes or axes")
    yield left.on(concat(p, q, axis=whole.axis), s, z, axis=0)


@rule(keeps=EXACT, dtypes=ANY)
def quantized_again(q, s, z):
    """Numbers that are dequantized and quantized by one scale are what they were."""
    real = dequantize(q, s, z)
    yield quantize(real, s, z)
    if q.dtype not in ("int8", "uint8") or real.dtype != "float32":
        refuse("another dtype than 8-bit integers, or through another one than float32")
    if s.value is None or not SMALLEST <= s.value <= LARGEST or z.value is None:
        refuse("no constant scale, or one that is too small or too large")
    yield q
