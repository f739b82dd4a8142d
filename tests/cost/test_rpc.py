"""Measuring through TVM's RPC tracker: all devices work, and what they break is survived."""

from __future__ import annotations

import json
import os
import signal
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import tvm
from tvm import rpc

from tests.cost import devices
from tests.cost.devices import Server
from tests.cost.kernels import TARGET, calling, matmul, relu, tensor
from tests.cost.kernels import kernel as kernel_of
from tvm_tensat.cost import (
    CostStore,
    Farm,
    MeasureError,
    Measurement,
    StoreKey,
    Tracker,
    measure,
    setting_of,
)
from tvm_tensat.cost.pool import Stopped
from tvm_tensat.cost.remote import export, send

HANG_SECONDS = 5.0


@dataclass(frozen=True)
class Campaign:
    """One run over kernels of which one crashes two of three devices."""

    tracker: Tracker
    servers: list[Server]
    store: CostStore
    measurements: dict[str, Measurement]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    x = tensor("x", 4, 4)
    kernels = [
        *(relu(8 + number) for number in range(6)),
        calling("abort"),
        calling("pause"),
        matmul(4, 64, 64),
        kernel_of([x], tvm.relax.op.nn.relu(tensor("x", 4, 4)), "free variable"),
    ]
    with devices.farm(tmp_path_factory.mktemp("farm"), servers=3) as (tracker, servers):
        store = CostStore(Path(":memory:"))
        found = measure(
            kernels, TARGET, store=store, place=Farm(tracker), timeout=HANG_SECONDS, workers=1
        )
        by_key = {k.key: m for k, m in zip(kernels, found, strict=True)}
        yield Campaign(tracker, servers, store, by_key)


@pytest.fixture
def store() -> CostStore:
    return CostStore(Path(":memory:"))


def test_good_kernels_among_bad_ones_are_measured(campaign: Campaign) -> None:
    good = [m for key, m in campaign.measurements.items() if key.startswith(("relu", "matmul"))]
    assert len(good) == 7
    for measurement in good:
        assert measurement.error is None
        assert measurement.seconds is not None
        assert 1e-9 < measurement.seconds < 1e-3
        assert measurement.repeats > 0


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("calling pause", "running failed: timed out after 5"),
        ("free variable", "building failed: "),
        ("calling abort", "running failed: lost the device at 127.0.0.1:"),
    ],
)
def test_a_bad_kernel_is_recorded_with_the_reason(
    campaign: Campaign, key: str, reason: str
) -> None:
    error = campaign.measurements[key].error
    assert error is not None and error.startswith(reason)
    assert "\n" not in error


def test_a_kernel_that_crashes_is_tried_on_two_devices_and_no_more(campaign: Campaign) -> None:
    error = campaign.measurements["calling abort"].error
    assert error is not None
    lost = {
        each.log for each in campaign.servers if "exited unsuccessfully" in each.log.read_text()
    }
    assert len(lost) == 2 == error.count("the device at")
    assert len(campaign.tracker.devices()) == 1


def test_every_device_was_used(campaign: Campaign) -> None:
    assert all(server.sessions() for server in campaign.servers)


def test_results_belong_to_the_device_and_are_not_measured_again(campaign: Campaign) -> None:
    farm = Farm(campaign.tracker)
    machine = json.loads(setting_of(TARGET, place=farm).machine)
    assert machine["rpc_key"] == campaign.tracker.key
    assert machine["cpu"] == tvm.target.codegen.llvm_get_system_cpu()  # the device is this machine
    assert len(campaign.store) == len(campaign.measurements)
    sessions = [server.sessions() for server in campaign.servers]
    known = campaign.measurements["relu (8,)"]
    assert measure([relu(8)], TARGET, store=campaign.store, place=farm) == [known]
    assert [server.sessions() for server in campaign.servers] == sessions
    here = measure([relu(8)], TARGET, store=campaign.store, stop=lambda: True)[0]
    assert here.error is not None and "stopped" in here.error


def test_waiting_for_a_device_ends_with_what_the_tracker_says(campaign: Campaign) -> None:
    """A client has the device that is left; another waits for a second."""
    tracker = Tracker(campaign.tracker.host, campaign.tracker.port, campaign.tracker.key, 1.0)
    client = rpc.connect_tracker(tracker.host, tracker.port)
    held = [client.request(tracker.key) for _ in tracker.devices()]
    with pytest.raises(MeasureError, match=r"within 1 s: .* has 1 with it, 0 free, 1 requests"):
        tracker.request(stop=lambda: False)
    with pytest.raises(Stopped):
        tracker.request(stop=lambda: True)
    del held


def test_a_key_that_nobody_has_is_told_with_the_keys_there_are(campaign: Campaign) -> None:
    absent = Farm(Tracker(campaign.tracker.host, campaign.tracker.port, "absent"))
    with pytest.raises(MeasureError, match=r"no device with key absent .* other keys test"):
        absent.identity(TARGET)


def test_a_device_that_the_machine_does_not_have_is_no_kernels_fault(campaign: Campaign) -> None:
    with pytest.raises(MeasureError, match="has no metal device"):
        Farm(campaign.tracker).identity(tvm.target.Target("metal"))


def test_killed_servers_lose_no_kernel_and_the_run_ends(tmp_path: Path, store: CostStore) -> None:
    """A server dies while it has a kernel; in a second run the last one does so."""
    with devices.farm(tmp_path, servers=2) as (tracker, servers):
        farm = Farm(tracker)

        def kill_one(done: int, _total: int) -> None:
            if done == 2:
                _at_work(servers).kill()

        kernels = [relu(8 + number) for number in range(8)]
        found = measure(kernels, TARGET, store=store, place=farm, workers=1, progress=kill_one)
        assert [m.error for m in found] == [None] * len(kernels)
        assert len(tracker.devices()) == 1

        more = [relu(100 + number) for number in range(8)]
        with pytest.raises(MeasureError, match=r"no device with key test .* [1-6] of 8 kernels"):
            measure(more, TARGET, store=store, place=farm, workers=1, progress=kill_one)
        setting = setting_of(TARGET, place=farm)
        known = store.get_many([StoreKey(k.key, setting) for k in more])
        assert 2 <= len(known) < len(more)
        assert [m.error for m in known.values()] == [None] * len(known)


def _at_work(servers: list[Server]) -> Server:
    """Wait for a server that has a client."""
    while True:
        for server in servers:
            if server.process.is_alive() and psutil.Process(server.process.pid).children():
                return server
        time.sleep(0.001)


def test_ctrl_c_ends_at_once_and_keeps_what_was_measured(
    campaign: Campaign, tmp_path: Path, store: CostStore
) -> None:
    """The second kernel hangs on the only device; Ctrl-C comes while it does."""
    tracker = replace(campaign.tracker, key="hanging")
    server = devices.serve(tracker, tmp_path / "server.log")
    while not tracker.devices():
        time.sleep(0.02)
    pressed: list[float] = []

    def press() -> None:
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    def interrupt_the_second(done: int, _total: int) -> None:
        if done == 1:
            threading.Timer(1.0, press).start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            measure(
                [relu(8), calling("pause")],
                TARGET,
                store=store,
                place=Farm(tracker),
                timeout=60.0,
                workers=1,
                progress=interrupt_the_second,
            )
        assert time.monotonic() - pressed[0] < 2.0
        assert len(store) == 1
    finally:
        signal.signal(signal.SIGINT, before)
        server.kill()


def test_without_a_tracker_the_error_says_where_one_was_expected(store: CostStore) -> None:
    with socket.create_server((devices.LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
    farm = Farm(Tracker(devices.LOOPBACK, port, "test"))
    with pytest.raises(MeasureError, match=f"no RPC tracker answers at 127.0.0.1:{port}"):
        measure([relu(8)], TARGET, store=store, place=farm)


def test_something_else_that_listens_there_is_no_tracker() -> None:
    with socket.create_server((devices.LOOPBACK, 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(MeasureError, match="is no RPC tracker"):
            Tracker(devices.LOOPBACK, listener.getsockname()[1], "test").devices()


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":9190", "localhost:many"])
def test_an_address_without_host_or_port_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        Tracker.at(address, "test")


@pytest.mark.parametrize(
    ("target", "name", "machine"),
    [
        (TARGET, "kernel.so", None),
        (tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu"}), "kernel.tar", 0xB7),
    ],
)
def test_a_library_is_linked_here_or_for_another_architecture_there(
    tmp_path: Path, target: tvm.target.Target, name: str, machine: int | None
) -> None:
    """The machine of an ELF file is in its 19th byte; 0xB7 is AArch64."""
    executable = tvm.compile(relu(4).module, target)
    library = export(executable, tmp_path, target, cross_compiler=None)
    assert library.name == name
    if machine is not None:
        with tarfile.open(library) as archive:
            [first, *_] = [member for member in archive if member.name.endswith(".o")]
            content = archive.extractfile(first)
            assert content is not None
            assert content.read()[18] == machine


def test_objects_are_linked_by_the_device(campaign: Campaign, tmp_path: Path) -> None:
    executable = tvm.compile(relu(4).module, TARGET)
    executable.export_library(str(tmp_path / "kernel.tar"))
    with Farm(campaign.tracker).session(TARGET, 30.0) as (session, device):
        machine = tvm.relax.VirtualMachine(send(session, tmp_path / "kernel.tar"), device)
        x = tvm.runtime.tensor(np.array([-1.0, 0.0, 2.0, -3.0], "float32"), device)
        assert machine["main"](x).numpy().tolist() == [0.0, 0.0, 2.0, 0.0]


def test_a_cross_compiler_links_in_place_of_this_machines(tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\ntouch {tmp_path}/asked\nexec c++ "$@"\n')
    compiler.chmod(0o755)
    executable = tvm.compile(relu(4).module, TARGET)
    assert export(executable, tmp_path, TARGET, str(compiler)).is_file()
    assert (tmp_path / "asked").exists()


def test_an_address_may_be_of_the_sixth_version() -> None:
    assert Tracker.at("[::1]:9190", "test") == Tracker("::1", 9190, "test")
