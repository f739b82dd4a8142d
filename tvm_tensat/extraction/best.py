"""The best extraction so far: nothing that a solver says is believed without a check."""

from __future__ import annotations

from collections.abc import Callable

from tvm_tensat.extraction.choice import exact_cost, trim
from tvm_tensat.extraction.problem import Ints, Problem

# A bound this close to the cost counts as a proof: the tolerances of the solvers allow no less.
PROOF_TOLERANCE = 1e-6

Progress = Callable[[float, float], None]
"""Receives the cost of the best extraction so far and the bound, whenever one has changed."""


class Best:
    """The best extraction so far, with what is proven about the optimum."""

    def __init__(self, problem: Problem, choice: Ints, progress: Progress | None) -> None:
        self.problem = problem
        self.progress = progress
        self.choice = choice
        self.cost = exact_cost(problem, choice)
        self.bound = 0.0
        self.doubt = ""

    def offer(self, choice: Ints) -> bool:
        """Take a choice if it is an extraction and cheaper; return whether it is an extraction."""
        kept = trim(self.problem, choice)
        if kept is None:
            return False
        cost = exact_cost(self.problem, kept)
        if cost < self.cost:
            self.choice, self.cost = kept, cost
            self._tell()
        return True

    def prove(self, bound: float, who: str) -> None:
        """Note a lower bound, unless the extraction at hand refutes it."""
        if bound > self.cost * (1 + PROOF_TOLERANCE):
            self.doubt = f"{who} claims a bound of {bound:.6g}, above a known cost; it is ignored"
        else:
            self.bound = max(self.bound, min(bound, self.cost))
            self._tell()

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(self.cost, self.bound)

    @property
    def proven(self) -> bool:
        """Whether the bound is as close to the cost as solvers can tell."""
        return self.cost - self.bound <= PROOF_TOLERANCE * self.cost
