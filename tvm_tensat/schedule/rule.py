"""The base of this package's rules: a rule that cannot schedule a kernel passes it on."""

from __future__ import annotations

import logging

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
    """

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
        name = type(self).__name__
        scheduled = sch.mod["main"].with_attr(SCHEDULED_BY, name)
        return s_tir.Schedule(scheduled)

    def schedule(self, sch: Schedule, unit: VectorUnit) -> None:
        """Schedule the kernel in place.

        Raises
        ------
        NotSchedulable
            Where the kernel is not of the rule's form.
        """
        raise NotImplementedError
