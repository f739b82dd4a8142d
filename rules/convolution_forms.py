"""Convolutions in other forms: as products, of fewer pixels, in another layout.

    conv(x, w)           =  product of w and x as matrices    pointwise_convolution_as_product
    w·x, reshaped        =  conv(x, w)                        product_as_pointwise_convolution
    conv(x, w), strided  =  conv(every s-th pixel of x, w)    pointwise_convolution_of_fewer_pixels
    conv(x, w) in NCHW   =  conv(x, w) in NHWC, all permuted  convolution_with_channels_last, ...

A convolution is pointwise when its kernel is 1x1, without padding. Each element of the result is
the same sum of the same products of numbers, so all are `EXACT`.
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
def product_as_pointwise_convolution(w, x):
    """A product of a matrix and the pixels of an image is a convolution by a 1x1 kernel."""
    columns = reshape(x)
    product = matmul(w, columns)
    image = reshape(product)
    yield image
    if x.ndim != 4 or w.ndim != 2 or image.ndim != 4:
        refuse("not an image")
    batch, channels, height, width = x.shape
    if columns.ndim != 3 or columns.shape[:2] != (batch, channels):
        refuse("the channels are no axis of the product")
    if image.shape != (batch, w.shape[0], height, width):
        refuse("the result is no image of the same pixels")
    kernel = reshape(w, shape=(*w.shape, 1, 1))
    yield conv2d(x, kernel, out_dtype=product.dtype)


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


def _in_layout(conv: Term, data: str, kernel: str) -> Term:
    """Return a convolution computed in other layouts, its result permuted back."""
    if conv.data_layout != conv.out_layout:
        refuse("the result is in another layout than the input")
    x, w = conv.operands
    moved_x = permute_dims(x, axes=[conv.data_layout.index(letter) for letter in data])
    moved_w = permute_dims(w, axes=[conv.kernel_layout.index(letter) for letter in kernel])
    inner = conv.on(moved_x, moved_w, data_layout=data, kernel_layout=kernel, out_layout=data)
    return permute_dims(inner, axes=[data.index(letter) for letter in conv.out_layout])


@rule(keeps=EXACT, dtypes=ANY)
def convolution_with_channels_last(x, w):
    """A convolution can be computed with its channels last."""
    conv = conv2d(x, w)
    yield conv
    need_one_group(conv)
    if (conv.data_layout, conv.kernel_layout) != ("NCHW", "OIHW"):
        refuse("not in layout NCHW and OIHW")
    yield _in_layout(conv, "NHWC", "HWIO")


@rule(keeps=EXACT, dtypes=ANY)
def convolution_with_channels_first(x, w):
    """A convolution can be computed with its channels before the pixels."""
    conv = conv2d(x, w)
    yield conv
    need_one_group(conv)
    if (conv.data_layout, conv.kernel_layout) != ("NHWC", "HWIO"):
        refuse("not in layout NHWC and HWIO")
    yield _in_layout(conv, "NCHW", "OIHW")
