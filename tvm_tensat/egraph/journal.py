"""What was merged, and why, in order: enough to explain any equality afterwards.

A class has the number of the e-node that it was made for, so ``(left, right)`` of a merge may be
read as e-nodes or as classes. The journal costs a few bytes a merge while exploring; whoever asks
why two classes are equal (`tvm_tensat.egraph.explain`) pays for the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tvm_tensat.egraph.columns import Ints

if TYPE_CHECKING:
    from tvm_tensat.egraph.template import Application

# Reasons of merges. Those of applications count from 0, see `Applied`.
CONGRUENCE = -1  # equal operators on equal classes
GIVEN = -2  # whoever holds the e-graph said so
PROJECTION = -3  # a field of a tuple is the operand; less the number of the tuple's e-node


@dataclass(frozen=True)
class Applied:
    """Matches that were applied together.

    Attributes
    ----------
    application : Application
    made : (e-nodes of the template, matches) int64
        E-node that each match made or found.
    iteration : int
    first : int
        Reason of the first merge; target k of match m has ``first + k * matches + m``.
    """

    application: Application
    made: Ints
    iteration: int
    first: int

    @property
    def count(self) -> int:
        """The number of merges."""
        return self.application.roots.size

    def reasons(self) -> Ints:
        """Return the reasons of all merges, target after target, (merges,) int64."""
        return self.first + np.arange(self.count)


@dataclass
class Journal:
    """Merges and applications in order of time."""

    applied: list[Applied] = field(default_factory=list)
    _merges: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    _reasons: int = 0

    def applying(self, application: Application, made: Ints, iteration: int) -> Applied:
        """Note matches that are being applied."""
        entry = Applied(application, made, iteration, self._reasons)
        self._reasons += entry.count
        self.applied.append(entry)
        return entry

    def merging(self, left: Ints, right: Ints, reason: Ints) -> None:
        """Note merges, (merges,) int64 each."""
        if len(left):
            self._merges.append((left, right, reason))

    def merges(self) -> tuple[Ints, Ints, Ints]:
        """Return all merges as (left, right, reason) columns."""
        if not self._merges:
            none = np.empty(0, np.int64)
            return none, none, none
        left, right, reason = (np.concatenate(column) for column in zip(*self._merges, strict=True))
        return left, right, reason
