"""Facts about this machine: what a measured time depends on, and what a report should say."""

from __future__ import annotations

import functools
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy
import tvm
import tvm_ffi

from tvm_tensat.cost.kernel import MeasureError

_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNKNOWN_CACHE_BYTES = 32 << 20
_SIMD = ("avx512f", "avx512_vnni", "amx_tile", "avx2", "fma", "sse4_2", "asimd", "sve")


@dataclass(frozen=True)
class Machine:
    """A machine and the software that times depend on.

    Parameters
    ----------
    cpu : str
        Model of the CPU, with its family and model numbers where the name alone is vague.
    cores : int
        Logical cores that this process may use.
    threads : int
        Threads that TVM runs kernels on (``TVM_NUM_THREADS``).
    simd : tuple of str
        SIMD extensions that matter for kernels.
    cache_bytes : int
        Size of the last-level cache.
    system, python, numpy, tvm, tvm_ffi : str
        Operating system and versions.
    """

    cpu: str
    cores: int
    threads: int
    simd: tuple[str, ...]
    cache_bytes: int
    system: str
    python: str
    numpy: str
    tvm: str
    tvm_ffi: str


@functools.cache
def describe() -> Machine:
    """Return the facts about this machine."""
    info = _cpuinfo()
    name = info.get("model name") or platform.processor() or platform.machine()
    if "cpu family" in info:
        name = f"{name} (family {info['cpu family']}, model {info.get('model', '?')})"
    flags = (info.get("flags") or info.get("Features") or "").split()
    return Machine(
        cpu=name,
        cores=_usable_cores(),
        threads=int(tvm.get_global_func("runtime.NumThreads")()),
        simd=tuple(flag for flag in _SIMD if flag in flags),
        cache_bytes=_last_level_cache_bytes(),
        system=platform.platform(),
        python=platform.python_version(),
        numpy=numpy.__version__,
        tvm=tvm.__version__,
        tvm_ffi=tvm_ffi.__version__,
    )


def identity(target: tvm.target.Target) -> str:
    """Return canonical text of everything about this machine that changes a kernel's time.

    For a GPU that is the device and its driver, for the CPU its model, extensions, cores, and how
    many threads TVM uses of them.

    Raises
    ------
    MeasureError
        If this machine has no device for the target.
    """
    machine = describe()
    facts: dict[str, object] = {"cpu": machine.cpu, "cores": machine.cores}
    if runs_on_cpu(target):
        facts.update(threads=machine.threads, simd=machine.simd)
    else:
        kind = str(target.kind.name)
        device = tvm.device(kind, 0)
        if not device.exist:
            raise MeasureError(
                f"this machine has no {kind} device (as TVM sees it), so no times belong to it: "
                "choose another target, or estimate costs by the roofline"
            )
        facts.update(
            device=device.device_name,
            compute=device.compute_version,
            driver=str(device.driver_version),
        )
    return json.dumps(facts, sort_keys=True)


def target_text(target: tvm.target.Target) -> str:
    """Return the target as canonical JSON, its host included."""
    return json.dumps(_plain(target), sort_keys=True)


def runs_on_cpu(target: tvm.target.Target) -> bool:
    """Whether kernels for this target run on a CPU."""
    return "cpu" in target.keys


def facts() -> dict[str, object]:
    """Return `describe` as a dictionary of plain values, for JSON reports."""
    return asdict(describe())


def _plain(value: object) -> object:
    """Turn TVM's own containers into what JSON knows."""
    if isinstance(value, tvm.target.Target):
        return _plain(value.export())
    if hasattr(value, "items"):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return [_plain(entry) for entry in value]  # type: ignore[attr-defined]


def _cpuinfo() -> dict[str, str]:
    """Return the entries of the first processor; empty where the system has no such file."""
    try:
        text = _CPUINFO.read_text()
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _last_level_cache_bytes() -> int:
    sizes = []
    for path in _CACHES.glob("index*/size"):
        text = path.read_text().strip()
        scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
        digits = text.rstrip("KMG")
        if digits.isdigit():
            sizes.append(int(digits) * scale)
    return max(sizes, default=_UNKNOWN_CACHE_BYTES)
