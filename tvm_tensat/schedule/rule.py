"""The base of this package's rules: a rule that cannot schedule a kernel passes it on."""

from __future__ import annotations

import logging

import tvm
from tvm import s_tir, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.dlight import ScheduleRule
from tvm.target import Target

from .machine import VectorUnit, is_cpu, vector_unit
from .stages import NotSchedulable

logger = logging.getLogger(__name__)

# The attribute of a scheduled kernel that says which rule scheduled it.
SCHEDULED_BY = "tvm_tensat.scheduled_by"


class CpuRule(ScheduleRule):  # type: ignore[misc]
    """A rule for CPU kernels; subclasses implement `schedule`.

    TVM's schedule primitives refuse what they cannot do with an exception. A default schedule must
    never be the reason why a model does not compile, so any refusal means: try the next rule. The
    kernel is scheduled on a copy, which is dropped in that case.

    Attributes
    ----------
    narrows_indices : bool
        Whether loops count in 32 bits already in the scheduled kernel. A later pass of TVM 0.27
        narrows them too, but gives loops new variables then and loses their hints for
        LoopPartition.
    """

    narrows_indices = False

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """Return the scheduled kernel, or None where the rule does not apply."""
        if not isinstance(func, tirx.PrimFunc) or not is_cpu(target):
            return None
        try:
            sch = s_tir.Schedule(func)
            self.schedule(sch, vector_unit(target))
        except NotSchedulable as reason:
            logger.debug("%s passes: %s", type(self).__name__, reason)
            return None
        except Exception as error:
            logger.debug("%s fails: %s", type(self).__name__, error)
            return None
        scheduled = _narrowed(sch.mod["main"]) if self.narrows_indices else sch.mod["main"]
        return s_tir.Schedule(scheduled.with_attr(SCHEDULED_BY, type(self).__name__))

    def schedule(self, sch: Schedule, unit: VectorUnit) -> None:
        """Schedule the kernel in place.

        Raises
        ------
        NotSchedulable
            Where the kernel is not of the rule's form.
        """
        raise NotImplementedError


def _narrowed(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return the kernel with 32-bit indices, or itself where TVM cannot narrow it."""
    shapes = [size for param in func.params for size in getattr(param.ty, "shape", ())]
    if not all(isinstance(size, tirx.IntImm) for size in shapes):
        return func
    try:
        return tirx.transform.ForceNarrowIndexToInt32()(tvm.IRModule({"main": func}))["main"]
    except Exception as error:
        logger.debug("indices stay 64 bits wide: %s", error)
        return func
