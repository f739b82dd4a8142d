"""What convolutions and pools might be applied to: see `tvm_tensat.verify.proposals`."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_tensat.verify.mood import Known, Mood, Proposal, Shape, Size, Sketch

_LAYOUTS = (("NCHW", "OIHW"), ("NCHW", "OIHW"), ("NHWC", "HWIO"))


def _layouts(mood: Mood) -> tuple[str, str]:
    """Draw layouts of images and kernels, the rule's where it gives them."""
    data = mood.given.get("data_layout", mood.given.get("layout"))
    fitting = [pair for pair in _LAYOUTS if data in (None, pair[0])] or list(_LAYOUTS)
    layouts: tuple[str, str] = mood.again("layouts", lambda: mood.random.choice(fitting), share=1.0)
    return layouts


def _place(letters: str, sizes: dict[str, Size]) -> Shape:
    return tuple(sizes[letter] for letter in letters)


def _image(mood: Mood, layout: str, channels: Size) -> Shape:
    pixels = mood.again("pixels", lambda: mood.random.choice(((5, 4), (4, 4), (6, 5))), share=1.0)
    batch = mood.again("images", lambda: mood.random.choice((1, 2, mood.extent())))
    return _place(layout, {"N": batch, "C": channels, "H": pixels[0], "W": pixels[1]})


def conv2d(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    """Draw an image and a kernel that fit."""
    pick = mood.random.choice
    data, kernel_layout = _layouts(mood)
    groups = 1
    if data == "NCHW":
        groups = mood.again("groups", lambda: pick((1, 1, 1, 2, 4)), share=0.97)
    windows = ((1, 1), (1, 1), (3, 3), (1, 3), (2, 2))
    window = mood.again("window", lambda: pick(windows), share=0.75)
    attrs = {
        "data_layout": data,
        "kernel_layout": kernel_layout,
        "groups": groups,
        "strides": mood.again("strides", lambda: pick(((1, 1), (1, 1), (2, 2), (2, 1))), 0.95),
        "padding": _padding(window, mood),
        "dilation": mood.again("dilation", lambda: pick(((1, 1), (1, 1), (1, 1), (2, 1))), 0.95),
    }
    x, w = operands
    dtype = next((k.dtype for k in operands if isinstance(k, Sketch)), mood.dtype)
    if isinstance(x, Sketch) and len(x.shape) == 4:
        channels = x.shape[data.index("C")]
    elif isinstance(w, Sketch) and len(w.shape) == 4:
        inputs = w.shape[kernel_layout.index("I")]
        channels = inputs * groups if isinstance(inputs, int) else inputs
    else:
        channels = groups * mood.again("inputs", lambda: mood.random.choice((1, 2, 3)))
    if not isinstance(x, Sketch):
        x = Sketch(_image(mood, data, channels), dtype)
    if not isinstance(w, Sketch):
        inputs = channels // groups if isinstance(channels, int) else channels
        outputs = groups * mood.again("outputs", lambda: pick((1, 2, 3)), share=0.7)
        extents = {"O": outputs, "I": inputs, "H": window[0], "W": window[1]}
        w = Sketch(_place(kernel_layout, extents), dtype)
    return [x, w], attrs


def _padding(window: tuple[int, int], mood: Mood) -> tuple[int, int, int, int]:
    """Draw a padding: none, one that keeps the extents, or an uneven one."""
    way = mood.again(
        "padding", lambda: mood.random.choice(("none", "none", "same", "uneven")), 0.95
    )
    rows, columns = window
    same = ((rows - 1) // 2, (columns - 1) // 2, rows // 2, columns // 2)
    ways: dict[str, tuple[int, int, int, int]] = {"none": (0, 0, 0, 0), "same": same}
    return ways.get(way, (1, 0, 2, 1))


def pool2d(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    """Draw an image and a window."""
    layout = _layouts(mood)[0]
    pick = mood.random.choice
    attrs = {
        "layout": layout,
        "pool_size": mood.again("pool", lambda: pick(((2, 2), (3, 3), (1, 2)))),
        "strides": mood.again("strides", lambda: pick(((1, 1), (2, 2), (2, 1)))),
        "padding": mood.again(
            "pool_padding", lambda: pick(((0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1)))
        ),
    }
    x = operands[0]
    return [x if x is not None else Sketch(_image(mood, layout, mood.extent()), mood.dtype)], attrs
