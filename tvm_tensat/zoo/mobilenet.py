"""MobileNet-v2, whose blocks widen, convolve each channel by itself, and narrow again.

The published table of stages (Sandler et al., 2018), on an image of 224x224 pixels; without batch
norms and classifier.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_tensat.zoo.layers import Layers, channels_of, network

# How much wider inside, channels, blocks, stride of the first block.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def build(seed: int = 0) -> tvm.IRModule:
    """Build the network: input ``image``, (1, 3, 224, 224), output (1, 1280, 7, 7)."""
    return network(seed, 224, _body)


def _body(layers: Layers, image: relax.Expr) -> relax.Expr:
    x = layers.conv(image, 32, 3, stride=2)
    for wider, channels, blocks, stride in STAGES:
        for block in range(blocks):
            x = _block(layers, x, wider, channels, stride if block == 0 else 1)
    return layers.conv(x, 1280)


def _block(layers: Layers, x: relax.Expr, wider: int, channels: int, stride: int) -> relax.Expr:
    inside = channels_of(x) * wider
    y = layers.conv(x, inside) if wider > 1 else x
    y = layers.conv(y, inside, 3, stride, groups=inside)
    y = layers.conv(y, channels, relu=False)
    return layers.add(x, y) if stride == 1 and channels_of(x) == channels else y
