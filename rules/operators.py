"""The operators that rules speak of, under Relax's own names.

In a term that is sought, an attribute left out matches any value; in a term that is built, it takes
TVM's default.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm_tensat.egraph.rule import Term


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
exp = operator("relax.exp")
tanh = operator("relax.tanh")
sigmoid = operator("relax.sigmoid")
relu = operator("relax.nn.relu")
gelu = operator("relax.nn.gelu")
silu = operator("relax.nn.silu")

matmul = operator("relax.matmul")
conv2d = operator("relax.nn.conv2d")
batch_norm = operator("relax.nn.batch_norm")
dropout = operator("relax.nn.dropout")
max_pool2d = operator("relax.nn.max_pool2d")
avg_pool2d = operator("relax.nn.avg_pool2d")
softmax = operator("relax.nn.softmax")
pad = operator("relax.nn.pad")

sum_ = operator("relax.sum")
mean = operator("relax.mean")
max_ = operator("relax.max")

permute_dims = operator("relax.permute_dims")
reshape = operator("relax.reshape")
expand_dims = operator("relax.expand_dims")
squeeze = operator("relax.squeeze")
broadcast_to = operator("relax.broadcast_to")
split = operator("relax.split")
strided_slice = operator("relax.strided_slice")
astype = operator("relax.astype")
