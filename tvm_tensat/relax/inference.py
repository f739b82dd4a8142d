"""Calls from human attributes, and their types by TVM's own inference."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tvm import relax

from tvm_tensat.egraph.language import Refusal
from tvm_tensat.relax.attributes import from_plain, put_together

__all__ = ["build_call", "infer"]

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
