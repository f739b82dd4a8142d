"""Inception-v3 without batch norms and classifier.

The published modules (Szegedy et al., 2015) on an image of 299x299 pixels. The branches of a module
read one tensor, so that many 1x1 convolutions share an operand.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_tensat.zoo.layers import Layers, network

POOLED = (32, 64, 64)  # channels of the pooled branch of the first modules
MIDDLE = (128, 160, 160, 192)  # inner channels of the factorized modules


def build(seed: int = 0) -> tvm.IRModule:
    """Build the network: input ``image``, (1, 3, 299, 299), output (1, 2048, 8, 8)."""
    return network(seed, 299, _body)


def _body(layers: Layers, image: relax.Expr) -> relax.Expr:
    x = layers.conv(image, 32, 3, stride=2, padding=(0, 0))
    x = layers.conv(x, 32, 3, padding=(0, 0))
    x = layers.max_pool(layers.conv(x, 64, 3), padding=0)
    x = layers.conv(layers.conv(x, 80), 192, 3, padding=(0, 0))
    x = layers.max_pool(x, padding=0)
    for channels in POOLED:
        x = _wide(layers, x, channels)
    x = _reduced(layers, x)
    for channels in MIDDLE:
        x = _factorized(layers, x, channels)
    x = _reduced_again(layers, x)
    return _split(layers, _split(layers, x))


def _wide(layers: Layers, x: relax.Expr, pooled: int) -> relax.Expr:
    conv = layers.conv
    twice = conv(conv(conv(x, 64), 96, 3), 96, 3)
    average = conv(layers.average_pool(x), pooled)
    return layers.concat([conv(x, 64), conv(conv(x, 48), 64, 5), twice, average])


def _reduced(layers: Layers, x: relax.Expr) -> relax.Expr:
    conv = layers.conv
    once = conv(x, 384, 3, 2, padding=(0, 0))
    twice = conv(conv(conv(x, 64), 96, 3), 96, 3, 2, padding=(0, 0))
    return layers.concat([once, twice, layers.max_pool(x, padding=0)])


def _factorized(layers: Layers, x: relax.Expr, inside: int) -> relax.Expr:
    conv = layers.conv
    once = conv(conv(conv(x, inside), inside, (1, 7)), 192, (7, 1))
    twice = conv(conv(conv(x, inside), inside, (7, 1)), inside, (1, 7))
    twice = conv(conv(twice, inside, (7, 1)), 192, (1, 7))
    return layers.concat([conv(x, 192), once, twice, conv(layers.average_pool(x), 192)])


def _reduced_again(layers: Layers, x: relax.Expr) -> relax.Expr:
    conv = layers.conv
    once = conv(conv(x, 192), 320, 3, 2, padding=(0, 0))
    other = conv(conv(conv(x, 192), 192, (1, 7)), 192, (7, 1))
    other = conv(other, 192, 3, 2, padding=(0, 0))
    return layers.concat([once, other, layers.max_pool(x, padding=0)])


def _split(layers: Layers, x: relax.Expr) -> relax.Expr:
    """Add a module whose branches end in two convolutions side by side."""
    conv = layers.conv
    branches = [conv(x, 320)]
    for y in (conv(x, 384), conv(conv(x, 448), 384, 3)):
        branches += [conv(y, 384, (1, 3)), conv(y, 384, (3, 1))]
    return layers.concat([*branches, conv(layers.average_pool(x), 192)])
