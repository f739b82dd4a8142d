"""Races: modules timed in turn, so that a machine whose speed drifts slows all of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tvm_tensat.cost import machine_lock
from tvm_tensat.passes.side_by_side import Timer

RACE_SECONDS = 20.0  # for all modules together, within these numbers of rounds
FEWEST_ROUNDS, MOST_ROUNDS = 9, 101
ROUND_SECONDS = 0.02  # at least this long, so that the clock and the VM's start do not matter
RESAMPLES = 1000


@dataclass(frozen=True)
class Race:
    """Latencies of one function in several modules, timed in turn.

    Attributes
    ----------
    function : str
    modules : tuple of str
        Names of the modules; the first is what the others are compared with.
    seconds : tuple of float
        Median of each module.
    spread : tuple of float
        Interquartile range over the median.
    ratios : tuple of float
        Median of (first module's time / this module's time) over the rounds: above 1 is faster.
    sure : tuple of float
        Lower bound of that median, at 90% confidence by bootstrap over the rounds.
    """

    function: str
    modules: tuple[str, ...]
    seconds: tuple[float, ...]
    spread: tuple[float, ...]
    ratios: tuple[float, ...]
    sure: tuple[float, ...]


def race(
    timers: Mapping[str, Timer],
    function: str,
    rounds: int | None = None,
    here: bool = True,
) -> Race:
    """Time a function of several modules in turn.

    Parameters
    ----------
    timers : dict of str to callable
        The clock of the function in each module, by the name of the module.
    function : str
        Its name, for the report.
    rounds : int, optional
        Timings of each module; by default as many as `RACE_SECONDS` allow.
    here : bool
        Whether they run on this machine, which then nothing else may use meanwhile.
    """
    with machine_lock(exclusive=True) if here else nullcontext():
        return _race(timers, function, rounds)


def _race(named: Mapping[str, Timer], function: str, rounds: int | None) -> Race:
    timers = list(named.values())
    for seconds_of in timers:
        seconds_of(1)  # warm up: pages, caches, threads
    once = [seconds_of(1) for seconds_of in timers]
    numbers = [max(1, round(ROUND_SECONDS / max(seconds, 1e-7))) for seconds in once]
    if rounds is None:
        fitting = int(RACE_SECONDS / np.dot(once, numbers))
        rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, fitting))
    times = np.empty((rounds, len(timers)))
    for turn in range(rounds):
        # The order alternates, so that no module always runs after the same one.
        order = range(len(timers)) if turn % 2 == 0 else reversed(range(len(timers)))
        for k in order:
            times[turn, k] = timers[k](numbers[k])
    middle = np.median(times, axis=0)
    low, high = np.percentile(times, [25, 75], axis=0)
    ratios = times[:, :1] / times
    return Race(
        function,
        tuple(named),
        tuple(middle.tolist()),
        tuple(((high - low) / middle).tolist()),
        tuple(np.median(ratios, axis=0).tolist()),
        tuple(_lower_bounds(ratios).tolist()),
    )


def _lower_bounds(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound the medians of (rounds, modules) ratios from below by resampling rounds."""
    rounds = len(ratios)
    drawn = np.random.default_rng(0).integers(0, rounds, (RESAMPLES, rounds))
    bounds: NDArray[np.float64] = np.percentile(np.median(ratios[drawn], axis=1), 10, axis=0)
    return bounds
