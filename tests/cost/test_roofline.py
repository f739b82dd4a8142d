"""The roofline never falls when work grows, and takes its constants from this machine."""

from itertools import pairwise
from pathlib import Path

import pytest
import tvm

from tests.cost.kernels import TARGET
from tvm_tensat.cost import CostStore
from tvm_tensat.cost.roofline import Roofline
from tvm_tensat.cost.work import Work

LINE = Roofline(1e11, 1e10, 1e-9, 1e-6)


def test_a_hand_calculated_time() -> None:
    """1 us + the larger of (1e6 / 1e11 + 2000 * 1e-9) s and 50000 / 1e10 s."""
    assert LINE.seconds(1e6, 3e4, 2e4, 2e3) == pytest.approx(1e-6 + 12e-6)
    assert LINE.seconds(1e3, 3e4, 2e4, 0) == pytest.approx(1e-6 + 5e-6)


def test_nothing_to_do_takes_no_time() -> None:
    assert LINE.seconds_of(Work()) == 0.0


@pytest.mark.parametrize("field", range(4))
def test_more_work_never_takes_less_time(field: int) -> None:
    def seconds(amount: float) -> float:
        work = [1e6, 1e5, 1e5, 1e3]
        work[field] = amount
        return LINE.seconds(*work)

    times = [seconds(10.0**exponent) for exponent in range(10)]
    assert all(a <= b for a, b in pairwise(times))
    assert times[-1] > times[0]


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_constants_without_a_device_are_plausible(target: str) -> None:
    line = Roofline.documented(tvm.target.Target(target))
    assert 1e9 < line.flops_per_second < 1e15
    assert 1e9 < line.bytes_per_second < 1e13
    assert 0 < line.launch_seconds < 1e-4


def test_calibration_measures_once_and_bounds_this_machine() -> None:
    store = CostStore(Path(":memory:"))
    line = Roofline.calibrated(TARGET, store)
    assert len(store) == 4
    assert 1e8 < line.flops_per_second < 1e13
    assert 1e8 < line.bytes_per_second < 1e12
    assert 1e-12 < line.transcendental_seconds < 1e-6
    assert 1e-8 < line.launch_seconds < 1e-4
    assert line != Roofline.documented(TARGET)
    assert Roofline.calibrated(TARGET, store) == line
