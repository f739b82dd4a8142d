"""Devices behind TVM's RPC tracker as a place to measure."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import tvm
from tvm import rpc

from tvm_tensat.cost import remote
from tvm_tensat.cost.kernel import MeasureError, Measurement, StoreKey
from tvm_tensat.cost.lanes import Lanes
from tvm_tensat.cost.machine import runs_on_cpu, target_text
from tvm_tensat.cost.place import LEAST_ROTATION_BYTES, MOST_ROTATION_BYTES, Limits
from tvm_tensat.cost.pool import Stopped
from tvm_tensat.cost.tracker import Tracker
from tvm_tensat.cost.worker import Task, first_task, one_line

_IDENTITY_SECONDS = 10.0


@dataclass(frozen=True)
class Farm:
    """Devices of one kind that TVM's RPC tracker lends. See `tvm_tensat.cost.place.Place`.

    Parameters
    ----------
    tracker : Tracker
        Its key names a kind of device, as everywhere in TVM: devices with one key are taken to be
        equal, and times of one to hold for all.
    cross_compiler : str, optional
        The compiler that links for the devices, such as ``aarch64-linux-gnu-g++``. Without one,
        this machine's compiler links for targets of its own architecture, and for others each
        device links by the compiler that it has.
    """

    tracker: Tracker
    cross_compiler: str | None = None

    def identity(self, target: tvm.target.Target) -> str:
        """Return the key of the devices, and what one of them says of itself.

        Of a GPU that is its name, compute version and driver; of a CPU the threads that TVM uses
        there and, where the server has LLVM, its name for the CPU. Asked once a process.
        """
        return _identity(self, target_text(target))

    def cold_bytes(self, target: tvm.target.Target) -> int:
        """Return 24 MiB for CPUs, and the most for other devices.

        A device does not tell the size of its caches. Most CPUs in farms are small boards, whose
        last-level caches have 12 MiB at most, and weights must be sent to each.
        """
        return LEAST_ROTATION_BYTES if runs_on_cpu(target) else MOST_ROTATION_BYTES

    def kept(self) -> AbstractContextManager[None]:
        """Keep nothing: devices are there for others between two calls of `measure`."""
        return nullcontext()

    def measure(
        self, tasks: Mapping[StoreKey, Task], limits: Limits, stop: Callable[[], bool]
    ) -> Generator[tuple[StoreKey, Measurement], None, None]:
        """Yield each measurement as it arrives."""
        if not tasks or stop():
            return
        devices = self.tracker.require_devices()
        builders = limits.builders(len(tasks))
        target, records = next((task.target, task.tuning_records) for task in tasks.values())
        first = first_task(target, records)
        count = min(len(tasks), len(devices) + min(builders, len(devices)))
        lanes = Lanes(self.tracker, self.cross_compiler, limits, builders, count, first)
        done = 0
        try:
            # Alone: a target that the devices cannot run costs few of them.
            for _, trial in lanes.measure({None: first}, stop):
                if trial.error is not None:
                    raise MeasureError(
                        f"devices with key {self.tracker.key} cannot run kernels for {target}: "
                        f"{trial.error}; choose the target that they have"
                    )
            for result in lanes.measure(tasks, stop):
                done += 1
                yield result
        except Stopped:
            return
        except MeasureError as error:
            left = f"{len(tasks) - done} of {len(tasks)} kernels were not measured"
            raise MeasureError(f"{error}; {left}") from error
        finally:
            lanes.end()

    @contextmanager
    def session(
        self, target: tvm.target.Target, seconds: float
    ) -> Generator[tuple[rpc.RPCSession, tvm.runtime.Device], None, None]:
        """Have a device of the farm for this process, for at most so many seconds.

        Raises
        ------
        MeasureError
            If there is no device, or it cannot run code for the target.
        """
        grant = self.tracker.request(stop=lambda: False)
        try:
            session = remote.connect(grant, seconds)
        except Exception as error:  # TVM's client has no closed set of errors
            raise MeasureError(
                f"the device at {grant} cannot be connected to: {one_line(error)}"
            ) from error
        try:
            device = remote.device_of(session, target)
            if not device.exist:
                raise MeasureError(
                    f"the machine at {grant} has no {target.kind.name} device (as TVM sees it): "
                    "choose another target, or another key"
                )
            yield session, device
        except RuntimeError as error:
            if remote.is_lost(error):
                raise MeasureError(f"the device at {grant} was lost: {one_line(error)}") from error
            raise
        finally:
            remote.close(session)


@functools.cache
def _identity(farm: Farm, text: str) -> str:
    target = tvm.target.Target(text)
    with farm.session(target, _IDENTITY_SECONDS) as (session, device):
        if runs_on_cpu(target):
            facts = {
                "threads": _ask(session, "runtime.NumThreads"),
                "cpu": _ask(session, "target.llvm_get_system_cpu"),
            }
        else:
            facts = {
                "device": device.device_name,
                "compute": device.compute_version,
                "driver": device.driver_version,
            }
    known = {name: str(fact) for name, fact in facts.items() if fact is not None}
    return json.dumps({"rpc_key": farm.tracker.key, **known}, sort_keys=True)


def _ask(session: rpc.RPCSession, function: str) -> object:
    """Call a function of the device's TVM; None where it does not have it."""
    try:
        return session.get_function(function)()
    except AttributeError:
        return None
