"""Convolutions in other forms: as products, of fewer pixels.

    conv(x, w)           =  product of w and x as matrices    pointwise_convolution_as_product
    conv(x, w), strided  =  conv(every s-th pixel of x, w)    pointwise_convolution_of_fewer_pixels

A convolution is pointwise when its kernel is 1x1, without padding. Each element of the result is
the same sum of the same products of numbers, so all are `EXACT`.

There is no way back from products to convolutions: it would only multiply the forms of what these
rules made. Nor is there another layout: NCHW = NHWC between permutations gives every elementwise
operator a second form, of which extraction could prove nothing (squeezenet: 3,551 e-nodes with a
gap of 53% after 60 s, 1,141 without, optimal in 0.05 s). Layouts need rules of their own that try
them only where a kernel gains.
"""

from __future__ import annotations

from math import prod

from tvm_tensat.egraph.rule import ANY, EXACT, Term, refuse, rule
from tvm_tensat.rules.convolutions import axis_of, need_one_group
from tvm_tensat.rules.operators import conv2d, matmul, permute_dims, reshape, strided_slice


def _need_pointwise(conv: Term) -> None:
    kernel = conv.operands[1]
    if any(kernel.shape[axis_of(conv, "kernel_layout", letter)] != 1 for letter in "HW"):
        refuse("the kernel is not 1x1")
    if any(conv.padding):
        refuse("padded")


def _as_matrix(conv: Term, order: str) -> Term:
    """Return the kernel of a pointwise convolution as a matrix, axes ordered as ``"OI"`` says."""
    kernel = conv.operands[1]
    layout = conv.kernel_layout
    places = [layout.index(letter) for letter in order]
    rest = [axis for axis in range(kernel.ndim) if axis not in places]
    axes = [*places, *rest]
    ordered = kernel if axes == sorted(axes) else permute_dims(kernel, axes=axes)
    return reshape(ordered, shape=tuple(kernel.shape[place] for place in places))


@rule(keeps=EXACT, dtypes=ANY)
def pointwise_convolution_as_product(x, w):
    """A convolution by a 1x1 kernel is a product of matrices."""
    conv = conv2d(x, w)
    yield conv
    _need_pointwise(conv)
    need_one_group(conv)
    if conv.strides != (1, 1) or conv.data_layout != conv.out_layout:
        refuse("strided, or the result is in another layout")
    if conv.data_layout == "NCHW":
        batch, channels, *pixels = x.sizes
        columns = reshape(x, shape=(batch, channels, prod(pixels)))
        product = matmul(_as_matrix(conv, "OI"), columns, out_dtype=conv.dtype)
    elif conv.data_layout == "NHWC":
        *pixels, channels = x.sizes
        rows = reshape(x, shape=(prod(pixels), channels))
        product = matmul(rows, _as_matrix(conv, "IO"), out_dtype=conv.dtype)
    else:
        refuse(f"layout {conv.data_layout}")
    yield reshape(product, shape=conv.shape)


@rule(keeps=EXACT, dtypes=ANY)
def pointwise_convolution_of_fewer_pixels(x, w):
    """A strided convolution by a 1x1 kernel sees only some pixels."""
    conv = conv2d(x, w)
    yield conv
    _need_pointwise(conv)
    if conv.strides == (1, 1):
        refuse("not strided")
    axes = [axis_of(conv, "data_layout", letter) for letter in "HW"]
    ends = [int(x.shape[axis]) for axis in axes]
    seen = strided_slice(x, axes=axes, begin=[0, 0], end=ends, strides=list(conv.strides))
    yield conv.on(seen, w, strides=(1, 1))
