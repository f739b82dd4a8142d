"""Convolutions that share an input or a kernel, or whose channels are joined.

    conv(x, a), conv(x, b)       =  the halves of conv(x, [a b])     convolutions_sharing_input
    conv(x, a), conv(x, b), ...  =  the parts of conv(x, [a b ...])  convolutions_of_one_input
    conv(x, w), conv(y, w)       =  the halves of conv([x; y], w)    convolutions_sharing_kernel
    conv(x, a), conv(x, b)       =  the halves of conv(x, [a0 b])    convolutions_of_unequal_kernels
    conv(x, a) + conv(x, b)      =  conv(x, a0 + b)                  sum_of_convolutions_of_one_...
    conv(x, w) + conv(y, w)      =  conv(x + y, w)                   sum_of_convolutions_by_one_...
    conv(x, a) + conv(y, b)      =  conv([x y], [a b])               sum_of_convolutions, ...
    conv(x, w) in g groups       =  conv(x, w0) in g/2 groups        convolution_in_half_the_groups

[a b] joins kernels along their output channels where they share an input and along their input
channels where the inputs are joined; [x; y] joins batches, [x y] channels; a0 is a with zeros
around it, as large as b. Axes are found by the letters of the layouts; layouts with inner blocks
(NCHW16c) are refused.

Joining is `EXACT`. Zeros around a kernel are not: they turn an infinity next to the window into
NaN, and -0 into 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod

from tvm_tensat.egraph.rule import ANY, EXACT, REAL, Term, group_rule, multi_rule, refuse, rule
from tvm_tensat.rules.operators import (
    add,
    concat,
    conv2d,
    cut,
    need_same_operator,
    pad,
    reshape,
    without,
)


def axis_of(conv: Term, layout: str, letter: str) -> int:
    """Return the position of an axis by its letter in one of a convolution's layouts."""
    text = getattr(conv, layout)
    if not text.isalpha() or not text.isupper():
        refuse(f"layout {text} has inner blocks")
    return text.index(letter)


def need_one_group(conv: Term) -> None:
    """Refuse grouped convolutions: their input channels are not all seen by each output."""
    if conv.groups != 1:
        refuse("grouped convolution")


# -- the same input or the same kernel -------------------------------------------------------------


def _but_outputs(conv: Term) -> Hashable:
    need_one_group(conv)
    return without(conv.operands[1].shape, axis_of(conv, "kernel_layout", "O"))


def _merged(convs: Sequence[Term], kernels: Sequence[Term]) -> list[Term]:
    """Join kernels along their output channels and cut the result."""
    first = convs[0]
    outputs = axis_of(first, "kernel_layout", "O")
    wide = first.on(first.operands[0], concat(*kernels, axis=outputs))
    extents = [kernel.shape[outputs] for kernel in kernels]
    return cut(wide, extents, axis=axis_of(first, "out_layout", "C"))


@multi_rule(keeps=EXACT, dtypes=ANY)
def convolutions_sharing_input(x, a, b):
    """Two convolutions of one input are one with more output channels, cut in two."""
    p, q = conv2d(x, a), conv2d(x, b)
    yield p, q
    need_same_operator(p, q)
    if _but_outputs(p) != _but_outputs(q):
        refuse("kernels differ besides their output channels")
    yield _merged([p, q], [a, b])


@group_rule(keeps=EXACT, dtypes=ANY, alike=_but_outputs)
def convolutions_of_one_input(x, a):
    """All convolutions of one input are one with many output channels, cut in parts."""
    convs = yield conv2d(x, a)
    yield _merged(convs, [conv.operands[1] for conv in convs])


@multi_rule(keeps=EXACT, dtypes=ANY)
def convolutions_sharing_kernel(w, x, y):
    """Convolutions of two inputs by one kernel are one of a larger batch, cut in two."""
    p, q = conv2d(x, w), conv2d(y, w)
    yield p, q
    need_same_operator(p, q)
    batch = axis_of(p, "data_layout", "N")
    if without(x.shape, batch) != without(y.shape, batch):
        refuse("inputs differ besides their batch")
    both = p.on(concat(x, y, axis=batch), w)
    yield cut(both, [x.shape[batch], y.shape[batch]], axis=axis_of(p, "out_layout", "N"))


# -- kernels of different extents ------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """Where a kernel's taps lie on one axis: at ``dilation * t - before``, ``t < extent``."""

    extent: int
    before: int
    after: int
    dilation: int


def _windows(conv: Term) -> list[Window]:
    """Return the window of a convolution on each spatial axis, rows first."""
    sizes = conv.operands[1].sizes
    top, left, bottom, right = conv.padding
    found = []
    for k, (letter, before, after) in enumerate((("H", top, bottom), ("W", left, right))):
        extent = sizes[axis_of(conv, "kernel_layout", letter)]
        found.append(Window(extent, before, after, conv.dilation[k]))
    return found


def _common(p: Window, q: Window) -> Window:
    """Return the smallest window that holds the taps of both."""
    dilation = q.dilation if p.extent == 1 else p.dilation
    if any(w.extent > 1 and w.dilation != dilation for w in (p, q)):
        refuse("different dilations")
    before = max(p.before, q.before)
    if (before - p.before) % dilation or (before - q.before) % dilation:
        refuse("the taps of one kernel lie between those of the other")
    ends = [(before - w.before) // dilation + w.extent for w in (p, q)]
    afters = [w.after + (max(ends) - end) * dilation for w, end in zip((p, q), ends, strict=True)]
    return Window(max(ends), before, max(afters), dilation)


def _enlarged(conv: Term, windows: Sequence[Window]) -> Term:
    """Return the kernel of a convolution padded with zeros to these windows."""
    kernel = conv.operands[1]
    widths = [0] * (2 * kernel.ndim)
    for own, to, letter in zip(_windows(conv), windows, "HW", strict=True):
        axis = axis_of(conv, "kernel_layout", letter)
        front = (to.before - own.before) // to.dilation
        widths[2 * axis : 2 * axis + 2] = front, to.extent - own.extent - front
    return pad(kernel, pad_width=widths) if any(widths) else kernel


def _with_common_windows(p: Term, q: Term) -> tuple[Term, list[Term]]:
    """Return a convolution with windows for the kernels of both, and the kernels padded to it."""
    names = ("strides", "groups", "data_layout", "kernel_layout", "out_layout", "out_dtype")
    if any(getattr(p, name) != getattr(q, name) for name in names):
        refuse("the convolutions differ besides their windows")
    channels = axis_of(p, "out_layout", "C")
    if without(p.shape, channels) != without(q.shape, channels):
        refuse("the results differ in extent")
    windows = [_common(*pair) for pair in zip(_windows(p), _windows(q), strict=True)]
    rows, columns = windows
    kernels = [_enlarged(p, windows), _enlarged(q, windows)]
    conv = p.on(
        p.operands[0],
        kernels[0],
        padding=(rows.before, columns.before, rows.after, columns.after),
        dilation=(rows.dilation, columns.dilation),
    )
    return conv, kernels


@multi_rule(keeps=REAL)
def convolutions_of_unequal_kernels(x, a, b):
    """A kernel padded with zeros can join a larger one of the same input."""
    p, q = conv2d(x, a), conv2d(x, b)
    yield p, q
    need_one_group(p)
    if p.same_operator(q) and _but_outputs(p) == _but_outputs(q):
        refuse("the kernels can be joined as they are")
    conv, kernels = _with_common_windows(p, q)
    yield _merged([conv], kernels)


# -- sums ------------------------------------------------------------------------------------------


@rule(keeps=REAL)
def sum_of_convolutions_of_one_input(x, a, b):
    """A sum of convolutions of one input is its convolution by the sum of the kernels."""
    p, q = conv2d(x, a), conv2d(x, b)
    yield add(p, q)
    if p.shape != q.shape:
        refuse("one summand is broadcast")
    conv, kernels = _with_common_windows(p, q)
    yield conv.on(x, add(*kernels))


@rule(keeps=REAL)
def sum_of_convolutions_by_one_kernel(x, y, w):
    """A sum of convolutions by one kernel is the convolution of the sum of the inputs."""
    p, q = conv2d(x, w), conv2d(y, w)
    yield add(p, q)
    need_same_operator(p, q)
    if x.shape != y.shape:
        refuse("inputs differ in shape")
    yield p.on(add(x, y), w)


@rule(keeps=REAL)
def sum_of_convolutions(x, y, a, b):
    """A sum of convolutions is one convolution of the joined channels."""
    p, q = conv2d(x, a), conv2d(y, b)
    yield add(p, q)
    need_same_operator(p, q)
    need_one_group(p)
    channels, inputs = axis_of(p, "data_layout", "C"), axis_of(p, "kernel_layout", "I")
    if without(x.shape, channels) != without(y.shape, channels):
        refuse("inputs differ besides their channels")
    if without(a.shape, inputs) != without(b.shape, inputs):
        refuse("kernels differ besides their input channels")
    yield p.on(concat(x, y, axis=channels), concat(a, b, axis=inputs))


@rule(keeps=REAL)
def convolution_of_joined_channels(x, y, w):
    """A convolution of joined channels is a sum of convolutions by the parts of the kernel."""
    joined = concat(x, y)
    conv = conv2d(joined, w)
    yield conv
    need_one_group(conv)
    channels = axis_of(conv, "data_layout", "C")
    if joined.axis != channels:
        refuse("not joined along the channels")
    outputs = without(conv.shape, axis_of(conv, "out_layout", "N"))
    inputs = without(joined.shape, axis_of(conv, "data_layout", "N"))
    if prod(map(int, outputs)) >= prod(map(int, inputs)):
        refuse("the sum is larger than the joined input")
    extents = [x.shape[channels], y.shape[channels]]
    a, b = cut(w, extents, axis=axis_of(conv, "kernel_layout", "I"))
    yield add(conv.on(x, a), conv.on(y, b))


# -- groups ----------------------------------------------------------------------------------------


@rule(keeps=REAL)
def convolution_in_half_the_groups(x, w):
    """Two groups of a convolution are one group whose kernel has zeros between them."""
    conv = conv2d(x, w)
    yield conv
    if conv.groups % 2 or conv.kernel_layout != "OIHW":
        refuse("an odd number of groups, or a kernel layout other than OIHW")
    outputs, inputs, *window = w.sizes
    if inputs == 1:
        refuse("depthwise convolution")
    pairs = conv.groups // 2
    by_pair = reshape(w, shape=(pairs, 2, outputs // conv.groups, inputs, *window))
    first, second = cut(by_pair, [1, 1], axis=1)
    zeros = [0] * 12
    first_wide = pad(first, pad_width=[*zeros[:6], 0, inputs, *zeros[8:]])
    second_wide = pad(second, pad_width=[*zeros[:6], inputs, 0, *zeros[8:]])
    wide = concat(first_wide, second_wide, axis=1)
    yield conv.on(x, reshape(wide, shape=(outputs, 2 * inputs, *window)), groups=pairs)
