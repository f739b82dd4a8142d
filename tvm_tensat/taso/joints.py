"""Where a tensor was joined: TASO's split takes no place, it undoes the concatenation before it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tvm_tensat.egraph.language import Refusal
from tvm_tensat.egraph.rule import Term, refuse

_ELEMENTWISE = ("add", "multiply", "nn.relu", "tanh", "sigmoid")
_KEEP_TWO_AXES = ("nn.max_pool2d", "nn.avg_pool2d", "nn.pad")


def joint(term: Term, axis: int, known: Mapping[tuple[int, int], int]) -> int:
    """Return where the last concatenation along an axis put the second part.

    Parameters
    ----------
    term : Term
        With its type.
    known : mapping of (int, int) to int
        Joints that were seen, by the identity of a term and the axis.

    Raises
    ------
    Refusal
        When nothing was joined along that axis.
    """
    if (id(term), axis) in known:
        return known[id(term), axis]
    for below, own in _sources(term, axis):
        with suppress(Refusal):
            return joint(below, own, known)
    if term.name == "relax.concat" and term.axis == axis:
        fields = term.operands[0].operands
        if len(fields) == 2:
            return fields[0].sizes[axis]
    refuse(f"nothing says where to split along axis {axis}")


def _sources(term: Term, axis: int) -> list[tuple[Term, int]]:
    """Return the operands, with their axes, from which a joint along an axis comes."""
    name = term.name.removeprefix("relax.")
    if name == "concat" and term.axis != axis:
        return [(field, axis) for field in term.operands[0].operands]
    if name in _ELEMENTWISE:
        return [(operand, axis) for operand in term.operands]
    if name in _KEEP_TWO_AXES and axis < 2:
        return [(term.operands[0], axis)]
    if name == "matmul":
        return [(term.operands[1 if axis == term.ndim - 1 else 0], axis)]
    if name == "nn.conv2d" and axis < 2:
        return [(term.operands[axis], 0)]
    if name == "permute_dims":
        return [(term.operands[0], term.axes[axis])]
    return []
