"""Races: modules timed in turn, so that a machine whose speed drifts slows all of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tvm
from numpy.typing import NDArray

from tvm_tensat.cost import machine_lock
from tvm_tensat.passes.side_by_side import Runner

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
    runners: Mapping[str, Runner],
    function: str,
    device: tvm.runtime.Device,
    rounds: int | None = None,
) -> Race:
    """Time a function of several modules in turn, having the machine alone.

    Parameters
    ----------
    runners : dict of str to callable
        The function of each module, by the name of the module.
    function : str
        Its name, for the report.
    device : tvm.runtime.Device
    rounds : int, optional
        Timings of each module; by default as many as `RACE_SECONDS` allow.
    """
    with machine_lock(exclusive=True):
        return _race(runners, function, device, rounds)


def _race(
    named: Mapping[str, Runner], function: str, device: tvm.runtime.Device, rounds: int | None
) -> Race:
    runners = list(named.values())
    for run in runners:
        run()  # warm up: pages, caches, threads
    once = [_time(run, device, 1) for run in runners]
    numbers = [max(1, round(ROUND_SECONDS / max(seconds, 1e-7))) for seconds in once]
    if rounds is None:
        fitting = int(RACE_SECONDS / np.dot(once, numbers))
        rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, fitting))
    times = np.empty((rounds, len(runners)))
    for turn in range(rounds):
        # The order alternates, so that no module always runs after the same one.
        order = range(len(runners)) if turn % 2 == 0 else reversed(range(len(runners)))
        for k in order:
            times[turn, k] = _time(runners[k], device, numbers[k])
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


def _time(run: Runner, device: tvm.runtime.Device, number: int) -> float:
    device.sync()
    began = time.perf_counter()
    for _ in range(number):
        run()
    device.sync()
    return (time.perf_counter() - began) / number
