"""The random tests of the engine on as many cases as asked for.

    python -m tests.egraph.long_run [--cases 20000] [--seed 0]

Each case goes through the plain e-graph (equal classes, equal extraction costs), cycle filtering
(acyclic, nothing lost) and explanations (every rewrite replayed). A failure is shrunk and printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from tests.egraph import test_against_oracle, test_cycles, test_explain
from tests.long_run import parser, run

TESTS: tuple[Callable[..., Any], ...] = (
    test_against_oracle.test_random_laws_on_random_terms_give_the_oracles_e_graph,
    test_cycles.test_after_each_iteration_what_is_visible_is_acyclic_and_every_class_derivable,
    test_explain.test_any_choice_of_any_e_graph_is_reached_by_replayable_rewrites,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; return the exit status."""
    options = parser(__doc__, 20_000).parse_args(arguments)
    run(TESTS, options.cases, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
