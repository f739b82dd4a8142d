"""Whether a kernel gives NaN that its operator does not give.

A kernel that is fast because its schedule is broken must not be chosen. Operands are ordinary
numbers (`tvm_tensat.cost.rotation`), but some operators give NaN on ordinary numbers: acos of 1.2,
attention with every key masked. So the judge is the same operator, on the same operands, built for
this machine's CPU without any schedules. It is asked only where there is NaN, since it is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from tvm_tensat.cost.rotation import Rotation

_CAN_BE_NAN = ("float16", "float32", "float64", "bfloat16")


def gave_nan(machine: relax.VirtualMachine, arguments: Sequence[Any], rotation: Rotation) -> str:
    """Run a kernel once; say where it gave NaN that is not its operator's, or nothing.

    Parameters
    ----------
    machine : relax.VirtualMachine
        Has the rotation's functions, built with schedules.
    arguments : sequence of tvm.runtime.Tensor
        The rotation's activations, on the machine's device.
    rotation : Rotation

    Returns
    -------
    str
        Empty when all is well.
    """
    nan = _nan_places(machine["single"](*arguments))
    if not any(places.any() for places in nan):
        return ""
    plain = tvm.IRModule(
        {gv: f for gv, f in rotation.module.functions.items() if gv.name_hint != "main"}
    )
    judge = relax.VirtualMachine(tvm.compile(plain, tvm.target.Target("llvm")), tvm.cpu())
    legitimate = _nan_places(judge["single"](*map(tvm.runtime.tensor, rotation.activations)))
    wrong = [here & ~there for here, there in zip(nan, legitimate, strict=True)]
    count = sum(int(places.sum()) for places in wrong)
    if not count:
        return ""
    return f"gave NaN in {count} of {sum(places.size for places in wrong)} elements"


def _nan_places(value: Any) -> list[NDArray[np.bool_]]:
    """Return for each tensor in a result where it is NaN, tuples flattened."""
    if not isinstance(value, tvm.runtime.Tensor):
        return [places for field in value for places in _nan_places(field)]
    if str(value.dtype) not in _CAN_BE_NAN:
        return [np.zeros(0, np.bool_)]
    array = value.numpy()
    return [array != array]  # which only NaN is
