"""What TASO's operators mean in Relax.

Each operator is a function of its numbers (strides, padding and activation modes, axes) and of the
terms of its inputs, and is used twice: while a rule is traced it describes what to search for, and
when the rule runs it builds the target. What TASO takes for granted and Relax does not say is asked
for when types are known (`need_*`): images in NCHW, kernels in OIHW, elementwise operands of one
shape, products of one rank, one dtype everywhere.

    (ewadd x y), (ewmul x y)            the sum and product of tensors of one shape
    (smul x w)                          the product with a tensor of one element
    (matmul act x y)                    the product of matrices, and an activation
    (conv2d sh sw pad act x w)          strides, padding mode; as many groups as w's channels say
    (poolmax x kh kw sh sw pad act)     also as (poolmax kh kw sh sw pad x)
    (poolavg x kh kw sh sw pad act)     likewise; padding does not count
    (relu x), (tanh x), (sigmoid x)
    (concat axis rank x y ...)          also concat3, concat4, concat5
    (split axis x)                      where its last concatenation along that axis has its joint
    (split_0 s), (split_1 s)            the parts of a split
    (transpose x), (transpose x 1_0 s)  of a matrix, or a permutation; s says nothing about values
    (reshape x 2_3_4)
    (enlarge w v), (enlarge kh kw w)    a kernel w with zeros around, as large as v
    (merge w n)                         a kernel of grouped convolution for n times fewer groups
    (Cpool kh kw), (Iconv kh kw)        the kernels that average, and that change nothing
    (Iewmul)                            a tensor of ones

Padding modes are 0 (as much as keeps ``extent / stride`` results, the same on both sides) and 1
(none); activations 0 (none), 1 (sigmoid), 2 (relu), 3 (tanh). The meanings are those of TASO
(github.com/jiazhihao/TASO, ``src/core``), under the names of TENSAT (github.com/uwplse/tensat).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_tensat.egraph.rule import Term, refuse
from tvm_tensat.rules.operators import (
    broadcast_to,
    concat,
    conv2d,
    cut,
    pad,
    relu,
    reshape,
    scalar,
    sigmoid,
    tanh,
)

SAME, VALID = 0, 1
ACTIVATIONS: dict[int, Callable[..., Term] | None] = {0: None, 1: sigmoid, 2: relu, 3: tanh}

NCHW = {"data_layout": "NCHW", "kernel_layout": "OIHW", "out_layout": "NCHW", "dilation": (1, 1)}


class NoMeaning(Exception):
    """Why an expression has no meaning in Relax: one short line."""


def activated(mode: int, term: Term) -> Term:
    """Apply the activation that a mode stands for."""
    if mode not in ACTIVATIONS:
        raise NoMeaning(f"activation {mode}; it is one of {', '.join(map(str, ACTIVATIONS))}")
    function = ACTIVATIONS[mode]
    return term if function is None else function(term)


def padding(mode: int, image: Term, window: tuple[int, int], strides: tuple[int, int]) -> Padding:
    """Return what a padding mode is on an image in NCHW: the same before and after each axis."""
    if mode == VALID:
        return (0, 0, 0, 0)
    before = []
    for extent, size, stride in zip(image.sizes[2:], window, strides, strict=True):
        total = max(size - (stride if extent % stride == 0 else extent % stride), 0)
        each = (total + 1) // 2
        if (extent + 2 * each - size) // stride + 1 != -(-extent // stride):
            refuse("a window of even extent, of which TASO's padding gives another number")
        before.append(each)
    return (before[0], before[1], before[0], before[1])


Padding = tuple[int, int, int, int]


# -- what TASO takes for granted -------------------------------------------------------------------


def need_one_shape(*terms: Term) -> None:
    """Refuse operands that would be broadcast."""
    if len({(term.shape, term.dtype) for term in terms}) > 1:
        refuse("elementwise operands of different types")


def need_one_rank(product: Term) -> None:
    """Refuse vectors, and matrices in batches that would be broadcast."""
    left, right = product.operands
    if min(left.ndim, right.ndim) < 2 or left.shape[:-2] != right.shape[:-2]:
        refuse("a product of vectors, or of different batches")
    need_one_dtype(product)


def need_one_dtype(term: Term) -> None:
    """Refuse a result in another dtype than the operands."""
    if len({term.dtype, *(operand.dtype for operand in term.operands)}) > 1:
        refuse("dtypes differ")


def need_rank(term: Term, rank: int) -> None:
    """Refuse tensors of another rank than the rule is about."""
    if term.ndim != rank:
        refuse(f"not of rank {rank}")


# -- operators that are several in Relax -----------------------------------------------------------


def convolve(strides: tuple[int, int], mode: int, image: Term, kernel: Term) -> Term:
    """Build a convolution, as many groups as the kernel's channels say."""
    need_rank(image, 4)
    need_rank(kernel, 4)
    channels, inputs = image.sizes[1], kernel.sizes[1]
    if min(channels, inputs) == 0 or channels % inputs or kernel.sizes[0] % (channels // inputs):
        refuse("the kernel's channels do not divide the image's")
    window = kernel.sizes[2], kernel.sizes[3]
    pads = padding(mode, image, window, strides)
    conv = conv2d(image, kernel, strides=strides, padding=pads, groups=channels // inputs, **NCHW)
    need_one_dtype(conv)
    return conv


def enlarged(kernel: Term, window: Sequence[int]) -> Term:
    """Build a kernel with zeros around it, in the middle of a larger window."""
    widths = [0, 0, 0, 0]
    for size, wanted in zip(kernel.sizes[2:], window, strict=True):
        if wanted < size or (wanted - size) % 2:
            refuse("the kernel does not fit into the middle of the window")
        widths += [(wanted - size) // 2] * 2
    return pad(kernel, pad_width=widths) if any(widths) else kernel


def merged(kernel: Term, count: int, groups: int) -> Term:
    """Build a kernel for ``groups / count`` groups, with zeros between those joined."""
    outputs, inputs, *window = kernel.sizes
    if groups % count or outputs % groups:
        refuse(f"{groups} groups cannot be joined {count} by {count}")
    if count == 1:
        return kernel
    by_group = reshape(kernel, shape=(groups // count, count, outputs // groups, inputs, *window))
    parts = []
    for number, part in enumerate(cut(by_group, [1] * count, axis=1)):
        widths = [0] * 12
        widths[6:8] = number * inputs, (count - 1 - number) * inputs
        parts.append(pad(part, pad_width=widths))
    return reshape(concat(*parts, axis=1), shape=(outputs, count * inputs, *window))


def averaging_kernel(image: Term, window: tuple[int, int]) -> Term:
    """Build the kernel that averages each channel."""
    share = scalar(1.0 / (window[0] * window[1]), image.dtype)
    return broadcast_to(share, shape=(image.sizes[1], 1, *window))


def identity_kernel(image: Term, window: tuple[int, int]) -> Term:
    """Build the kernel that changes nothing, a channel a group."""
    one = broadcast_to(scalar(1.0, image.dtype), shape=(image.sizes[1], 1, 1, 1))
    return enlarged(one, window)
