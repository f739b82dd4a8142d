"""The random tests of the engine on as many cases as asked for.

    python -m tests.egraph.long_run [--cases 20000] [--seed 0]

Each case goes through the plain e-graph (equal classes, equal extraction costs), cycle filtering
(acyclic, nothing lost) and explanations (every rewrite replayed). A failure is shrunk and printed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import Phase, seed, settings

from tests.egraph import test_against_oracle, test_cycles, test_explain

TESTS: tuple[Callable[..., Any], ...] = (
    test_against_oracle.test_random_laws_on_random_terms_give_the_oracles_e_graph,
    test_cycles.test_after_each_iteration_what_is_visible_is_acyclic_and_every_class_derivable,
    test_explain.test_any_choice_of_any_e_graph_is_reached_by_replayable_rewrites,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000, help="of each test")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for test in TESTS:
        began = time.perf_counter()
        # Hypothesis offers no way to change the settings of a test that has some.
        own = test._hypothesis_internal_use_settings  # type: ignore[attr-defined]
        test._hypothesis_internal_use_settings = settings(  # type: ignore[attr-defined]
            own,
            max_examples=options.cases,
            database=None,
            phases=(Phase.generate, Phase.shrink),
        )
        seed(options.seed)(test)()
        seconds = time.perf_counter() - began
        print(f"{test.__name__}: {options.cases:,} cases passed in {seconds:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
