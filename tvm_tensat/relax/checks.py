"""What TVM's type inference leaves out.

TVM accepts a reshape that changes the number of elements, splits 10 rows into sections of 3, 3, 3
and 1, gives an empty slice the extent -1, multiplies (2, n) by (m, 4), and falls back to an
unknown shape where symbolic dimensions do not fit. Each is refused here: types guard the merging
of e-classes, so a type must be known to be right, not only not known to be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import tvm

from tvm_tensat.egraph.language import Dim, DimLike, Refusal, TensorInfo, TupleInfo, TypeInfo
from tvm_tensat.relax.types import expr_of, is_known

__all__ = ["check_call"]

_Shape = tuple[DimLike, ...]


def check_call(
    name: str, attrs: Mapping[str, object], operands: Sequence[TypeInfo], result: TypeInfo
) -> None:
    """Refuse a call whose type TVM inferred without grounds.

    Parameters
    ----------
    name, attrs : str, mapping
        The call taken apart, attributes plain but not canonical.
    operands, result : TypeInfo
        Types of its operands and of its result.

    Raises
    ------
    Refusal
        With the reason.
    """
    if all(is_known(info) for info in operands) and not is_known(result):
        raise Refusal(f"{name}: TVM infers no shape for {_text(operands)}")
    if not _extents_are_sizes(result):
        raise Refusal(f"{name}: negative extent in {_text([result])}")
    check = _CHECKS.get(name)
    if check is not None:
        check(name, attrs, operands, result)


def _text(infos: Sequence[TypeInfo]) -> str:
    shown = [
        f"{info.shape} {info.dtype}"
        if isinstance(info, TensorInfo)
        else f"({_text(info.fields)})"
        if isinstance(info, TupleInfo)
        else info.text
        for info in infos
    ]
    return ", ".join(shown)


def _extents_are_sizes(info: TypeInfo) -> bool:
    if isinstance(info, TupleInfo):
        return all(_extents_are_sizes(field) for field in info.fields)
    if isinstance(info, TensorInfo) and info.shape is not None:
        return all(isinstance(extent, Dim) or extent >= 0 for extent in info.shape)
    return True


def _shape(name: str, info: TypeInfo) -> _Shape:
    if isinstance(info, TensorInfo) and info.shape is not None:
        return info.shape
    raise Refusal(f"{name}: unknown shape")


def _equal(one: _Shape, other: _Shape) -> bool:
    """Whether two products of dimensions are known to be equal."""
    if all(isinstance(dim, int) for dim in (*one, *other)):
        return prod(one) == prod(other)  # type: ignore[arg-type]
    if one == other:
        return True
    start = tvm.tirx.IntImm("int64", 1)
    left, right = (prod((expr_of(dim) for dim in dims), start=start) for dims in (one, other))
    return bool(tvm.sym.Analyzer().can_prove_equal(left, right))


def _check_reshape(
    name: str, attrs: Mapping[str, object], operands: Sequence[TypeInfo], result: TypeInfo
) -> None:
    before, after = _shape(name, operands[0]), _shape(name, result)
    if not _equal(before, after):
        raise Refusal(f"{name}: {before} to {after} changes the element count")


def _check_split(
    name: str, attrs: Mapping[str, object], operands: Sequence[TypeInfo], result: TypeInfo
) -> None:
    axis, sections = attrs["axis"], attrs["indices_or_sections"]
    if not isinstance(axis, int) or not isinstance(result, TupleInfo):
        raise Refusal(f"{name}: unknown axis")
    extent = _shape(name, operands[0])[axis]
    if isinstance(sections, int):
        if isinstance(extent, Dim) or extent % sections:
            raise Refusal(f"{name}: {extent} rows do not divide into {sections} sections")
        return
    parts = [_shape(name, field)[axis] for field in result.fields]
    if isinstance(extent, int) and sum(parts) != extent:
        raise Refusal(f"{name}: indices {sections} do not cut {extent} rows into parts")


def _check_matmul(
    name: str, attrs: Mapping[str, object], operands: Sequence[TypeInfo], result: TypeInfo
) -> None:
    left, right = (_shape(name, operand) for operand in operands)
    inner = right[-2] if len(right) > 1 else right[-1]
    if not _equal((left[-1],), (inner,)):
        raise Refusal(f"{name}: {left[-1]} columns may differ from {inner} rows")


def _check_conv(
    name: str, attrs: Mapping[str, object], operands: Sequence[TypeInfo], result: TypeInfo
) -> None:
    data, kernel = (_shape(name, operand) for operand in operands)
    groups, layouts = attrs["groups"], (str(attrs["data_layout"]), str(attrs["kernel_layout"]))
    if not (layouts[0].isalpha() and layouts[1].isalpha() and isinstance(groups, int)):
        return  # packed layouts have their channels in two dimensions
    channels, inputs = data[layouts[0].index("C")], kernel[layouts[1].index("I")]
    if not _equal((channels,), (inputs, groups)):
        raise Refusal(f"{name}: {channels} channels may differ from {groups} times {inputs}")


def _check_broadcast_to(
    name: str, attrs: Mapping[str, object], operands: Sequence[TypeInfo], result: TypeInfo
) -> None:
    before, after = _shape(name, operands[0]), _shape(name, result)
    for old, new in zip(reversed(before), reversed(after), strict=False):
        if old != 1 and not _equal((old,), (new,)):
            raise Refusal(f"{name}: {old} may be neither 1 nor {new}")


def _check_squeeze(
    name: str, attrs: Mapping[str, object], operands: Sequence[TypeInfo], result: TypeInfo
) -> None:
    axes, shape = attrs["axis"], _shape(name, operands[0])
    for axis in axes if isinstance(axes, tuple) else ():
        if shape[axis] != 1:
            raise Refusal(f"{name}: {shape[axis]} may not be 1")


_CHECKS: dict[str, Callable[[str, Mapping[str, object], Sequence[TypeInfo], TypeInfo], None]] = {
    "relax.reshape": _check_reshape,
    "relax.split": _check_split,
    "relax.matmul": _check_matmul,
    "relax.nn.conv1d": _check_conv,
    "relax.nn.conv2d": _check_conv,
    "relax.nn.conv3d": _check_conv,
    "relax.broadcast_to": _check_broadcast_to,
    "relax.squeeze": _check_squeeze,
}
