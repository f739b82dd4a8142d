"""A linear relaxation that grows: solve, add violated rows, fix variables, solve again."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_tensat.extraction.problem import Floats, Ints
from tvm_tensat.extraction.program import Program, Rows, add_rows, new_model


class Relaxation:
    """The linear relaxation of a program, kept in the solver with its basis."""

    def __init__(self, program: Program, solver: str) -> None:
        self.model: Any = new_model(solver)
        self.variables = [
            self.model.add_var(obj=cost, lb=0.0, ub=upper)
            for cost, upper in zip(program.cost.tolist(), program.upper.tolist(), strict=True)
        ]
        for rows in program.blocks:
            add_rows(self.model, self.variables, rows)
        self.objective = 0.0
        self.values: Floats = np.zeros(0)
        self.reduced_costs: Floats = np.zeros(0)

    def add(self, rows: Rows) -> None:
        """Add rows."""
        add_rows(self.model, self.variables, rows)

    def fix_to_zero(self, numbers: Ints) -> None:
        """Fix variables to 0."""
        for number in numbers.tolist():
            self.variables[number].ub = 0.0

    def solve(self, seconds: float) -> str:
        """Solve; return the solver's status, "OPTIMAL" when the fields hold an optimum."""
        status: str = self.model.optimize(max_seconds=max(seconds, 0.01)).name
        if status == "OPTIMAL":
            self.objective = float(self.model.objective_value)
            self.values = _floats(variable.x for variable in self.variables)
            self.reduced_costs = _floats(variable.rc for variable in self.variables)
        return status


def _floats(numbers: Any) -> Floats:
    return np.fromiter(numbers, dtype=np.float64)
