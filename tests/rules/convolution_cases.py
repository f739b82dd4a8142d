"""Geometries of convolutions that hypothesis draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.rules.harness import Operand, tensor, weight

BATCH = st.sampled_from([1, 2, "n"])
KERNELS = st.sampled_from([(1, 1), (3, 3), (1, 3), (2, 2)])
LAYOUTS = st.sampled_from([("NCHW", "OIHW"), ("NHWC", "HWIO")])
PIXELS = (6, 5)


@dataclass(frozen=True)
class Case:
    """A geometry, and the operands that fit it.

    Parameters
    ----------
    batch : int or str
    channels : int
        Of the input.
    attrs : dict
        Of the convolution, layouts and groups included.
    window : (int, int)
        Extent of the kernel.
    """

    batch: int | str
    channels: int
    attrs: dict[str, Any]
    window: tuple[int, int]

    def input(
        self, channels: int | None = None, batch: int | str | None = None, dtype: str = "float32"
    ) -> Operand:
        """Return an input, here with other channels or another batch."""
        letters = {"N": self.batch if batch is None else batch, "H": PIXELS[0], "W": PIXELS[1]}
        letters["C"] = self.channels if channels is None else channels
        return tensor(*(letters[letter] for letter in self.attrs["data_layout"]), dtype=dtype)

    def kernel(
        self,
        outputs: int = 2,
        channels: int | None = None,
        window: tuple[int, int] | None = None,
        dtype: str = "float32",
    ) -> Operand:
        """Return a kernel; ``outputs`` counts the output channels of a group."""
        groups = self.attrs["groups"]
        height, width = self.window if window is None else window
        inputs = (self.channels if channels is None else channels) // groups
        letters = {"O": outputs * groups, "I": inputs, "H": height, "W": width}
        return weight(*(letters[letter] for letter in self.attrs["kernel_layout"]), dtype=dtype)


@st.composite
def cases(
    draw: st.DrawFn,
    groups: st.SearchStrategy[int] = st.sampled_from([1, 1, 2]),  # noqa: B008
    windows: st.SearchStrategy[tuple[int, int]] = KERNELS,
    padded: bool = True,
    layouts: st.SearchStrategy[tuple[str, str]] = LAYOUTS,
) -> Case:
    """Draw a geometry. TVM lowers groups in NCHW only."""
    group_count = draw(groups)
    data, kernel = draw(layouts) if group_count == 1 else ("NCHW", "OIHW")
    attrs = {
        "groups": group_count,
        "data_layout": data,
        "kernel_layout": kernel,
        "strides": draw(st.sampled_from([(1, 1), (2, 1), (2, 2)])),
        "padding": draw(st.sampled_from([(0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 2, 1)]))
        if padded
        else (0, 0, 0, 0),
        "dilation": draw(st.sampled_from([(1, 1), (1, 1), (2, 1)])),
    }
    return Case(draw(BATCH), group_count * draw(st.integers(1, 3)), attrs, draw(windows))


@dataclass(frozen=True)
class Other:
    """A convolution in another number of dimensions, or a transposed one, channels first.

    Parameters
    ----------
    input, kernel : tuple of int
        Their shapes.
    outputs : int
        Channels of the result.
    attrs : dict
    """

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    outputs: int
    attrs: dict[str, Any]

    def vector(self, channels: int) -> tuple[int, ...]:
        """Return the shape of one number for each channel."""
        return (channels, *(1,) * (len(self.input) - 2))


@st.composite
def others(draw: st.DrawFn, name: str, groups: st.SearchStrategy[int] | None = None) -> Other:
    """Draw a geometry for ``conv1d``, ``conv3d`` or ``conv2d_transpose``."""
    rank, transposed = int(name[4]), name.endswith("transpose")
    count = draw(st.sampled_from([1, 1, 2]) if groups is None else groups)
    count = 1 if transposed else count
    inputs, outputs = count * draw(st.integers(1, 3)), count * draw(st.integers(1, 3))
    window = [draw(st.integers(1, 3)) for _ in range(rank)]
    kernel = (inputs, outputs) if transposed else (outputs, inputs // count)
    attrs = {
        "groups": count,
        "strides": [draw(st.integers(1, 2)) for _ in range(rank)],
        "padding": [draw(st.integers(0, 1)) for _ in range(2 * rank)],
    }
    pixels = [draw(st.integers(3, 5)) for _ in range(rank)]
    return Other((draw(st.integers(1, 2)), inputs, *pixels), (*kernel, *window), outputs, attrs)
