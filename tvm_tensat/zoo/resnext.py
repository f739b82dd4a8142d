"""ResNeXt-50 (32 groups), as TASO and TENSAT evaluate it: without batch norms and classifier.

Four stages of 3, 4, 6 and 3 blocks with 128 to 1024 channels inside, twice as many outside, on an
image of 224x224 pixels (TENSAT's ``src/resnext50.rs``, TASO's ``examples/resnext50.py``).
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_tensat.zoo.layers import Layers, channels_of, network

STAGES = ((3, 128), (4, 256), (6, 512), (3, 1024))
GROUPS = 32


def build(seed: int = 0) -> tvm.IRModule:
    """Build the network: input ``image``, (1, 3, 224, 224), output (1, 2048, 7, 7)."""
    return network(seed, 224, _body)


def _body(layers: Layers, image: relax.Expr) -> relax.Expr:
    x = layers.max_pool(layers.conv(image, 64, 7, stride=2))
    for stage, (blocks, channels) in enumerate(STAGES):
        for block in range(blocks):
            x = _block(layers, x, channels, 2 if stage > 0 and block == 0 else 1)
    return x


def _block(layers: Layers, x: relax.Expr, channels: int, stride: int) -> relax.Expr:
    """Narrow, convolve in groups, widen, and add the input, made as wide where it is not."""
    y = layers.conv(x, channels)
    y = layers.conv(y, channels, 3, stride, groups=GROUPS)
    y = layers.conv(y, 2 * channels, relu=False)
    if stride > 1 or channels_of(x) != 2 * channels:
        x = layers.conv(x, 2 * channels, stride=stride)
    return layers.relu(layers.add(y, x))
