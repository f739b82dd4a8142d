"""Time by phase, and progress bars for the phases that take long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm


class Phases:
    """Adds up the seconds of named phases: ``with phases("explore"): ...``.

    Attributes
    ----------
    seconds : dict of str to float
        In the order in which the phases first began.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Charge the time of a block to a phase."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a progress bar on a terminal; gives a function that takes how much is done."""
        # disable=None: tqdm is silent where stderr is no terminal; delay: so are quick phases.
        with tqdm(total=total, desc=what, disable=None, delay=1.0, leave=False) as shown:
            yield lambda done: _advance(shown, done)


def _advance(shown: tqdm[None], done: int) -> None:
    shown.update(done - shown.n)
