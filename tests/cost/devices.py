"""A real RPC tracker and real servers on loopback, with TVM's own code, started quickly.

They are forked from a process that has imported TVM, and then do what ``python -m
tvm.exec.rpc_tracker`` and ``rpc_server`` do; importing takes seconds each time otherwise.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil

from tvm_tensat.cost import Tracker

LOOPBACK = "127.0.0.1"
_FORK = multiprocessing.get_context("forkserver")
_FORK.set_forkserver_preload(["tests.cost.devices", "tvm.rpc.tracker"])


@dataclass(frozen=True)
class Server:
    """One device: its server's process, and what that writes."""

    process: ForkServerProcess
    log: Path

    def kill(self) -> None:
        """Kill the server and the process that serves its client, as a power cut would."""
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.process.pid)
            for each in [*parent.children(recursive=True), parent]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
        self.process.join()

    def sessions(self) -> int:
        """Return how many clients have had the device."""
        return self.log.read_text().count("connected from")


@contextlib.contextmanager
def farm(folder: Path, servers: int, key: str = "test") -> Iterator[tuple[Tracker, list[Server]]]:
    """Run a tracker and so many servers with one key."""
    here, there = _FORK.Pipe()
    process = _FORK.Process(target=_track, args=(there,))
    process.start()
    tracker = Tracker(LOOPBACK, here.recv(), key)
    running = [Server(process, folder / "tracker.log")]
    try:
        running += [serve(tracker, folder / f"server-{number}.log") for number in range(servers)]
        deadline = time.monotonic() + 60.0
        while len(tracker.devices()) < servers:
            assert time.monotonic() < deadline, "the servers do not register"
            time.sleep(0.02)
        yield tracker, running[1:]
    finally:
        for each in running:
            each.kill()


def serve(tracker: Tracker, log: Path) -> Server:
    """Start a server, which registers with the tracker soon after."""
    process = _FORK.Process(target=_serve, args=(tracker, log))
    process.start()
    return Server(process, log)


def _track(port: Connection) -> None:
    from tvm.rpc.tracker import PopenTrackerServerState

    state = PopenTrackerServerState(LOOPBACK, *_ports(), silent=True)
    port.send(state.port)
    state.thread.join()


def _serve(tracker: Tracker, log: Path) -> None:
    from tvm.rpc.server import PopenRPCServerState

    multiprocessing.set_start_method("fork", force=True)  # TVM's server forks for each client
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    state = PopenRPCServerState(
        LOOPBACK, *_ports(), tracker_addr=(tracker.host, tracker.port), key=tracker.key
    )
    state.thread.join()


def _ports() -> tuple[int, int]:
    """Return a range in which TVM seeks a free port, not the same one in each process."""
    first = 20_000 + os.getpid() % 10_000
    return first, first + 2_000
