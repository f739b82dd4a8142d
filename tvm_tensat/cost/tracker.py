"""A conversation with TVM's RPC tracker: which devices it has, and one of them for a while.

The tracker (``python -m tvm.exec.rpc_tracker``) keeps the devices (``python -m
tvm.exec.rpc_server``) by key, and hands each to one client at a time, in the order of requests.
TVM's own client waits for it without limit and without Ctrl-C; this one asks by the same messages
(`tvm.rpc.base`), and looks around while it waits.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm.rpc import base

from tvm_tensat.cost.kernel import MeasureError
from tvm_tensat.cost.pool import Stopped

_POLL_SECONDS = 0.02
_LOOK_SECONDS = 0.5
"""How often a client that waits for a device asks whether there still is one."""
_ANSWER_SECONDS = 10.0
"""What a tracker answers at once arrives within this time, or it is none."""


@dataclass(frozen=True)
class Grant:
    """A device that the tracker has given to this client, to be connected to within seconds.

    Attributes
    ----------
    host : str
    port : int
    match_key : str
        The password that the device's server expects.
    """

    host: str
    port: int
    match_key: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Tracker:
    """Where a tracker is, and the key of the devices that are wanted of it.

    Parameters
    ----------
    host : str
    port : int
    key : str
    patience : float
        Most seconds to wait for a device that others use.
    """

    host: str
    port: int
    key: str
    patience: float = 120.0

    @staticmethod
    def at(address: str, key: str) -> Tracker:
        """Return the tracker at ``host:port``.

        Raises
        ------
        ValueError
            If the address is of another form.
        """
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"{address!r} is no address of an RPC tracker: expected host:port")
        return Tracker(host.strip("[]"), int(port), key)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def devices(self) -> list[str]:
        """Return the addresses of the servers with this key, busy ones included.

        Raises
        ------
        MeasureError
            If no tracker answers at this address.
        """
        return self._devices(self._summary())

    def request(self, stop: Callable[[], bool]) -> Grant:
        """Wait for a free device.

        Parameters
        ----------
        stop : callable
            Asked many times a second.

        Raises
        ------
        MeasureError
            If no tracker answers, it has no device with this key (any more), or none became free.
        Stopped
            If `stop` returns True.
        """
        began = looked = time.monotonic()
        with self._explained(), self._connection() as connection:
            base.sendjson(connection, [base.TrackerCode.REQUEST, self.key, "", 1])
            while not select.select([connection], [], [], _POLL_SECONDS)[0]:
                if stop():
                    raise Stopped
                now = time.monotonic()
                if now - began > self.patience:
                    raise MeasureError(
                        f"no device with key {self.key} became free within {self.patience:g} s: "
                        f"{self._describe()}; wait until others are done, or add devices"
                    )
                if now - looked > _LOOK_SECONDS:
                    looked = now
                    self.require_devices()
            code, value = base.recvjson(connection)
        if code != base.TrackerCode.SUCCESS:
            raise MeasureError(f"the RPC tracker at {self} refused a request: {value}")
        return Grant(*value)

    def require_devices(self) -> list[str]:
        """Return the addresses of the servers with this key, of which there must be one.

        Raises
        ------
        MeasureError
            If there is none, or no tracker answers.
        """
        devices = self.devices()
        if not devices:
            raise MeasureError(
                f"no device with key {self.key} is registered: {self._describe()}; start one by "
                f"python -m tvm.exec.rpc_server --tracker {self} --key {self.key}"
            )
        return devices

    def _describe(self) -> str:
        """Say in one line what the tracker has."""
        summary = self._summary()
        keys = {str(info["key"]).partition(":")[2] for info in summary["server_info"]}
        others = sorted(keys - {self.key})
        state = summary["queue_info"].get(self.key, {"free": 0, "pending": 0})
        text = (
            f"the tracker at {self} has {len(self._devices(summary))} with it, {state['free']} "
            f"free, {state['pending']} requests waiting"
        )
        return text + (f", and the other keys {', '.join(others)}" if others else "")

    def _devices(self, summary: dict[str, Any]) -> list[str]:
        return [
            ":".join(map(str, info["addr"]))
            for info in summary["server_info"]
            if info["key"] == f"server:{self.key}"
        ]

    def _summary(self) -> dict[str, Any]:
        with self._explained(), self._connection() as connection:
            base.sendjson(connection, [base.TrackerCode.SUMMARY])
            summary: dict[str, Any] = base.recvjson(connection)[1]
        return summary

    @contextmanager
    def _connection(self) -> Iterator[socket.socket]:
        with socket.create_connection((self.host, self.port), _ANSWER_SECONDS) as connection:
            connection.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
            if base.recvall(connection, 4) != struct.pack("<i", base.RPC_TRACKER_MAGIC):
                raise MeasureError(f"what answers at {self} is no RPC tracker: check the address")
            yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of the network into ours."""
        try:
            yield
        except OSError as error:
            raise MeasureError(
                f"no RPC tracker answers at {self} ({error}): check the address, or start one by "
                f"python -m tvm.exec.rpc_tracker --host {self.host} --port {self.port} "
                f"--port-end {self.port + 1}"
            ) from error
