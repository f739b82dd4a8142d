"""What convolutional networks are made of, with seeded weights."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import tvm
from tvm import relax

from tvm_tensat.zoo.weights import normal


class Layers:
    """Emits the layers of one network, whose weights are numbered in order of use.

    Images are NCHW; a window is padded by half of its size, so that stride alone decides the size
    of the result ("same" padding). Weights are He-scaled: activations keep their magnitude.

    Parameters
    ----------
    builder : relax.BlockBuilder
        In a dataflow block.
    seed : int
        Of the weights.
    """

    def __init__(self, builder: relax.BlockBuilder, seed: int) -> None:
        self.builder = builder
        self.seed = seed
        self._weights = 0

    def weight(self, shape: tuple[int, ...], inputs: int) -> relax.Expr:
        """Draw the next weight; each of its outputs sums over so many inputs."""
        self._weights += 1
        return relax.const(normal(self.seed, f"w{self._weights}", shape, (2 / inputs) ** 0.5))

    def conv(
        self,
        x: relax.Expr,
        channels: int,
        window: int | tuple[int, int] = 1,
        stride: int = 1,
        *,
        groups: int = 1,
        padding: tuple[int, int] | None = None,
        relu: bool = True,
    ) -> relax.Var:
        """Convolve to so many channels, padded to keep the size; with relu where not said else."""
        high, wide = (window, window) if isinstance(window, int) else window
        fan = channels_of(x) // groups
        weight = self.weight((channels, fan, high, wide), prod((fan, high, wide)))
        around = (high // 2, wide // 2) if padding is None else padding
        y = relax.op.nn.conv2d(x, weight, stride, around, groups=groups)
        return self.builder.emit(self.builder.emit(relax.op.nn.relu(y)) if relu else y)

    def separable(self, x: relax.Expr, channels: int, window: int, stride: int = 1) -> relax.Var:
        """Convolve each channel by itself, then mix them by a 1x1 convolution; no relu."""
        count = channels_of(x)
        each = self.conv(x, count, window, stride, groups=count, relu=False)
        return self.conv(each, channels, relu=False)

    def max_pool(
        self, x: relax.Expr, window: int = 3, stride: int = 2, padding: int | None = None
    ) -> relax.Var:
        """Take the maximum of each window."""
        around = window // 2 if padding is None else padding
        size = (window, window)
        return self.builder.emit(relax.op.nn.max_pool2d(x, size, (stride, stride), around))

    def average_pool(self, x: relax.Expr, window: int = 3, stride: int = 1) -> relax.Var:
        """Take the mean of each window; pixels beyond the border do not count."""
        size = (window, window)
        pooled = relax.op.nn.avg_pool2d(x, size, (stride, stride), window // 2)
        return self.builder.emit(pooled)

    def add(self, x: relax.Expr, y: relax.Expr) -> relax.Var:
        """Add two images."""
        return self.builder.emit(relax.op.add(x, y))

    def relu(self, x: relax.Expr) -> relax.Var:
        """Clip below zero."""
        return self.builder.emit(relax.op.nn.relu(x))

    def concat(self, images: list[relax.Expr]) -> relax.Var:
        """Join images along their channels."""
        return self.builder.emit(relax.op.concat(images, axis=1))


def channels_of(x: relax.Expr) -> int:
    """Return the number of channels of an emitted image."""
    return int(x.ty.shape[1])


def network(seed: int, size: int, body: Callable[[Layers, relax.Expr], relax.Expr]) -> tvm.IRModule:
    """Build ``main`` from one image of ``size`` x ``size`` pixels and three channels.

    Parameters
    ----------
    seed : int
    size : int
    body : callable
        Takes the `Layers` and the image, returns the result.
    """
    image = relax.Var("image", relax.TensorType((1, 3, size, size), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [image]):
        with builder.dataflow():
            output = builder.emit_output(body(Layers(builder, seed), image))
        builder.emit_func_output(output)
    return builder.get()
