"""The operators that rules speak of, under Relax's own names.

In a term that is sought, an attribute left out matches any value; in a term that is built, it takes
TVM's default. At the end come terms that several families build.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from tvm_tensat.egraph.language import DimLike
from tvm_tensat.egraph.rule import Term, refuse


def operator(name: str) -> Callable[..., Term]:
    """Return a function that applies a Relax operator to terms, attributes by keyword."""

    def apply(*operands: Term, **attrs: object) -> Term:
        return Term(name, operands, attrs)

    apply.__name__ = name.rpartition(".")[2]
    apply.__doc__ = f"Apply ``{name}``."
    return apply


def concat(*parts: Term, **attrs: object) -> Term:
    """Concatenate along ``axis``."""
    return Term("relax.concat", (tuple_(*parts),), attrs)


def stack(*parts: Term, **attrs: object) -> Term:
    """Stack along the new axis ``axis``."""
    return Term("relax.stack", (tuple_(*parts),), attrs)


def tuple_(*fields: Term) -> Term:
    """Build a tuple."""
    return Term("tuple", fields)


def get(of: Term, **attrs: object) -> Term:
    """Take a field of a tuple: in a term that is sought any field, unless ``index`` says which."""
    return Term("get", (of,), attrs)


def scalar(value: float, dtype: str) -> Term:
    """Build a constant of rank 0."""
    return Term("scalar", (), {"value": value, "dtype": dtype})


add = operator("relax.add")
subtract = operator("relax.subtract")
multiply = operator("relax.multiply")
divide = operator("relax.divide")
maximum = operator("relax.maximum")
minimum = operator("relax.minimum")
negative = operator("relax.negative")
sqrt = operator("relax.sqrt")
rsqrt = operator("relax.rsqrt")
power = operator("relax.power")
square = operator("relax.square")
exp = operator("relax.exp")
log = operator("relax.log")
erf = operator("relax.erf")
tanh = operator("relax.tanh")
sigmoid = operator("relax.sigmoid")
relu = operator("relax.nn.relu")
gelu = operator("relax.nn.gelu")
gelu_tanh = operator("relax.nn.gelu_tanh")
silu = operator("relax.nn.silu")
leakyrelu = operator("relax.nn.leakyrelu")
clip = operator("relax.clip")
greater = operator("relax.greater")
logical_not = operator("relax.logical_not")
where = operator("relax.where")

matmul = operator("relax.matmul")
einsum = operator("relax.einsum")
attention = operator("relax.nn.attention")
attention_bias = operator("relax.nn.attention_bias")
conv1d = operator("relax.nn.conv1d")
conv2d = operator("relax.nn.conv2d")
conv3d = operator("relax.nn.conv3d")
conv2d_transpose = operator("relax.nn.conv2d_transpose")
batch_norm = operator("relax.nn.batch_norm")
dropout = operator("relax.nn.dropout")
max_pool2d = operator("relax.nn.max_pool2d")
avg_pool2d = operator("relax.nn.avg_pool2d")
layer_norm = operator("relax.nn.layer_norm")
rms_norm = operator("relax.nn.rms_norm")
group_norm = operator("relax.nn.group_norm")
instance_norm = operator("relax.nn.instance_norm")
softmax = operator("relax.nn.softmax")
log_softmax = operator("relax.nn.log_softmax")
pad = operator("relax.nn.pad")

sum_ = operator("relax.sum")
mean = operator("relax.mean")
max_ = operator("relax.max")
min_ = operator("relax.min")
variance = operator("relax.variance")

permute_dims = operator("relax.permute_dims")
reshape = operator("relax.reshape")
expand_dims = operator("relax.expand_dims")
squeeze = operator("relax.squeeze")
broadcast_to = operator("relax.broadcast_to")
split = operator("relax.split")
strided_slice = operator("relax.strided_slice")
take = operator("relax.take")
tile = operator("relax.tile")
repeat = operator("relax.repeat")
flip = operator("relax.flip")
astype = operator("relax.astype")
quantize = operator("relax.quantize")
dequantize = operator("relax.dequantize")


def number_of(attribute: Any) -> float | int:
    """Return the number in an attribute: a plain one, or one that TVM wraps with its dtype."""
    plain = isinstance(attribute, (int, float))
    number: float | int = attribute if plain else attribute.value.value
    return number


def cut(whole: Term, extents: Sequence[DimLike], axis: int) -> list[Term]:
    """Split along ``axis`` into parts of these extents, which must be numbers."""
    indices = list(accumulate(int(extent) for extent in extents[:-1]))
    parts = split(whole, indices_or_sections=indices, axis=axis)
    return [parts[k] for k in range(len(extents))]


def without(shape: Sequence[DimLike], axis: int) -> tuple[DimLike, ...]:
    """Return a shape without one axis, which may be counted from the end."""
    axis %= len(shape)
    return (*shape[:axis], *shape[axis + 1 :])


def moved(s: Term, ndim: int, axis: int, new_ndim: int, new_axis: int) -> Term:
    """Reshape what broadcasts along one axis so that it broadcasts along another.

    Parameters
    ----------
    s : Term
        Broadcasts against terms of rank ``ndim`` and varies along ``axis`` only, or not at all;
        refused otherwise.
    new_ndim, new_axis : int
        What to broadcast against, and the axis along which to vary. Of one element, it comes back
        as a scalar.
    """
    if s.ndim > ndim:
        refuse("the operand raises the rank")
    own = axis - (ndim - s.ndim)
    if any(extent != 1 for k, extent in enumerate(s.shape) if k != own):
        refuse(f"varies along other axes than {axis}")
    extent = s.shape[own] if own >= 0 else 1
    shape = () if extent == 1 else (*(1,) * new_axis, extent, *(1,) * (new_ndim - new_axis - 1))
    return s if s.shape == shape else reshape(s, shape=shape)


def need_matrices(*terms: Term) -> None:
    """Refuse vectors: a product drops their axis."""
    if any(term.ndim < 2 for term in terms):
        refuse("an operand is a vector")


def need_same_operator(first: Term, *others: Term) -> None:
    """Refuse terms whose operators differ in any attribute."""
    if not all(first.same_operator(other) for other in others):
        refuse("the operators differ in an attribute")
