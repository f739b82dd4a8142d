"""Where forms of a module are checked and raced: on this machine, or on a device of a farm."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import relax, rpc

from tvm_tensat.cost import Farm
from tvm_tensat.cost.remote import export, send

# A device is held while forms are built, checked and raced; when this is over, its server ends it.
# Until then a form that hangs there cannot be interrupted: TVM's client does not hear Ctrl-C while
# it waits for an answer.
SESSION_SECONDS = 900.0


@dataclass(frozen=True)
class Hardware:
    """A device that code for a target runs on.

    Attributes
    ----------
    device : tvm.runtime.Device
    target : tvm.target.Target
    session : RPCSession or None
        The connection to the device, None where it is this machine's.
    cross_compiler : str or None
        Links for a device behind a session; see `tvm_tensat.cost.remote.export`.
    """

    device: tvm.runtime.Device
    target: tvm.target.Target
    session: rpc.RPCSession | None = None
    cross_compiler: str | None = None

    def load(self, executable: tvm.runtime.Executable) -> relax.VirtualMachine:
        """Make an executable ready to run."""
        if self.session is None:
            return relax.VirtualMachine(executable, self.device)
        with tempfile.TemporaryDirectory(prefix="tvm-tensat-") as folder:
            library = export(executable, Path(folder), self.target, self.cross_compiler)
            return relax.VirtualMachine(send(self.session, library), self.device)


@contextmanager
def hardware_for(target: tvm.target.Target, farm: Farm | None) -> Iterator[Hardware | None]:
    """Have a device for a target: of the farm if there is one, else this machine's, or None.

    Raises
    ------
    MeasureError
        If the farm has none, or it is lost.
    """
    if farm is not None:
        with farm.session(target, SESSION_SECONDS) as (session, device):
            yield Hardware(device, target, session, farm.cross_compiler)
        return
    device = device_here(target)
    yield None if device is None else Hardware(device, target)


def device_here(target: tvm.target.Target) -> tvm.runtime.Device | None:
    """Return the device on this machine that code for a target runs on, if there is one."""
    kind = target.kind.name
    if kind in ("llvm", "c"):
        triple = dict(target.attrs).get("mtriple")
        native = tvm.target.codegen.llvm_get_system_triple().split("-")[0]
        return tvm.cpu() if triple is None or str(triple).startswith(native) else None
    device = tvm.device(kind)
    return device if device.exist else None
