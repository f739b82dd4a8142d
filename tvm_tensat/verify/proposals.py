"""What an operator might be applied to: shapes for operands still open, and attributes.

`propose` is asked for one operator at a time, operands first. It knows the types of some operands
and draws the others so that they are likely, not certain, to fit; TVM's inference judges. Within an
example choices repeat (one rank, few extents, one axis, one convolution geometry), because laws
often need two attributes or two shapes to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvm_tensat.verify.mood import Known, Mood, Proposal, Shape, Sketch
from tvm_tensat.verify.proposals_of_images import conv2d, pool2d


def propose(name: str, operands: Sequence[Known | None], mood: Mood, parent: str) -> Proposal:
    """Draw types for the open operands of an operator, and its attributes.

    Parameters
    ----------
    operands : sequence of Known or None
        None for those to draw.
    parent : str
        The operator that will be applied to this one, "" for none: fields of a tuple depend on it.

    Returns
    -------
    operands, attrs
    """
    if name == "tuple":
        return _tuple(operands, mood, parent), {}
    if name in _BINARY:
        return _broadcast(operands, mood), {}
    if name in _PROPOSALS:
        return _PROPOSALS[name](operands, mood)
    like = next((k for k in operands if isinstance(k, Sketch)), None)
    shape = mood.shape() if like is None else like.shape
    dtype = mood.dtype if like is None else like.dtype
    return [Sketch(shape, dtype) if k is None else k for k in operands], {}


# -- elementwise -----------------------------------------------------------------------------------

_BINARY = frozenset(
    f"relax.{name}"
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
)


def _broadcast(operands: Sequence[Known | None], mood: Mood) -> list[Known]:
    known = next((k for k in operands if isinstance(k, Sketch)), None)
    found = []
    for operand in operands:
        if operand is not None:
            found.append(operand)
            continue
        shape = mood.shape(mood.random.choice((mood.rank, mood.rank, 0)))
        if known is not None:
            shape = broadcasting(known.shape, mood)
        drawn = Sketch(shape, mood.dtype if known is None else known.dtype)
        known = known or drawn
        found.append(drawn)
    return found


def broadcasting(shape: Shape, mood: Mood) -> Shape:
    """Draw a shape that broadcasts against this one: it, a part of it, one axis of it, a scalar."""
    way = mood.random.random()
    if mood.plain or way < 0.3 or not shape:
        return shape
    if way < 0.8:  # varies along one axis
        axis = mood.axis_of(len(shape)) % len(shape)
        ones = tuple(extent if k == axis else 1 for k, extent in enumerate(shape))
        return ones[axis:] if mood.chance(0.5) else ones
    if way < 0.9:
        return ()
    return tuple(1 if mood.chance(0.5) else extent for extent in shape)[mood.random.randrange(2) :]


# -- tuples ----------------------------------------------------------------------------------------


def _tuple(operands: Sequence[Known | None], mood: Mood, parent: str) -> list[Known]:
    """Draw fields alike; for a concatenation they may differ along one axis."""
    like = next((k for k in operands if isinstance(k, Sketch)), None) or Sketch(
        mood.shape(max(mood.rank, 1) if parent == "relax.concat" else None), mood.dtype
    )
    found: list[Known] = []
    for operand in operands:
        if operand is not None:
            found.append(operand)
        elif parent == "relax.concat" and like.shape and mood.chance(0.6):
            axis = mood.axis_of(len(like.shape)) % len(like.shape)
            extent = mood.number()
            shape = (*like.shape[:axis], extent, *like.shape[axis + 1 :])
            found.append(Sketch(shape, like.dtype))
        else:
            found.append(like)
    return found


def _drawn_tuple(mood: Mood, parent: str) -> tuple[Sketch, ...]:
    count = mood.again("fields", lambda: mood.random.choice((1, 2, 2, 3, 4)))
    return tuple(k for k in _tuple([None] * count, mood, parent) if isinstance(k, Sketch))


def _joined(parent: str) -> Callable[[Sequence[Known | None], Mood], Proposal]:
    def joined(operands: Sequence[Known | None], mood: Mood) -> Proposal:
        parts = operands[0] if isinstance(operands[0], tuple) else _drawn_tuple(mood, parent)
        rank = min(len(part.shape) for part in parts) if parts else 1
        return [parts], {"axis": mood.axis_of(rank + (parent == "relax.stack"))}

    return joined


def _get(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    parts = operands[0] if isinstance(operands[0], tuple) else _drawn_tuple(mood, "")
    return [parts], {"index": mood.random.randrange(max(len(parts), 1))}


def _split(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood, least=1)
    axis = mood.axis_of(len(x.shape))
    extent = x.shape[axis] if -len(x.shape) <= axis < len(x.shape) else 1
    if not isinstance(extent, int) or extent < 2:
        return [x], {"axis": axis, "indices_or_sections": 1}
    if mood.chance(0.2) and extent % 2 == 0:
        return [x], {"axis": axis, "indices_or_sections": 2}
    count = mood.again("cuts", lambda: mood.random.choice((1, 1, 2, 3)))
    cuts = sorted(mood.random.sample(range(1, extent), min(count, extent - 1)))
    return [x], {"axis": axis, "indices_or_sections": cuts}


# -- products --------------------------------------------------------------------------------------


def _matmul(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    left, right = operands
    batch = mood.again("batch", lambda: mood.shape(mood.random.choice((0, 0, 1, 2))))
    dtype = next((k.dtype for k in operands if isinstance(k, Sketch)), mood.dtype)
    if not isinstance(left, Sketch):
        inner = mood.extent()
        if isinstance(right, Sketch) and right.shape:
            inner = right.shape[-2] if len(right.shape) > 1 else right.shape[0]
        rows = mood.again("rows", mood.extent, share=0.6)
        own = batch if mood.chance(0.7) else ()
        left = Sketch((inner,) if mood.chance(0.04) else (*own, rows, inner), dtype)
    if not isinstance(right, Sketch):
        inner = left.shape[-1] if left.shape else 1
        columns = mood.again("columns", mood.extent, share=0.6)
        own = left.shape[:-2] if mood.chance(0.4) else ()
        right = Sketch((inner,) if mood.chance(0.04) else (*own, inner, columns), dtype)
    return [left, right], {}


# -- one operand -----------------------------------------------------------------------------------


def _one(operands: Sequence[Known | None], mood: Mood, least: int = 0) -> Sketch:
    """Return the first operand, drawn where it is open."""
    first = operands[0]
    return (
        first
        if isinstance(first, Sketch)
        else Sketch(mood.shape(max(mood.rank, least)), mood.dtype)
    )


def _axes(least: int, **other: Callable[[Mood], Any]) -> Callable[..., Proposal]:
    """Return a proposal for an operator with a list of axes, and other attributes."""

    def axes(operands: Sequence[Known | None], mood: Mood) -> Proposal:
        x = _one(operands, mood, least=1)
        if operands[0] is None and mood.chance(0.4):  # reductions of one element
            at = mood.axis_of(len(x.shape)) % len(x.shape)
            x = Sketch((*x.shape[:at], 1, *x.shape[at + 1 :]), x.dtype)
        rank = len(x.shape)
        axis = [mood.axis_of(rank)]
        if mood.chance(0.2) and rank > 1:
            axis = mood.random.sample(range(rank), mood.random.randint(max(least, 1), rank))
        return [x], {"axis": axis} | {name: draw(mood) for name, draw in other.items()}

    return axes


def _softmax(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood, least=1)
    return [x], {"axis": mood.axis_of(len(x.shape))}


def _permute_dims(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood, least=mood.random.choice((0, 3)))
    rank = len(x.shape)
    orders = [tuple(mood.random.sample(range(rank), rank)) for _ in range(4)]
    orders.append(tuple(range(rank)))
    if rank > 1:
        orders += [(*range(rank - 2), rank - 1, rank - 2)] * 4
    return [x], {"axes": mood.again(f"axes{rank}", lambda: mood.random.choice(orders), share=0.3)}


def _reshape(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood)
    return [x], {"shape": mood.again(f"shape{x.shape}", lambda: _reshaped(x.shape, mood))}


def _reshaped(shape: Shape, mood: Mood) -> Shape:
    """Draw a shape of as many elements: the same, unit axes moved, axes joined or cut."""
    way = mood.random.random()
    if way < 0.25:
        return shape
    extents = [extent for extent in shape if extent != 1]
    if way > 0.6 and all(isinstance(extent, int) for extent in extents):
        extents = [prod(int(extent) for extent in extents)]
        if way > 0.8 and isinstance(extents[0], int) and extents[0] % 2 == 0:
            extents = [2, extents[0] // 2]
    for _ in range(mood.random.randrange(3)):
        extents.insert(mood.random.randint(0, len(extents)), 1)
    return tuple(extents)


def _broadcast_to(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    if operands[0] is None:
        whole = mood.shape()
        return [Sketch(broadcasting(whole, mood), mood.dtype)], {"shape": whole}
    x = _one(operands, mood)
    if mood.chance(0.3):
        return [x], {"shape": x.shape}
    wider = tuple(mood.extent() if extent == 1 else extent for extent in x.shape)
    return [x], {"shape": (*(1,) * mood.random.randrange(2), *wider)}


def _squeeze(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood)
    axis = mood.random.randint(0, len(x.shape))
    if operands[0] is None:
        x = Sketch((*x.shape[:axis], 1, *x.shape[axis:]), x.dtype)
    return [x], {"axis": [axis]}


def _expand_dims(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood)
    return [x], {"axis": [mood.random.randint(-1, len(x.shape))]}


def _strided_slice(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood, least=1)
    axis = mood.axis_of(len(x.shape))
    extent = x.shape[axis] if -len(x.shape) <= axis < len(x.shape) else 1
    most = extent if isinstance(extent, int) else 2
    begin = mood.random.randint(0, max(most - 1, 0)) if mood.chance(0.6) else 0
    end = mood.random.randint(begin, most) if mood.chance(0.6) else most
    stride = mood.random.choice((1, 1, 2))
    return [x], {"axes": [axis], "begin": [begin], "end": [end], "strides": [stride]}


def _pad(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood)
    widths = [mood.random.choice((0, 0, 1, 2)) for _ in range(2 * len(x.shape))]
    if mood.chance(0.3):
        widths = [0] * len(widths)
    value = mood.again("fill", lambda: mood.random.choice((0.0, 1.5, -0.0)))
    return [x], {"pad_width": widths, "pad_value": value}


def _clip(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    return [_one(operands, mood)], {"min": mood.random.choice((0, -1, 0.5)), "max": 6}


def _tile(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood, least=1)
    draw = lambda _: mood.random.choice((1, 1, 2, 3))  # noqa: E731
    return [x], {"repeats": tuple(map(draw, x.shape))}


def _repeat(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood, least=1)
    return [x], {"repeats": mood.random.choice((2, 3)), "axis": mood.axis_of(len(x.shape))}


def _astype(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood)
    others = ("float32", "float16", "float64", "int32", "int8", "int64", "bool", x.dtype, x.dtype)
    return [x], {"dtype": mood.random.choice(others)}


def _batch_norm(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood, least=2)
    axis = mood.axis_of(len(x.shape)) if mood.chance(0.5) else 1
    attrs = {
        "axis": axis,
        "training": False,
        "epsilon": 1e-3,
        "center": mood.chance(0.7),
        "scale": mood.chance(0.7),
    }
    channels = Sketch((x.shape[axis],) if -len(x.shape) <= axis < len(x.shape) else (1,), x.dtype)
    return [x, *(k or channels for k in operands[1:])], attrs


def _layer_norm(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    x = _one(operands, mood, least=1)
    last = Sketch(x.shape[-1:], x.dtype)
    return [x, *(k or last for k in operands[1:])], {"axes": [-1]}


def _filled(operands: Sequence[Known | None], mood: Mood) -> Proposal:
    attrs = {"shape": mood.shape(), "dtype": mood.dtype}
    return [Sketch((), mood.dtype) if k is None else k for k in operands], attrs


_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "variance", "std")

_PROPOSALS: dict[str, Callable[[Sequence[Known | None], Mood], Proposal]] = {
    "relax.concat": _joined("relax.concat"),
    "relax.stack": _joined("relax.stack"),
    "get": _get,
    "relax.split": _split,
    "relax.matmul": _matmul,
    "relax.nn.conv2d": conv2d,
    "relax.nn.max_pool2d": pool2d,
    "relax.nn.avg_pool2d": pool2d,
    "relax.nn.softmax": _softmax,
    "relax.nn.log_softmax": _softmax,
    "relax.permute_dims": _permute_dims,
    "relax.reshape": _reshape,
    "relax.broadcast_to": _broadcast_to,
    "relax.squeeze": _squeeze,
    "relax.expand_dims": _expand_dims,
    "relax.strided_slice": _strided_slice,
    "relax.nn.pad": _pad,
    "relax.astype": _astype,
    "relax.clip": _clip,
    "relax.tile": _tile,
    "relax.repeat": _repeat,
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.layer_norm": _layer_norm,
    "relax.full": _filled,
    "relax.zeros": _filled,
    "relax.ones": _filled,
    **{f"relax.{name}": _axes(1, keepdims=lambda mood: mood.chance(0.5)) for name in _REDUCTIONS},
}
