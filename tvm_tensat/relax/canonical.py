"""One form for attributes that mean the same.

Axes count from the front, axes that TVM fills in are filled in, `split` is by indices, result
dtypes and layouts are explicit. Rules then compare attributes with ``==``. What has no number
(unknown ranks, symbolic bounds) stays as the call had it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from tvm_tensat.egraph.language import TensorInfo, TupleInfo, TypeInfo

__all__ = ["canonical_attrs"]

Attrs = dict[str, object]
_Form = Callable[[Attrs, Sequence[TypeInfo], TypeInfo], None]

_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "variance", "std")
_AXIS_OF_RESULT = ("relax.stack", "relax.one_hot")
_AXES_THAT_ARE_SETS = {"relax.expand_dims", "relax.squeeze", *(f"relax.{r}" for r in _REDUCTIONS)}
_LEAVE_AXES = {"relax.strided_slice"}  # its own form below, because begin and end go with them


def canonical_attrs(
    name: str, attrs: Mapping[str, object], operands: Sequence[TypeInfo], result: TypeInfo
) -> Attrs:
    """Return the canonical form of a call's attributes.

    Parameters
    ----------
    name : str
        Relax's operator name.
    attrs : mapping
        Plain attributes of the call, complete.
    operands, result : TypeInfo
        Types of the operands and of the result that TVM infers for the call.
    """
    form = dict(attrs)
    _fill_dtypes(form, result)
    _fill_layouts(form)
    if name not in _LEAVE_AXES:
        _count_axes_from_the_front(name, form, operands, result)
    if name in _FORMS:
        _FORMS[name](form, operands, result)
    return form


def _tensor(operands: Sequence[TypeInfo]) -> TensorInfo | None:
    """Return the first tensor among the operands, or the first field of a leading tuple."""
    if not operands:
        return None
    first: TypeInfo = operands[0]
    if isinstance(first, TupleInfo) and first.fields:
        first = first.fields[0]
    return first if isinstance(first, TensorInfo) else None


def _shape(info: TypeInfo | None) -> tuple[object, ...] | None:
    return info.shape if isinstance(info, TensorInfo) else None


def _fill_dtypes(form: Attrs, result: TypeInfo) -> None:
    for field in ("out_dtype", "dtype"):
        if field in form and form[field] in (None, "", "void") and isinstance(result, TensorInfo):
            form[field] = result.dtype or None


def _fill_layouts(form: Attrs) -> None:
    source = form.get("data_layout", form.get("layout"))
    if "out_layout" in form and form["out_layout"] in (None, "") and source is not None:
        form["out_layout"] = source


def _from_front(axis: object, rank: int) -> object:
    return axis + rank if isinstance(axis, int) and -rank <= axis < 0 else axis


def _count_axes_from_the_front(
    name: str, form: Attrs, operands: Sequence[TypeInfo], result: TypeInfo
) -> None:
    of_result = name in _AXIS_OF_RESULT or name == "relax.expand_dims"
    shape = _shape(result if of_result else _tensor(operands))
    if shape is None:
        return
    for field in ("axis", "axes", "channel_axis"):
        value = form.get(field)
        if isinstance(value, tuple):
            axes = tuple(_from_front(axis, len(shape)) for axis in value)
            if name in _AXES_THAT_ARE_SETS and all(isinstance(axis, int) for axis in axes):
                axes = tuple(sorted(set(axes)))  # type: ignore[type-var]
            form[field] = axes
        elif field in form and isinstance(value, int):
            form[field] = _from_front(value, len(shape))


def _all_axes(form: Attrs, operands: Sequence[TypeInfo], result: TypeInfo) -> None:
    shape = _shape(_tensor(operands))
    if form.get("axis") is None and shape is not None:
        form["axis"] = tuple(range(len(shape)))


def _reversed_axes(form: Attrs, operands: Sequence[TypeInfo], result: TypeInfo) -> None:
    shape = _shape(_tensor(operands))
    if form.get("axes") is None and shape is not None:
        form["axes"] = tuple(reversed(range(len(shape))))


def _unit_axes(form: Attrs, operands: Sequence[TypeInfo], result: TypeInfo) -> None:
    shape = _shape(_tensor(operands))
    if form.get("axis") is None and shape is not None and all(isinstance(d, int) for d in shape):
        form["axis"] = tuple(i for i, d in enumerate(shape) if d == 1)


def _only_axis(form: Attrs, operands: Sequence[TypeInfo], result: TypeInfo) -> None:
    shape = _shape(_tensor(operands))
    if form.get("axis") is None and shape is not None and len(shape) == 1:
        form["axis"] = 0


def _split_indices(form: Attrs, operands: Sequence[TypeInfo], result: TypeInfo) -> None:
    """Read the indices off the result's type, which says what TVM makes of the sections."""
    axis = form["axis"]
    if not isinstance(result, TupleInfo) or not isinstance(axis, int):
        return
    shapes = [_shape(field) for field in result.fields]
    extents = [None if shape is None else shape[axis] for shape in shapes]
    numbers = [extent for extent in extents if isinstance(extent, int)]
    if len(numbers) != len(extents):
        return
    indices = tuple(accumulate(numbers[:-1]))
    given = form["indices_or_sections"]
    if isinstance(given, int) or given == indices:
        form["indices_or_sections"] = indices


def _sorted_slices(form: Attrs, operands: Sequence[TypeInfo], result: TypeInfo) -> None:
    """Sort the slices by axis and clip static bounds of forward slices into the tensor."""
    shape = _shape(_tensor(operands))
    axes, begins, ends, strides = (form.get(key) for key in ("axes", "begin", "end", "strides"))
    if strides is None and isinstance(axes, tuple):
        strides = (1,) * len(axes)
    if shape is None or not (
        isinstance(axes, tuple)
        and isinstance(begins, tuple)
        and isinstance(ends, tuple)
        and isinstance(strides, tuple)
    ):
        return
    slices = []
    inside = True
    for axis, begin, end, stride in zip(axes, begins, ends, strides, strict=True):
        front = _from_front(axis, len(shape))
        if not isinstance(front, int):
            return
        extent = shape[front]
        if all(type(v) is int for v in (begin, end, stride, extent)) and stride > 0:
            begin, end = slice(begin, end).indices(extent)[:2]  # type: ignore[arg-type]
        else:
            inside = False
        slices.append((front, begin, end, stride))
    slices.sort(key=lambda s: s[0])
    columns = list(zip(*slices, strict=True)) or [(), (), (), ()]
    for key, column in zip(("axes", "begin", "end", "strides"), columns, strict=True):
        form[key] = tuple(column)
    if inside and "assume_inbound" in form:
        form["assume_inbound"] = False


def _full_rank_repeats(form: Attrs, operands: Sequence[TypeInfo], result: TypeInfo) -> None:
    shape, repeats = _shape(_tensor(operands)), form["repeats"]
    if shape is not None and isinstance(repeats, tuple):
        form["repeats"] = (1,) * (len(shape) - len(repeats)) + repeats


def _float_bounds(form: Attrs, operands: Sequence[TypeInfo], result: TypeInfo) -> None:
    if isinstance(result, TensorInfo) and result.dtype.startswith(("float", "bfloat")):
        for key in ("min", "max"):
            if type(form.get(key)) is int:
                form[key] = float(form[key])  # type: ignore[arg-type]


_FORMS: dict[str, _Form] = {
    "relax.permute_dims": _reversed_axes,
    "relax.squeeze": _unit_axes,
    "relax.take": _only_axis,
    "relax.split": _split_indices,
    "relax.strided_slice": _sorted_slices,
    "relax.tile": _full_rank_repeats,
    "relax.clip": _float_bounds,
    **{f"relax.{reduction}": _all_axes for reduction in _REDUCTIONS},
}
