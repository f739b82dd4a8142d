"""Mixed-integer programs as arrays, and their solution by python-mip.

minimize cost . x  subject to  rows,  0 <= x <= upper,  x integer where marked.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from tvm_tensat.extraction.problem import Bools, Floats, Ints

SOLVERS = {"highs": "HIGHS", "cbc": "CBC", "gurobi": "GRB"}

# Costs are scaled so that the best known extraction costs this: with costs near 2e-5 (seconds)
# solvers were seen to report a wrong optimum, because their tolerances are absolute.
SCALED_COST = 1e4


@dataclass(frozen=True)
class Rows:
    """Constraints: row ``r`` is the sum of ``coefficient * x[variable]`` over its entries."""

    row: Ints  # (entries,)
    variable: Ints  # (entries,)
    coefficient: Floats  # (entries,)
    sense: str  # "<", ">" or "=", the same for all rows of a block
    right: Floats  # (rows,)


@dataclass(frozen=True)
class Program:
    """A mixed-integer program.

    Parameters
    ----------
    cost : (variables,) float64
    upper : (variables,) float64
    integer : (variables,) bool
    blocks : sequence of Rows
    """

    cost: Floats
    upper: Floats
    integer: Bools
    blocks: Sequence[Rows]


@dataclass(frozen=True)
class Answer:
    """What a solver said.

    Parameters
    ----------
    status : str
        The solver's own word: "OPTIMAL", "FEASIBLE", "NO_SOLUTION_FOUND", "INFEASIBLE", ...
    values : (variables,) float64 or None
    bound : float
        The solver's lower bound on the objective, in the program's unit; -inf without one.
    """

    status: str
    values: Floats | None
    bound: float


def block(
    row: npt.ArrayLike,
    variable: npt.ArrayLike,
    coefficient: npt.ArrayLike,
    sense: str,
    right: npt.ArrayLike,
) -> Rows:
    """Return rows from their entries, given in any order; scalars are broadcast.

    ``right`` has one entry a row.
    """
    right = np.asarray(right, dtype=np.float64)
    row, variable, coefficient = np.broadcast_arrays(row, variable, coefficient)
    return Rows(
        row.astype(np.int64),
        variable.astype(np.int64),
        coefficient.astype(np.float64),
        sense,
        right,
    )


def new_model(solver: str) -> Any:
    """Return an empty, silent python-mip model for one thread."""
    import mip  # loads a solver's library: only the process that solves pays for it

    _destroy_one(solver)
    model = mip.Model(solver_name=SOLVERS[solver])
    model.verbose = 0
    model.threads = 1
    return model


@cache
def _destroy_one(solver: str) -> None:
    """Create and destroy a model, once in a process.

    Models lie on reference cycles, so that Python's garbage collector destroys them, inside
    whatever call it happens to run. cffi looks a function up at its first use, under a lock that
    is not reentrant: when the collector destroyed the first model inside another look-up, the
    process waited for itself for ever (seen with mip 2.0.0 and HiGHS). Here it has no other.
    """
    import mip

    mip.Model(solver_name=SOLVERS[solver])
    gc.collect()


def solve_program(
    program: Program, solver: str, seconds: float, start: Floats | None = None
) -> Answer:
    """Solve by python-mip, on one thread, to a gap of 0.

    Parameters
    ----------
    program : Program
        Costs should be scaled (`SCALED_COST`).
    solver : str
        A key of `SOLVERS`.
    seconds : float
        Time limit of the solver itself.
    start : (variables,) float64, optional
        Values of a feasible solution to start from.
    """
    import mip

    model = new_model(solver)
    model.max_mip_gap = 0.0
    model.max_mip_gap_abs = SCALED_COST * 1e-9
    variables = [
        model.add_var(
            name=f"x{number}",  # CBC matches a start by name
            obj=cost,
            lb=0.0,
            ub=upper,
            var_type=mip.INTEGER if integer else mip.CONTINUOUS,
        )
        for number, (cost, upper, integer) in enumerate(
            zip(
                program.cost.tolist(),
                program.upper.tolist(),
                program.integer.tolist(),
                strict=True,
            )
        )
    ]
    for rows in program.blocks:
        add_rows(model, variables, rows)
    if start is not None:
        model.start = [
            (variables[number], float(start[number])) for number in range(len(variables))
        ]
    status = model.optimize(max_seconds=max(seconds, 0.01))
    values = None
    if model.num_solutions:
        values = np.array([variable.x for variable in variables], dtype=np.float64)
    bound = model.objective_bound
    return Answer(status.name, values, -np.inf if bound is None else float(bound))


def add_rows(model: Any, variables: list[Any], rows: Rows) -> None:
    """Add a block of rows; repeated variables in a row are summed (python-mip would drop some)."""
    import mip

    matrix = csr_matrix(
        (rows.coefficient, (rows.row, rows.variable)), shape=(len(rows.right), len(variables))
    )
    matrix.sum_duplicates()
    start = matrix.indptr.tolist()
    columns = matrix.indices.tolist()
    coefficients = matrix.data.tolist()
    for number, right in enumerate(rows.right.tolist()):
        entries = slice(start[number], start[number + 1])
        expression = mip.LinExpr(
            [variables[column] for column in columns[entries]],
            coefficients[entries],
            -right,
            rows.sense,
        )
        model.add_constr(expression)
