"""Types of calls by TVM's own inference, with the checks that TVM's inference leaves out.

TVM accepts a reshape that changes the number of elements, splits 10 rows into sections of 3, 3, 3
and 1, gives an empty slice the extent -1, and falls back to an unknown shape where symbolic
dimensions do not fit. Each is refused here: types guard the merging of e-classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import tvm
from tvm import relax

from tvm_tensat.egraph.language import Dim, Refusal, TensorInfo, TupleInfo, TypeInfo
from tvm_tensat.relax.attributes import from_plain, put_together
from tvm_tensat.relax.types import is_known, shape_values

__all__ = ["build_call", "check_call", "infer"]

_REASON_LENGTH = 200


def build_call(name: str, attrs: Mapping[str, object], operands: Sequence[Any]) -> Any:
    """Build a call from attributes that may be partial and in the forms TVM's API accepts.

    Raises
    ------
    ValueError
        When Relax has no such operator, or the operator no such attribute or operand count.
    Refusal
        When TVM rejects the attributes' values.
    """
    function = _api(name)
    if function is None:
        return _build_whole(name, attrs, operands)
    arguments = _bind(name, attrs, operands)
    try:
        return function(**arguments)
    except Refusal:
        raise
    except Exception as error:  # TVM raises a dozen kinds for values that it does not accept
        raise Refusal(f"{name}: {_reason(error)}") from error


def _build_whole(name: str, attrs: Mapping[str, object], operands: Sequence[Any]) -> Any:
    """Build a call that no function of TVM's API builds, from all of its attributes."""
    try:
        return put_together(name, attrs, operands)
    except KeyError as error:
        raise ValueError(
            f"cannot build a call of {name!r} from the attributes {sorted(attrs)}: tvm.relax.op "
            "has no function of that name, so all attributes are needed, of an operator that the "
            "model contains"
        ) from error


@cache
def _api(name: str) -> Any:
    """Return the function of `tvm.relax.op` that builds calls of this operator, if there is one."""
    if not name.startswith("relax.") or name.startswith("relax.call_"):
        return None
    found: Any = relax.op
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found if callable(found) else None


@cache
def _parameters(name: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(_api(name)).parameters


def _bind(name: str, attrs: Mapping[str, object], operands: Sequence[Any]) -> dict[str, Any]:
    parameters = _parameters(name)
    unknown = attrs.keys() - parameters.keys()
    if unknown:
        raise ValueError(
            f"{name} has no attribute {', '.join(sorted(unknown))}; it has {', '.join(parameters)}"
        )
    free = [p for p in parameters if p not in attrs]
    needed = [p for p in free if parameters[p].default is inspect.Parameter.empty]
    if len(operands) > len(free) or len(operands) < len(needed):
        raise ValueError(
            f"{name} takes {len(needed)} operands besides the given attributes "
            f"{sorted(attrs)}, not {len(operands)}"
        )
    arguments = {key: from_plain(value) for key, value in attrs.items()}
    if name == "relax.one_hot":
        for key in ("on_value", "off_value"):
            if isinstance(arguments.get(key), int | float):
                arguments[key] = relax.prim_value(arguments[key])
    arguments.update(zip(free, operands, strict=False))
    return arguments


def infer(builder: relax.BlockBuilder, name: str, call: Any) -> Any:
    """Return the call normalized, that is with its type; refuse what TVM rejects."""
    try:
        return builder.normalize(call)
    except Exception as error:  # ValueError, TypeError and tvm.error.* by operator
        raise Refusal(f"{name}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return what a diagnostic of TVM says, in one short line without the operator's dump."""
    text = " ".join(str(error).split())
    dump = text.rfind("support_level=")
    if dump >= 0:
        text = text[text.find(")", dump) + 1 :].lstrip(", ")
    return text if len(text) <= _REASON_LENGTH else text[:_REASON_LENGTH] + "..."


def check_call(
    name: str,
    attrs: Mapping[str, object],
    operands: Sequence[TypeInfo],
    result: TypeInfo,
    call: Any,
) -> None:
    """Refuse what TVM's inference should have: see this module's first lines.

    Parameters
    ----------
    name, attrs : str, mapping
        The call taken apart, attributes plain but not canonical.
    operands, result : TypeInfo
        Types of its operands and of its result.
    call : relax.Call
        The normalized call.
    """
    if all(is_known(info) for info in operands) and not is_known(result):
        raise Refusal(f"{name}: TVM infers no shape for {_text(operands)}")
    if not _extents_are_sizes(result):
        raise Refusal(f"{name}: negative extent in {_text([result])}")
    if name == "relax.reshape":
        _check_reshape(operands, call)
    if name == "relax.split":
        _check_split(attrs, operands, result)


def _text(infos: Sequence[TypeInfo]) -> str:
    shown = [f"{i.shape} {i.dtype}" if isinstance(i, TensorInfo) else str(i) for i in infos]
    return ", ".join(shown)


def _extents_are_sizes(info: TypeInfo) -> bool:
    if isinstance(info, TupleInfo):
        return all(_extents_are_sizes(field) for field in info.fields)
    if isinstance(info, TensorInfo) and info.shape is not None:
        return all(isinstance(extent, Dim) or extent >= 0 for extent in info.shape)
    return True


def _check_reshape(operands: Sequence[TypeInfo], call: Any) -> None:
    before = shape_values(call.args[0].ty)
    after = shape_values(call.ty)
    if before is None or after is None:
        raise Refusal("relax.reshape: unknown shape")
    if all(isinstance(v, tvm.tirx.IntImm) for v in (*before, *after)):
        equal = prod(int(v.value) for v in before) == prod(int(v.value) for v in after)
    else:
        one = tvm.tirx.IntImm("int64", 1)
        equal = tvm.sym.Analyzer().can_prove_equal(prod(before, start=one), prod(after, start=one))
    if not equal:
        raise Refusal(f"relax.reshape: {list(before)} to {list(after)} changes the element count")


def _check_split(
    attrs: Mapping[str, object], operands: Sequence[TypeInfo], result: TypeInfo
) -> None:
    whole, axis = operands[0], attrs["axis"]
    if not isinstance(whole, TensorInfo) or whole.shape is None or not isinstance(axis, int):
        return
    extent = whole.shape[axis]
    sections = attrs["indices_or_sections"]
    if isinstance(sections, int):
        if isinstance(extent, Dim) or extent % sections:
            raise Refusal(f"relax.split: {extent} rows do not divide into {sections} sections")
        return
    if isinstance(extent, Dim) or not isinstance(result, TupleInfo):
        return
    parts = [field.shape[axis] for field in result.fields]  # type: ignore[union-attr, index]
    if all(isinstance(part, int) for part in parts) and sum(parts) != extent:  # type: ignore[arg-type]
        raise Refusal(f"relax.split: indices {sections} do not cut {extent} rows into parts")
