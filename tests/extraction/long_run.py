"""The random tests of extraction on as many cases as asked for.

    python -m tests.extraction.long_run [--cases 5000] [--medium 500] [--seed 0]

Each small case (cyclic, several roots, costs of 0, ties) goes through every method against brute
force, through the solvers without reductions or enumeration, through the published programs, local
search and pools. On medium cases HiGHS and CBC must prove the same cost. A failure is shrunk and
printed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.extraction import test_exact, test_local, test_pool
from tests.long_run import parser, run

TESTS: tuple[Callable[..., Any], ...] = (
    test_exact.test_extraction_agrees_with_brute_force,
    test_exact.test_solver_agrees_with_brute_force_where_nothing_is_enumerated,
    test_exact.test_the_published_program_agrees_with_brute_force,
    test_local.test_the_result_is_an_extraction_between_the_optimum_and_the_start,
    test_pool.test_each_member_is_the_cheapest_that_differs_from_those_before_it,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; return the exit status."""
    known = parser(__doc__, 5000)
    known.add_argument("--medium", type=int, default=500, help="medium cases (500)")
    options = known.parse_args(arguments)
    run(TESTS, options.cases, options.seed)
    began = time.perf_counter()
    for number in range(options.medium):
        with pytest.MonkeyPatch.context() as patch:
            test_exact.test_solvers_agree_on_medium_problems(
                1000 * (options.seed + 1) + number, patch
            )
    seconds = time.perf_counter() - began
    print(f"HiGHS and CBC agree on {options.medium} medium cases, {seconds:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
