"""What runs inside a measuring process when the device is remote: build, send, time over RPC.

Like `tvm_tensat.cost.worker`, of which it shares building and sampling. Kernels run on the device,
so nothing that they do can break this process; but the connection to the device can be lost, which
is told apart from what the kernel did.
"""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import relax, rpc
from tvm.error import RPCError, RPCSessionTimeoutError

from tvm_tensat.cost.machine import runs_on_cpu
from tvm_tensat.cost.rotation import Rotation
from tvm_tensat.cost.tracker import Grant
from tvm_tensat.cost.worker import (
    Samples,
    Task,
    Timer,
    build_rotation,
    deadline,
    first_task,
    one_line,
    restrain,
    sample,
)


@dataclass(frozen=True)
class Sized:
    """The kernel has been built into a library of so many bytes."""

    bytes: int


@dataclass(frozen=True)
class Failed:
    """The kernel cannot be built or run, for this reason."""

    reason: str


@dataclass(frozen=True)
class Lost:
    """The device did not do its part, for this reason.

    Attributes
    ----------
    reason : str
    running : bool
        Whether it had the kernel by then.
    """

    reason: str
    running: bool


@dataclass(frozen=True)
class _Library:
    """A built rotation on its way to a device."""

    path: Path
    rotation: Rotation
    target: tvm.target.Target


_folder: tempfile.TemporaryDirectory[str]
_library: _Library | None = None


def start(memory_bytes: int | None, target: str, tuning_records: str | None) -> None:
    """Prepare this process; see `tvm_tensat.cost.worker.start`. Builds, but runs nothing."""
    global _folder
    restrain(memory_bytes)
    _folder = tempfile.TemporaryDirectory(prefix="tvm-tensat-")
    _write(first_task(target, tuning_records), None)


def build(task: Task, cross_compiler: str | None, timeout: float) -> Sized | Failed:
    """Build a kernel and keep its library in this process."""
    global _library
    _library = None
    with deadline(timeout):
        try:
            _library = _write(task, cross_compiler)
        except Exception as error:
            return Failed(one_line(error))
    return Sized(_library.path.stat().st_size)


def run(
    grant: Grant, session_seconds: float, repeats: int, timeout: float
) -> Samples | Failed | Lost:
    """Time the kernel that `build` left here on a device.

    Parameters
    ----------
    grant : Grant
    session_seconds : float
        When this time is over, the device's server ends the kernel.
    repeats : int
        Most samples to take.
    timeout : float
        When this time is over, this process ends.
    """
    assert _library is not None
    with deadline(timeout):
        try:
            session = connect(grant, session_seconds)
        except Exception as error:  # TVM's client has no closed set of errors
            return Lost(one_line(error), running=False)
        try:
            device = device_of(session, _library.target)
            machine = relax.VirtualMachine(send(session, _library.path), device)
            timer = Timer(machine, device, _library.rotation, watched=False)
            return sample(timer, repeats)
        except RPCSessionTimeoutError:
            return Failed(f"timed out after {session_seconds:.3g} s")
        except RPCError as error:  # raised on the device
            return Failed(_on_device(error))
        except Exception as error:  # raised here: there is no answer
            reason = "the connection ended" if is_lost(error) else one_line(error)
            return Lost(reason, running=True)
        finally:
            close(session)


def connect(grant: Grant, session_seconds: float) -> rpc.RPCSession:
    """Connect to a device for at most so many seconds."""
    return rpc.connect(grant.host, grant.port, grant.match_key, session_seconds)


def is_lost(error: Exception) -> bool:
    """Whether TVM's client says by this error that a connection has ended."""
    if isinstance(error, RPCSessionTimeoutError):
        return True
    return "RPCCode::kReturn" in str(error) or "SockChannel" in str(error)


def close(session: rpc.RPCSession) -> None:
    """Give a device back now, whatever still refers to the session."""
    with contextlib.suppress(Exception):  # the connection may have ended
        session.get_function("CloseRPCConnection")()


def device_of(session: rpc.RPCSession, target: tvm.target.Target) -> tvm.runtime.Device:
    """Return the device behind a session that code for a target runs on."""
    return session.cpu(0) if runs_on_cpu(target) else session.device(target.kind.name, 0)


def send(session: rpc.RPCSession, library: Path) -> tvm.runtime.Module:
    """Send a library to a device and load it there."""
    # A new name each time: to overwrite a library that a session has loaded would break it.
    name = uuid.uuid4().hex + library.suffix
    session.upload(str(library), name)
    return session.load_module(name)


def export(
    executable: tvm.runtime.Executable,
    folder: Path,
    target: tvm.target.Target,
    cross_compiler: str | None,
) -> Path:
    """Write an executable as what a device can load.

    That is a shared library, linked by the cross compiler or, for a target of this machine's
    architecture, by this machine's compiler; for other targets a .tar of objects, which the
    device's server links with the compiler that is there.
    """
    if cross_compiler is not None:
        path = folder / "kernel.so"
        executable.export_library(str(path), cc=cross_compiler)
    else:
        path = folder / ("kernel.so" if is_native(target) else "kernel.tar")
        executable.export_library(str(path))
    return path


def is_native(target: tvm.target.Target) -> bool:
    """Whether this machine's compiler links for the target's host."""
    host = target if target.host is None else target.host
    triple = dict(host.attrs).get("mtriple")
    if triple is None:
        return True
    native = tvm.target.codegen.llvm_get_system_triple()
    return str(triple).split("-")[0] == native.split("-")[0]


def _write(task: Task, cross_compiler: str | None) -> _Library:
    executable, rotation = build_rotation(task)
    target = tvm.target.Target(task.target)
    path = export(executable, Path(_folder.name), target, cross_compiler)
    return _Library(path, rotation, target)


def _on_device(error: RPCError) -> str:
    """Return the first line of what was raised on the device."""
    text = str(error).partition("Error caught from RPC call:")[2].strip() or str(error)
    return f"on the device: {text.splitlines()[0]}"[:300]
