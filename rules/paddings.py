"""Zeros around an image, which convolutions and pools can add themselves.

    conv(pad(x), w)     =  conv(x, w) with padding    padded_convolution, in one to three dimensions
    avg_pool(pad(x))    =  avg_pool(x) with padding   padded_average_pool, zeros counted

Each window sees the same numbers, so both are `EXACT`.

Good for: models from frameworks whose convolutions pad as "same" (TensorFlow, ONNX with auto_pad):
a copy of the image less, in one kernel less.
"""

from __future__ import annotations

import math

from tvm_tensat.egraph.rule import EXACT, FLOAT, INT, Rule, Term, refuse, rule
from tvm_tensat.rules.common import Apply, for_each
from tvm_tensat.rules.operators import avg_pool2d, conv1d, conv2d, conv3d, pad


def _widths(padded: Term, layout: str) -> tuple[list[int], list[int]]:
    """Return the zeros before and after on each axis of the pixels."""
    if padded.pad_mode != "constant" or padded.pad_value != 0:
        refuse("not padded with zeros")
    if math.copysign(1.0, padded.pad_value) < 0:
        refuse("padded with -0")
    if not layout.isalpha() or not layout.isupper():
        refuse(f"layout {layout} has inner blocks")
    before, after = [], []
    for axis, letter in enumerate(layout):
        pair = padded.pad_width[2 * axis : 2 * axis + 2]
        if min(pair) < 0 or (letter in "NC" and any(pair)):
            refuse("batches or channels are padded, or a padding cuts")
        if letter not in "NC":
            before.append(pair[0])
            after.append(pair[1])
    return before, after


def _wider(own: tuple[int, ...], before: list[int], after: list[int]) -> list[int]:
    return [a + b for a, b in zip(own, [*before, *after], strict=True)]


def _padded_convolution(convolve: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=FLOAT + INT)
    def padded_convolution(x, w):
        """A convolution of an image with zeros around it pads the image itself."""
        padded = pad(x)
        conv = convolve(padded, w)
        yield conv
        widths = _widths(padded, conv.data_layout)
        yield conv.on(x, w, padding=_wider(conv.padding, *widths))

    return padded_convolution


padded_convolution = for_each((conv1d, conv2d, conv3d), _padded_convolution)


@rule(keeps=EXACT)
def padded_average_pool(x):
    """An average pool of an image with zeros around it pads the image itself and counts them."""
    padded = pad(x)
    pool = avg_pool2d(padded)
    yield pool
    if pool.ceil_mode or (any(pool.padding) and not pool.count_include_pad):
        refuse("windows that leave the image, or zeros that are not counted")
    widths = _widths(padded, pool.layout)
    yield pool.on(x, padding=_wider(pool.padding, *widths), count_include_pad=True)
