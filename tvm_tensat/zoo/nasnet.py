"""NasNet-A, the cells found by architecture search, as TASO and TENSAT evaluate it.

Three stages of five normal cells, with 128, 256 and 512 channels, and a reduction cell with twice
as many, on an image of 224x224 pixels; without batch norms and classifier (TENSAT's
``src/nasneta.rs``, TASO's ``examples/nasnet_a.py``). Each cell reads the results of the two cells
before it, and has ten branches, many of which share an operand.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_tensat.zoo.layers import Layers, channels_of, network

STAGES, CELLS, CHANNELS = 3, 5, 128


def build(seed: int = 0) -> tvm.IRModule:
    """Build the network: input ``image``, (1, 3, 224, 224), output (1, 5120, 7, 7)."""
    return network(seed, 224, _body)


def _body(layers: Layers, image: relax.Expr) -> relax.Expr:
    x = layers.max_pool(layers.conv(image, 64, 7, stride=2))
    for stage in range(STAGES):
        channels = CHANNELS << stage
        before, current = x, x
        for _ in range(CELLS):
            before, current = current, _normal_cell(layers, before, current, channels)
        x = _reduction_cell(layers, before, current, 2 * channels)
    return x


def _fitted(layers: Layers, before: relax.Expr, current: relax.Expr) -> relax.Expr:
    """Give the older result the channels and the size of the newer."""
    same = int(before.ty.shape[2]) == int(current.ty.shape[2])
    channels = channels_of(current)
    return layers.conv(before, channels) if same else layers.conv(before, channels, 3, stride=2)


def _normal_cell(
    layers: Layers, before: relax.Expr, current: relax.Expr, channels: int
) -> relax.Expr:
    current = layers.conv(current, channels)
    before = _fitted(layers, before, current)

    def separable(x: relax.Expr) -> relax.Expr:
        return layers.separable(x, channels, 3)

    return layers.concat(
        [
            layers.add(separable(current), current),
            layers.add(separable(before), separable(current)),
            layers.add(layers.average_pool(current), before),
            layers.add(layers.average_pool(before), layers.average_pool(before)),
            layers.add(separable(before), separable(before)),
        ]
    )


def _reduction_cell(
    layers: Layers, before: relax.Expr, current: relax.Expr, channels: int
) -> relax.Expr:
    current = layers.conv(current, channels)
    before = _fitted(layers, before, current)

    def halved(x: relax.Expr, window: int) -> relax.Expr:
        return layers.separable(x, channels, window, stride=2)

    first = layers.add(halved(before, 7), halved(current, 5))
    second = layers.add(layers.max_pool(current), halved(before, 7))
    third = layers.add(layers.average_pool(current, stride=2), halved(before, 5))
    fourth = layers.add(layers.max_pool(current), layers.separable(first, channels, 3))
    fifth = layers.add(layers.average_pool(first), second)
    return layers.concat([first, second, third, fourth, fifth])
