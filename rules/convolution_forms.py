"""Convolutions in other forms: as products, of fewer pixels.

    conv(x, w)           =  product of w and x as matrices    pointwise_convolution_as_product
    conv(x, w), strided  =  conv(every s-th pixel of x, w)    pointwise_convolution_of_fewer_pixels
    conv_transpose(x, w) =  each pixel's product with w       transposed_convolution_as_product
    conv_transpose(x, w) =  conv(x, w flipped)                transposed_convolution_as_convolution

A convolution is pointwise when its kernel is 1x1, without padding (1 or 1x1x1 in other dimensions).
Each element of the result is the same sum of the same products of numbers, so these are `EXACT`.

A transposed convolution is one with zeros between the pixels; it is a product where its windows
touch and do not overlap (the 2x2 kernels of stride 2 of U-Net: 0.94 -> 0.33 ms for 64 to 32
channels of 28 x 28), and a convolution where its stride is 1. TVM multiplies the zeros too, and an
infinite weight times zero is NaN, so these are `REAL`.

There is no way back from products to convolutions: it would only multiply the forms of what these
rules made. Nor is there another layout: NCHW = NHWC between permutations gives every elementwise
operator a second form, of which extraction could prove nothing (squeezenet: 3,551 e-nodes with a
gap of 53% after 60 s, 1,141 without, optimal in 0.05 s). Layouts need rules of their own that try
them only where a kernel gains.
"""

from __future__ import annotations

from math import prod

from tvm_tensat.egraph.rule import ANY, EXACT, REAL, Rule, Term, refuse, rule
from tvm_tensat.rules.common import Apply, for_each
from tvm_tensat.rules.convolutions import axis_of, need_one_group
from tvm_tensat.rules.operators import (
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    flip,
    matmul,
    permute_dims,
    reshape,
    strided_slice,
)


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


def _pointwise_convolution(convolve: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def pointwise_convolution(x, w):
        """A convolution in one or three dimensions by one point is a product of matrices."""
        conv = convolve(x, w)
        yield conv
        need_one_group(conv)
        if set(w.sizes[2:]) != {1} or set(conv.strides) != {1} or any(conv.padding):
            refuse("the kernel is more than one point, strided or padded")
        if not conv.data_layout == conv.out_layout in ("NCW", "NCDHW"):
            refuse(f"layout {conv.data_layout}")
        if conv.kernel_layout not in ("OIW", "OIDHW"):
            refuse(f"kernel layout {conv.kernel_layout}")
        batch, channels, *pixels = x.sizes
        columns = x if x.ndim == 3 else reshape(x, shape=(batch, channels, prod(pixels)))
        product = matmul(reshape(w, shape=w.shape[:2]), columns, out_dtype=conv.dtype)
        yield product if x.ndim == 3 else reshape(product, shape=conv.shape)

    return pointwise_convolution


pointwise_convolution = for_each((conv1d, conv3d), _pointwise_convolution)

# -- transposed convolutions -----------------------------------------------------------------------


def _need_plain(conv: Term) -> None:
    need_one_group(conv)
    if not conv.data_layout == conv.out_layout == "NCHW" or conv.kernel_layout != "IOHW":
        refuse("layouts other than NCHW and IOHW")
    if any(conv.output_padding):
        refuse("padded after the convolution")


@rule(keeps=REAL)
def transposed_convolution_as_product(x, w):
    """A transposed convolution whose windows touch is a product that is spread over pixels."""
    conv = conv2d_transpose(x, w)
    yield conv
    _need_plain(conv)
    inputs, outputs, *window = w.sizes
    if conv.strides != tuple(window) or any(conv.padding) or conv.dilation != (1, 1):
        refuse("the windows overlap or leave gaps, or the result is cut")
    batch, _, *pixels = x.sizes
    filters = permute_dims(reshape(w, shape=(inputs, outputs * prod(window))), axes=[1, 0])
    columns = reshape(x, shape=(batch, inputs, prod(pixels)))
    product = matmul(filters, columns, out_dtype=conv.dtype)
    apart = reshape(product, shape=(batch, outputs, *window, *pixels))
    yield reshape(permute_dims(apart, axes=[0, 1, 4, 2, 5, 3]), shape=conv.shape)


@rule(keeps=REAL)
def transposed_convolution_as_convolution(x, w):
    """A transposed convolution of stride 1 is a convolution by the kernel turned around."""
    conv = conv2d_transpose(x, w)
    yield conv
    _need_plain(conv)
    reach = [d * (extent - 1) for d, extent in zip(conv.dilation, w.sizes[2:], strict=True)]
    padding = [most - own for most, own in zip(reach * 2, conv.padding, strict=True)]
    if conv.strides != (1, 1) or min(padding) < 0:
        refuse("strided, or cut by more than a window")
    turned = flip(flip(permute_dims(w, axes=[1, 0, 2, 3]), axis=2), axis=3)
    yield conv2d(x, turned, padding=padding, dilation=conv.dilation, out_dtype=conv.dtype)
