"""How much an operator computes and moves: the roofline's input, counted from types alone.

Counting rules
- An addition, multiplication, division, comparison or conversion is one operation; a
  multiply-add is two. exp, log, erf, tanh, powers, roots and their like are transcendentals and are
  counted apart, since one costs as much as dozens of additions.
- Operands are read once and the result is written once. What only renames bytes (reshape, a
  transpose that moves unit dimensions only, tuples) does nothing at all.
- Padding of convolutions is not subtracted: TVM's kernels compute on it too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm_tensat.egraph.language import Operator, TensorInfo, TupleInfo, TypeInfo

SYMBOLIC_EXTENT = 64
"""What a symbolic dimension counts as: an estimate needs a number where there is none."""


@dataclass(frozen=True)
class Work:
    """What one application of an operator does.

    Parameters
    ----------
    flops : float
        Arithmetic operations, of whatever dtype.
    bytes_read, bytes_written : float
        Traffic, each operand and result once.
    transcendentals : float
        Evaluations of exp, log, tanh and their like.
    """

    flops: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    transcendentals: float = 0.0


def work_of(operator: Operator, operands: Sequence[TypeInfo], result: TypeInfo) -> Work:
    """Count the work of a Relax operator applied to operands of these types.

    An operator that is not known here counts one operation for each element of its result.

    Parameters
    ----------
    operator : Operator
        Its attributes are Relax's own, in canonical form.
    operands : sequence of TensorInfo, TupleInfo or OtherInfo
        A tuple operand counts with all of its fields.
    result : TensorInfo, TupleInfo or OtherInfo
        The result's type.
    """
    name = operator.name.removeprefix("relax.").removeprefix("nn.")
    if is_free(operator, operands):
        return Work()
    read, written = float(sum(map(bytes_of, operands))), float(bytes_of(result))
    if name in _READS_WHAT_IT_WRITES and operands:
        read += min(0, written - bytes_of(operands[0]))
    flops, transcendentals = _arithmetic(name, operator, operands, result)
    return Work(float(flops), read, written, float(transcendentals))


def is_free(operator: Operator, operands: Sequence[TypeInfo]) -> bool:
    """Whether this operator moves no data: it gives bytes another name or another shape."""
    name = operator.name.removeprefix("relax.").removeprefix("nn.")
    if name in _FREE:
        return True
    if name != "permute_dims" or not operands or not isinstance(operands[0], TensorInfo):
        return False
    shape = operands[0].shape
    axes = _attr(operator, "axes", None)
    if shape is None or not isinstance(axes, tuple):
        return False
    moved = [axis for axis in axes if shape[axis] != 1]
    return moved == sorted(moved)


def is_elementwise(operator: Operator) -> bool:
    """Whether each result element depends on one element of each operand (after broadcasting).

    TVM computes such work inside the kernel that makes an operand, where its rules allow.
    """
    name = operator.name.removeprefix("relax.").removeprefix("nn.")
    return name in _PER_ELEMENT and name not in ("outer", "image.resize2d", "image.resize3d")


def elements_of(info: TypeInfo) -> int:
    """Return the number of elements; 0 where the shape is unknown or the type holds none."""
    if isinstance(info, TupleInfo):
        return sum(map(elements_of, info.fields))
    return (
        math.prod(_extents(info)) if isinstance(info, TensorInfo) and info.shape is not None else 0
    )


def bytes_of(info: TypeInfo) -> int:
    """Return the size in bytes; 0 where the shape is unknown or the type holds no tensor."""
    if isinstance(info, TupleInfo):
        return sum(map(bytes_of, info.fields))
    if not isinstance(info, TensorInfo) or info.shape is None:
        return 0
    return -(-elements_of(info) * _bits(info.dtype) // 8)


def _arithmetic(
    name: str, operator: Operator, operands: Sequence[TypeInfo], result: TypeInfo
) -> tuple[float, float]:
    """Return (operations, transcendentals)."""
    tensors = _tensors(operands)
    out = elements_of(result)
    if name in _MOVES:
        return 0, 0
    if name in _PER_ELEMENT:
        operations, hard = _PER_ELEMENT[name]
        return operations * out, hard * out
    if not tensors:
        return out, 0
    if name in _REDUCTIONS:
        operations, hard_of_result = _REDUCTIONS[name]
        return operations * elements_of(tensors[0]), hard_of_result * out
    if name in _NORMALIZATIONS:
        operations, hard = _NORMALIZATIONS[name]
        return operations * elements_of(tensors[0]), hard * elements_of(tensors[0])
    if name in _COUNTED:
        return _COUNTED[name](operator, tensors, result)
    return out, 0


def _matmul(op: Operator, tensors: list[TensorInfo], result: TypeInfo) -> tuple[float, float]:
    return 2 * elements_of(result) * _extents(tensors[0])[-1], 0


def _conv(op: Operator, tensors: list[TensorInfo], result: TypeInfo) -> tuple[float, float]:
    """Each output element sums over the weights of its output channel, groups included."""
    weight = tensors[1]
    channels = _extent_along(weight, str(_attr(op, "kernel_layout", "OI")), "O")
    return 2 * elements_of(result) * elements_of(weight) / channels, 0


def _conv_transpose(
    op: Operator, tensors: list[TensorInfo], result: TypeInfo
) -> tuple[float, float]:
    """Each input element is scattered over the weights of its input channel."""
    data, weight = tensors[:2]
    channels = _extent_along(weight, str(_attr(op, "kernel_layout", "IO")), "I")
    return 2 * elements_of(data) * elements_of(weight) / channels, 0


def _pool(op: Operator, tensors: list[TensorInfo], result: TypeInfo) -> tuple[float, float]:
    window = _attr(op, "pool_size", ())
    extents = [extent for extent in window if isinstance(extent, int)] if window else []  # type: ignore[attr-defined]
    return elements_of(result) * math.prod(extents), 0


def _adaptive_pool(
    op: Operator, tensors: list[TensorInfo], result: TypeInfo
) -> tuple[float, float]:
    return elements_of(tensors[0]), 0


def _attention(op: Operator, tensors: list[TensorInfo], result: TypeInfo) -> tuple[float, float]:
    """Two batched products around a softmax; layout (batch, sequence, heads, head size)."""
    batch, queries, heads, size = _extents(tensors[0])
    keys, value_size = _extents(tensors[1])[1], _extents(tensors[2])[3]
    scores = batch * heads * queries * keys
    return 2 * scores * (size + value_size) + 5 * scores, scores


def _einsum(op: Operator, tensors: list[TensorInfo], result: TypeInfo) -> tuple[float, float]:
    """One multiply-add for each combination of the indices and each operand after the first."""
    inputs = str(_attr(op, "subscripts", "")).replace(" ", "").split("->")[0].split(",")
    if len(inputs) != len(tensors) or any("." in part for part in inputs):
        return 2 * max(map(elements_of, tensors)), 0
    extents: dict[str, int] = {}
    for part, tensor in zip(inputs, tensors, strict=True):
        extents.update(zip(part, _extents(tensor), strict=True))
    return 2 * math.prod(extents.values()) * max(1, len(tensors) - 1), 0


def _batch_norm(op: Operator, tensors: list[TensorInfo], result: TypeInfo) -> tuple[float, float]:
    """Subtract, divide, scale and shift each element; one root for each channel."""
    return 4 * elements_of(tensors[0]), elements_of(tensors[1]) if len(tensors) > 1 else 0


def _sort(op: Operator, tensors: list[TensorInfo], result: TypeInfo) -> tuple[float, float]:
    count = elements_of(tensors[0])
    return count * math.log2(max(2, count)), 0


def _tensors(operands: Sequence[TypeInfo]) -> list[TensorInfo]:
    """Return the tensors of known shape among the operands, tuples opened."""
    found: list[TensorInfo] = []
    for operand in operands:
        if isinstance(operand, TupleInfo):
            found += _tensors(operand.fields)
        elif isinstance(operand, TensorInfo) and operand.shape is not None:
            found.append(operand)
    return found


def _extents(info: TensorInfo) -> tuple[int, ...]:
    shape = info.shape or ()
    return tuple(dim if isinstance(dim, int) else SYMBOLIC_EXTENT for dim in shape)


def _extent_along(info: TensorInfo, layout: str, axis: str) -> int:
    """Return the extent of an axis that a layout may split: of O in OIHW8o, outer times inner."""
    letters = re.findall(r"[A-Za-z]", layout)
    extents = [
        extent
        for letter, extent in zip(letters, _extents(info), strict=False)
        if letter.upper() == axis
    ]
    return max(1, math.prod(extents))


def _attr(operator: Operator, name: str, default: object) -> object:
    return dict(operator.attrs).get(name, default)


def _bits(dtype: str) -> int:
    if dtype == "bool":
        return 8
    match = re.match(r"[a-z]+(\d+)(?:_[a-z0-9]+)?(?:x(\d+))?$", dtype)
    return int(match[1]) * int(match[2] or 1) if match else 32


_FREE = {
    "tuple", "get", "leaf", "weight", "scalar", "reshape", "expand_dims", "squeeze", "flatten",
    "batch_flatten", "memory.view", "builtin.stop_lift_params", "hint_on_device", "wrap_param",
    "shape_of", "size",
}  # fmt: skip
_MOVES = {
    "permute_dims", "concat", "split", "strided_slice", "dynamic_strided_slice", "take",
    "gather_elements", "gather_nd", "index_tensor", "scatter_elements", "scatter_nd",
    "slice_scatter", "tile", "repeat", "stack", "broadcast_to", "flip", "pad", "pixel_shuffle",
    "layout_transform", "full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "arange",
    "one_hot", "dropout", "collapse_sum_to", "meshgrid", "eye", "tril", "triu",
    "reverse_sequence", "to_vdevice", "index_put", "eye_like", "collapse_sum_like",
}  # fmt: skip
_READS_WHAT_IT_WRITES = {
    "strided_slice", "dynamic_strided_slice", "split", "take", "gather_elements", "gather_nd",
    "index_tensor",
}  # fmt: skip

_ONE = (1.0, 0.0)
_HARD = (0.0, 1.0)
_PER_ELEMENT: dict[str, tuple[float, float]] = {
    **dict.fromkeys(
        ["add", "subtract", "multiply", "divide", "maximum", "minimum", "equal", "not_equal",
         "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
         "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift",
         "negative", "abs", "relu", "round", "floor", "ceil", "trunc", "sign", "square", "astype",
         "logical_not", "bitwise_not", "isnan", "isinf", "isfinite", "where", "outer"],
        _ONE,
    ),
    **dict.fromkeys(
        ["exp", "log", "sin", "cos", "tan", "sinh", "cosh",
         "tanh", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "erf", "sqrt",
         "rsqrt", "power"],
        _HARD,
    ),
    "clip": (2, 0), "ewise_fma": (2, 0), "leakyrelu": (2, 0), "prelu": (2, 0),
    "floor_divide": (2, 0),
        "mod": (2, 0), "floor_mod": (2, 0), "sigmoid": (2, 1), "silu": (3, 1), "gelu": (5, 1),
    "gelu_tanh": (8, 1), "softplus": (2, 2), "selu": (4, 1), "log_add_exp": (3, 2),
    "image.resize2d": (8, 0),
    "image.resize3d": (16, 0), "quantize": (3, 0), "dequantize": (2, 0),
}  # fmt: skip
"""(operations, transcendentals) for each element of the result."""

_REDUCTIONS: dict[str, tuple[float, float]] = {
    "sum": (1, 0), "mean": (1, 0), "max": (1, 0), "min": (1, 0), "prod": (1, 0), "argmax": (1, 0),
    "argmin": (1, 0), "variance": (4, 0), "std": (4, 1), "cumsum": (1, 0), "cumprod": (1, 0),
    "median": (8, 0),
}  # fmt: skip
"""Operations for each element of the operand, transcendentals for each of the result."""

_NORMALIZATIONS: dict[str, tuple[float, float]] = {
    "softmax": (4, 1), "log_softmax": (4, 1), "layer_norm": (8, 0), "group_norm": (8, 0),
    "instance_norm": (8, 0), "rms_norm": (4, 0), "cross_entropy_with_logits": (2, 0),
    "nll_loss": (2, 0),
}  # fmt: skip
"""(operations, transcendentals) for each element of the first operand."""

_Counter = Callable[[Operator, list[TensorInfo], TypeInfo], tuple[float, float]]
_COUNTED: dict[str, _Counter] = {
    "matmul": _matmul, "einsum": _einsum, "attention": _attention, "attention_bias": _attention,
    "batch_norm": _batch_norm, "sort": _sort, "argsort": _sort, "topk": _sort,
    **{f"conv{rank}d": _conv for rank in (1, 2, 3)},
    **{f"conv{rank}d_transpose": _conv_transpose for rank in (1, 2, 3)},
    **{f"{kind}_pool{rank}d": _pool for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{f"adaptive_avg_pool{rank}d": _adaptive_pool for rank in (1, 2, 3)},
}  # fmt: skip
