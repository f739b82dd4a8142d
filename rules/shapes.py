"""Reshapes, broadcasts, slices, padding and casts.

f is an elementwise function of one operand, ∘ one of two.

    reshape(reshape(x))        =   reshape(x)                  reshape_of_reshape
    reshape(x) to its shape    =   x                           identity_reshape
    expand_dims, squeeze, flatten, and a broadcast that repeats nothing, are reshapes
                                                               as_reshape, broadcast_as_reshape
    reshape(f(x))              =   f(reshape(x))               reshaped_unary
    reshape(x ∘ y)             =   reshape(x) ∘ reshape(y)     reshaped_binary, binary_of_reshaped

    broadcast(broadcast(x))    =   broadcast(x)                broadcast_of_broadcast
    broadcast(x) to its shape  =   x                           identity_broadcast
    slice(slice(x))            =   slice(x)                    slice_of_slice
    slice of everything        =   x                           whole_slice
    pad(pad(x))                =   pad(x)                      pad_of_pad
    pad by nothing             =   x                           no_pad
    cast to its dtype          =   x                           identity_cast
    cast(cast(x))              =   cast(x), first cast exact   cast_of_exact_cast

Squeeze of expand_dims and the like need no law of their own: both become reshapes. A reshape
travels towards the operands, as permutations do.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_tensat.egraph.language import DimLike
from tvm_tensat.egraph.rule import ANY, EXACT, FLOAT, Rule, Term, refuse, rule
from tvm_tensat.rules.common import (
    BINARY,
    UNARY,
    Apply,
    for_each,
    need_an_input,
    need_inputs,
)
from tvm_tensat.rules.operators import (
    astype,
    broadcast_to,
    expand_dims,
    need_same_operator,
    operator,
    pad,
    reshape,
    squeeze,
    strided_slice,
)

flatten = operator("relax.flatten")

# -- reshapes ----------------------------------------------------------------------------------


@rule(keeps=EXACT, dtypes=ANY)
def reshape_of_reshape(x):
    """Of two reshapes in a row only the second matters."""
    outer = reshape(reshape(x))
    yield outer
    yield reshape(x, shape=outer.shape)


@rule(keeps=EXACT, dtypes=ANY)
def identity_reshape(x):
    """A reshape to the same shape changes nothing."""
    yield reshape(x)
    yield x


def _as_reshape(apply: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def as_reshape(x):
        """To insert, remove or join axes is to reshape."""
        reshaped = apply(x)
        yield reshaped
        yield reshape(x, shape=reshaped.shape)

    return as_reshape


def _reshaped_unary(apply: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def reshaped_unary(x):
        """A reshape of elementwise results is the function of the reshaped operand."""
        inner = apply(x)
        outer = reshape(inner)
        yield outer
        need_inputs(x)
        yield inner.on(reshape(x, shape=outer.shape))

    return reshaped_unary


def _reshaped_binary(apply: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def reshaped_binary(x, y):
        """A reshape of elementwise results reshapes the operands, where they keep broadcasting."""
        inner = apply(x, y)
        outer = reshape(inner)
        yield outer
        need_an_input(x, y)
        yield inner.on(*(_reshaped(operand, inner.shape, outer.shape) for operand in (x, y)))

    return reshaped_binary


def _binary_of_reshaped(apply: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def binary_of_reshaped(x, y):
        """Two operands of one shape that are reshaped alike can be reshaped after they meet."""
        left, right = reshape(x), reshape(y)
        outer = apply(left, right)
        yield outer
        need_an_input(x, y)
        need_same_operator(left, right)
        if x.shape != y.shape:
            refuse("two different reshapes")
        yield left.on(outer.on(x, y))

    return binary_of_reshaped


as_reshape = for_each((expand_dims, squeeze, flatten), _as_reshape)
reshaped_unary = for_each(UNARY, _reshaped_unary)
reshaped_binary = for_each(BINARY, _reshaped_binary)
binary_of_reshaped = for_each(BINARY, _binary_of_reshaped)


def _reshaped(operand: Term, before: Sequence[DimLike], after: Sequence[DimLike]) -> Term:
    """Reshape an operand that broadcasts to `before` so that it broadcasts to `after`.

    An operand that is repeated along some axes can follow only a reshape that inserts or removes
    axes of extent one.
    """
    if operand.shape == tuple(before):
        return reshape(operand, shape=after)
    if operand.ndim == 0:
        return operand
    if _long(before) != _long(after):
        refuse("an operand is repeated along a reshaped axis")
    lifted = (1,) * (len(before) - operand.ndim) + operand.shape
    extents = iter([own for own, whole in zip(lifted, before, strict=True) if whole != 1])
    return reshape(operand, shape=[1 if whole == 1 else next(extents) for whole in after])


def _long(shape: Sequence[DimLike]) -> list[DimLike]:
    return [extent for extent in shape if extent != 1]


# -- broadcasts --------------------------------------------------------------------------------


@rule(keeps=EXACT, dtypes=ANY)
def broadcast_of_broadcast(x):
    """Of two broadcasts in a row only the second matters."""
    outer = broadcast_to(broadcast_to(x))
    yield outer
    yield broadcast_to(x, shape=outer.shape)


@rule(keeps=EXACT, dtypes=ANY)
def identity_broadcast(x):
    """A broadcast to the same shape changes nothing."""
    yield broadcast_to(x)
    yield x


@rule(keeps=EXACT, dtypes=ANY)
def broadcast_as_reshape(x):
    """A broadcast that only adds axes of extent one is a reshape."""
    broadcast = broadcast_to(x)
    yield broadcast
    if _long(x.shape) != _long(broadcast.shape):
        refuse("elements are repeated")
    yield reshape(x, shape=broadcast.shape)


# -- slices, padding, casts --------------------------------------------------------------------


@rule(keeps=EXACT, dtypes=ANY)
def slice_of_slice(x):
    """Two slices in a row are one."""
    inner = strided_slice(x)
    outer = strided_slice(inner)
    yield outer
    first, second = _slices(inner, x), _slices(outer, inner)
    found = {}
    for axis in sorted(first.keys() | second.keys()):
        begin, stride = first.get(axis, (0, 1))
        further, step = second.get(axis, (0, 1))
        start, extent = begin + further * stride, int(outer.shape[axis])
        end = start + (extent - 1) * stride * step + 1 if extent else start
        found[axis] = (start, end, stride * step)
    begins, ends, strides = zip(*found.values(), strict=True)
    yield strided_slice(x, axes=list(found), begin=begins, end=ends, strides=strides)


def _slices(term: Term, whole: Term) -> dict[int, tuple[int, int]]:
    """Return begin and stride by axis: canonical slices of known extents begin in the tensor."""
    found = {}
    for axis, begin, stride in zip(term.axes, term.begin, term.strides, strict=True):
        if stride < 1 or begin < 0 or begin > whole.shape[axis]:
            refuse("a slice that goes backwards or begins outside")
        found[axis] = (begin, stride)
    return found


@rule(keeps=EXACT, dtypes=ANY)
def whole_slice(x):
    """A slice of everything changes nothing."""
    part = strided_slice(x)
    yield part
    if any(begin != 0 for begin in part.begin) or any(stride != 1 for stride in part.strides):
        refuse("a part")
    yield x


@rule(keeps=EXACT, dtypes=ANY)
def pad_of_pad(x):
    """Two paddings with one constant are one."""
    inner = pad(x)
    outer = pad(inner)
    yield outer
    if {inner.pad_mode, outer.pad_mode} != {"constant"}:
        refuse("no constant padding")
    if (inner.pad_value, str(inner.pad_value)) != (outer.pad_value, str(outer.pad_value)):
        refuse("different constants")  # the text tells -0.0 from 0.0
    if min(inner.pad_width) < 0 or min(outer.pad_width) < 0:
        refuse("a padding that cuts")
    widths = [a + b for a, b in zip(inner.pad_width, outer.pad_width, strict=True)]
    yield outer.on(x, pad_width=widths)


@rule(keeps=EXACT, dtypes=ANY)
def no_pad(x):
    """Padding by nothing changes nothing."""
    padded = pad(x)
    yield padded
    if any(padded.pad_width):
        refuse("some padding")
    yield x


@rule(keeps=EXACT, dtypes=ANY)
def identity_cast(x):
    """A cast to the same dtype changes nothing."""
    yield astype(x)
    yield x


@rule(keeps=EXACT, dtypes=ANY)
def cast_of_exact_cast(x):
    """A cast that keeps every value makes no difference to the next cast."""
    inner = astype(x)
    outer = astype(inner)
    yield outer
    held = _HOLDS.get(x.dtype, ())
    if inner.dtype not in held:
        refuse(f"{inner.dtype} cannot hold every {x.dtype}")
    if inner.dtype in FLOAT and outer.dtype not in (x.dtype, *held, *FLOAT):
        refuse("what TVM makes of a float that is out of range is not defined")
    yield astype(x, dtype=outer.dtype)


_FLOATS = ("float32", "float64")
_HOLDS = {  # dtype -> the dtypes that represent all of its values
    "bool": ("int8", "int16", "int32", "int64", "uint8", "uint16", "float16", *_FLOATS),
    "int8": ("int16", "int32", "int64", "float16", *_FLOATS),
    "uint8": ("int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", *_FLOATS),
    "int16": ("int32", "int64", *_FLOATS),
    "uint16": ("int32", "int64", "uint32", "uint64", *_FLOATS),
    "int32": ("int64", "float64"),
    "uint32": ("int64", "uint64", "float64"),
    "float16": _FLOATS,
    "bfloat16": _FLOATS,
    "float32": ("float64",),
}
