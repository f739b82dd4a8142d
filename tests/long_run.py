"""Random tests on as many cases as asked for: what the long runs of the packages share."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import Phase, seed, settings


def parser(description: str, cases: int) -> argparse.ArgumentParser:
    """Return a parser with the options ``--cases`` and ``--seed``."""
    found = argparse.ArgumentParser(description=description.splitlines()[0])
    found.add_argument("--cases", type=int, default=cases, help=f"of each test ({cases})")
    found.add_argument("--seed", type=int, default=0)
    return found


def run(tests: Sequence[Callable[..., Any]], cases: int, seed_number: int) -> None:
    """Run tests that take their arguments from hypothesis; a failure is shrunk and raised."""
    for test in tests:
        began = time.perf_counter()
        # Hypothesis offers no way to change the settings of a test that has some.
        own = test._hypothesis_internal_use_settings  # type: ignore[attr-defined]
        test._hypothesis_internal_use_settings = settings(  # type: ignore[attr-defined]
            own, max_examples=cases, database=None, phases=(Phase.generate, Phase.shrink)
        )
        seed(seed_number)(test)()
        seconds = time.perf_counter() - began
        print(f"{test.__name__}: {cases:,} cases passed in {seconds:.0f} s", flush=True)
