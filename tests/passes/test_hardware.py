"""Over RPC a pass does what it does here: measure, check, race, and survive what breaks."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.target import Target

from tests.cost import devices
from tests.cost.devices import Server
from tests.passes import models
from tests.passes.test_side_by_side import Weighted
from tvm_tensat.cost import CostStore, Farm, MeasureError, Tracker
from tvm_tensat.passes import TensatOptions, guard, judge, optimize, side_by_side
from tvm_tensat.passes.hardware import Hardware, hardware_for
from tvm_tensat.passes.judge import Judge
from tvm_tensat.passes.phases import Phases
from tvm_tensat.passes.race import race
from tvm_tensat.passes.report import Report

LLVM = Target("llvm")


@I.ir_module
class Nested:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            y = R.nn.relu(x)
            halves = R.split(x, 2, axis=1)
            z = (y, halves)
            R.output(z)
        return z


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Tracker, Server]]:
    with devices.farm(tmp_path_factory.mktemp("farm"), servers=1) as (tracker, [server]):
        yield tracker, server


def options(tracker: Tracker) -> dict[str, str]:
    return {"rpc_tracker": str(tracker), "rpc_key": tracker.key}


def test_kernels_are_measured_there_and_recorded(device, tmp_path: Path) -> None:
    tracker, server = device
    settings = {"cost_store": tmp_path / "costs.sqlite", "race": False, "check": False}
    settings["candidates"] = 1
    module = models.shared_products(count=2)
    first = optimize(module, LLVM, **settings, **options(tracker), strict=True).report.blocks[0]
    assert first.kernels_measured > 0 and first.kernels_failed == 0
    with CostStore(settings["cost_store"]) as store:
        assert len(store) == 4 + first.kernels_measured  # four of them calibrate the roofline
    sessions = server.sessions()
    again = optimize(
        module, LLVM, **settings, **options(tracker), costs="recorded", strict=True
    ).report.blocks[0]
    assert again.kernels_measured == 0 < again.kernels_recorded <= first.kernels_measured
    assert again.cost_after == pytest.approx(first.cost_after)
    assert again.cost_after == pytest.approx(first.cost_after)
    assert server.sessions() == sessions


def test_a_form_computes_there_what_it_computes_here(device) -> None:
    tracker, _ = device
    """A tuple in a tuple, which cannot be sent as a whole."""
    arrays = guard.random_inputs(Nested["main"], 7)

    def outputs(hardware: Hardware) -> list[np.ndarray]:
        form = side_by_side.build({"one": Nested}, LLVM, None, hardware)["one"]
        inputs = [tvm.runtime.tensor(array, hardware.device) for array in arrays]
        return guard.flatten(form.runner("main", inputs)())

    with hardware_for(LLVM, Farm(tracker)) as hardware:
        there = outputs(hardware)
    assert [array.shape for array in there] == [(4, 4), (4, 2), (4, 2)]
    assert guard.difference(outputs(Hardware(tvm.cpu(), LLVM)), there, 1) is None


def test_forms_are_checked_and_raced_there(device, monkeypatch) -> None:
    tracker, server = device
    before = server.sessions()
    monkeypatch.setattr(judge, "race", lambda *args, here: race(*args, rounds=9, here=here))
    module = models.convolution_with_batch_norm()
    report = optimize(module, LLVM, costs="estimated", **options(tracker), strict=True).report
    assert report.races[0].modules[:2] == ("input", "optimized")
    assert all(1e-7 < seconds < 1e-1 for seconds in report.races[0].seconds)
    assert server.sessions() == before + 1


def test_weights_that_are_parameters_are_told_not_to_run_there(device) -> None:
    tracker, _ = device
    report = Report()
    chosen = Judge(LLVM, Farm(tracker), TensatOptions(), report, Phases()).choose(
        Weighted, {"other": Weighted}
    )
    assert chosen is Weighted
    assert report.verdict == "other"
    assert "main was not run: weights that are parameters" in report.reasons[0]


def test_without_a_tracker_costs_are_estimated_and_nothing_is_checked() -> None:
    with socket.create_server((devices.LOOPBACK, 0)) as taken:
        absent = Tracker(*taken.getsockname(), "test")
    module = models.convolution_with_batch_norm()
    report = optimize(module, LLVM, **options(absent)).report
    costs, check = report.reasons
    assert costs.startswith(f"costs are estimated: no RPC tracker answers at {absent}")
    assert check.startswith(f"not checked, not raced: no RPC tracker answers at {absent}")
    assert report.verdict == "optimized"
    with pytest.raises(MeasureError, match="no RPC tracker answers"):
        optimize(module, LLVM, **options(absent), strict=True)


def test_the_input_comes_back_when_the_device_is_lost_in_the_race(device, monkeypatch) -> None:
    tracker, server = device

    def lose(timers, _function, here):
        server.kill()
        assert not here
        next(iter(timers.values()))(1)

    monkeypatch.setattr(judge, "race", lose)
    module = models.convolution_with_batch_norm()
    result = optimize(module, LLVM, costs="estimated", **options(tracker))
    assert result.module.same_as(module)
    assert "was lost: " in result.report.reasons[-1]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rpc_key": "board"}, "both or none"),
        ({"rpc_tracker": "localhost:9190"}, "both or none"),
        ({"rpc_tracker": "localhost", "rpc_key": "board"}, "expected host:port"),
    ],
)
def test_half_an_address_is_refused(changes, reason) -> None:
    with pytest.raises(ValueError, match=reason):
        TensatOptions(**changes)
