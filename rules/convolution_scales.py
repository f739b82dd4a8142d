"""Convolutions with scales and shifts of channels, which move into the kernel.

    conv(x, w) s  =  conv(x, w s)          scaled_convolution, one factor for each output channel
    conv(x s, w)  =  conv(x, w s)          convolution_of_scaled_channels, for each input channel
    conv(x + t, w)  =  conv(x, w) + Σ w t  convolution_of_shifted_channels, without padding

s and t may be one number each. The first two hold in one to three dimensions, and for transposed
convolutions in one group. They round differently, so all are `REAL`.
"""

from __future__ import annotations

from tvm_tensat.egraph.rule import REAL, Rule, refuse, rule
from tvm_tensat.rules.common import Apply, for_each
from tvm_tensat.rules.convolutions import axis_of, need_one_group
from tvm_tensat.rules.operators import (
    add,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    moved,
    multiply,
    reshape,
    sum_,
)


def _scaled_convolution(convolve: Apply) -> Rule:
    @rule(keeps=REAL)
    def scaled_convolution(x, w, s):
        """A scale of the output channels of a convolution scales the filters of its kernel."""
        conv = convolve(x, w)
        scaled = multiply(conv, s)
        yield scaled
        if scaled.shape != conv.shape:
            refuse("the scale broadcasts what it scales")
        channel = axis_of(conv, "out_layout", "C")
        filters = axis_of(conv, "kernel_layout", "O")
        factor = moved(s, conv.ndim, channel, w.ndim, filters)
        if factor.ndim and convolve is conv2d_transpose:  # its kernel has the filters of one group
            need_one_group(conv)
        yield conv.on(x, multiply(w, factor))

    return scaled_convolution


def _convolution_of_scaled_channels(convolve: Apply) -> Rule:
    @rule(keeps=REAL)
    def convolution_of_scaled_channels(x, s, w):
        """A scale of the input channels of a convolution scales those of its kernel."""
        scaled = multiply(x, s)
        conv = convolve(scaled, w)
        yield conv
        if scaled.shape != x.shape:
            refuse("the scale broadcasts what it scales")
        channel = axis_of(conv, "data_layout", "C")
        inputs = axis_of(conv, "kernel_layout", "I")
        factor = moved(s, x.ndim, channel, w.ndim, inputs)
        if factor.ndim:
            need_one_group(conv)
        yield conv.on(x, multiply(w, factor))

    return convolution_of_scaled_channels


CONVOLUTIONS: tuple[Apply, ...] = (conv1d, conv2d, conv3d, conv2d_transpose)
scaled_convolution = for_each(CONVOLUTIONS, _scaled_convolution)
convolution_of_scaled_channels = for_each(CONVOLUTIONS, _convolution_of_scaled_channels)


@rule(keeps=REAL)
def convolution_of_shifted_channels(x, t, w):
    """A shift of the input channels of an unpadded convolution shifts its output channels."""
    shifted = add(x, t)
    conv = conv2d(shifted, w)
    yield conv
    need_one_group(conv)
    if any(conv.padding):
        refuse("the padding is not shifted")
    if shifted.shape != x.shape:
        refuse("the shift broadcasts what it shifts")
    if not (t.is_weight and w.is_weight):
        refuse("the shift of the result is not known at compile time")
    channel = axis_of(conv, "data_layout", "C")
    filters = axis_of(conv, "kernel_layout", "O")
    inputs = axis_of(conv, "kernel_layout", "I")
    terms = multiply(w, moved(t, x.ndim, channel, w.ndim, inputs))
    total = sum_(terms, axis=[axis for axis in range(w.ndim) if axis != filters])
    out = axis_of(conv, "out_layout", "C")
    shape = tuple(w.shape[filters] if axis == out else 1 for axis in range(conv.ndim))
    yield add(conv.on(x, w), reshape(total, shape=shape))
