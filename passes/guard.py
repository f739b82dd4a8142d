"""Guards: a result that is wrong or not faster is not returned.

Modules are built once with the pipeline that users deploy; their outputs are compared on random
inputs, then they are timed in turn, so that a machine whose speed drifts slows all of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from tvm import relax

from tvm_tensat.cost import machine_lock
from tvm_tensat.schedule import build_pipeline

# Relative to the largest magnitude of an output, for one operator; errors of a chain of operators
# add up like a random walk, so the tolerance grows with the root of their number.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}

RACE_SECONDS = 12.0  # for all modules together, within these numbers of rounds
FEWEST_ROUNDS, MOST_ROUNDS = 9, 41
ROUND_SECONDS = 0.02  # at least this long, so that the clock and the VM's start do not matter


class CannotRun(Exception):
    """Why a function cannot be run on random inputs here."""


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
        Lower quartile of that ratio: above 1 when the module won three rounds in four.
    """

    function: str
    modules: tuple[str, ...]
    seconds: tuple[float, ...]
    spread: tuple[float, ...]
    ratios: tuple[float, ...]
    sure: tuple[float, ...]


def device_of(target: tvm.target.Target) -> tvm.runtime.Device | None:
    """Return the device on this machine that code for a target runs on, if there is one."""
    kind = target.kind.name
    if kind in ("llvm", "c"):
        triple = dict(target.attrs).get("mtriple")
        native = tvm.target.codegen.llvm_get_system_triple().split("-")[0]
        return tvm.cpu() if triple is None or str(triple).startswith(native) else None
    device = tvm.device(kind)
    return device if device.exist else None


def build(
    module: tvm.IRModule, target: tvm.target.Target, tuning_records: Path | None
) -> relax.VirtualMachine:
    """Build a module with the pipeline that users deploy and load it."""
    executable = tvm.compile(module, target, relax_pipeline=build_pipeline(target, tuning_records))
    return relax.VirtualMachine(executable, device_of(target))


def random_inputs(function: relax.Function, seed: int) -> list[np.ndarray[Any, Any]]:
    """Draw an array for each parameter: normal floats, small integers, coins.

    Raises
    ------
    CannotRun
        When a parameter is no tensor of known shape and dtype.
    """
    generator = np.random.default_rng(seed)
    sizes: dict[Any, int] = {}
    arrays = []
    for parameter in function.params:
        ty = parameter.ty
        if not isinstance(ty, relax.TensorType) or ty.shape is None or not ty.dtype:
            raise CannotRun(f"parameter {parameter.name} is no tensor of known shape and dtype")
        shape = tuple(_size(dim, sizes, parameter.name) for dim in ty.shape)
        arrays.append(_draw(generator, shape, str(ty.dtype)))
    return arrays


def _size(dim: Any, sizes: dict[Any, int], where: str) -> int:
    """Choose the extent of a dimension: its own, or 8 for a symbolic variable."""
    if isinstance(dim, (int, tvm.tirx.IntImm)):
        return int(dim)
    if isinstance(dim, tvm.tirx.Var):
        return sizes.setdefault(dim, 8)
    raise CannotRun(f"parameter {where} has the computed dimension {dim}")


def _draw(
    generator: np.random.Generator, shape: tuple[int, ...], dtype: str
) -> np.ndarray[Any, Any]:
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype == "bfloat16":
        return generator.standard_normal(shape).astype(ml_dtypes.bfloat16)
    if dtype.startswith("float") and dtype in TOLERANCE:
        return generator.standard_normal(shape).astype(dtype)
    if dtype.startswith(("int", "uint")):
        return generator.integers(0, 2, shape).astype(dtype)
    raise CannotRun(f"no random inputs of dtype {dtype}")


def run(
    machine: relax.VirtualMachine, name: str, inputs: Sequence[tvm.runtime.Tensor]
) -> list[np.ndarray[Any, Any]]:
    """Run a function and return its outputs, tuples flattened."""
    return _flatten(machine[name](*inputs))


def _flatten(value: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(value, tvm.runtime.Tensor):
        return [value.numpy()]
    if hasattr(value, "__len__") and not isinstance(value, str):
        return [array for field in value for array in _flatten(field)]
    return []


def difference(
    expected: Sequence[np.ndarray[Any, Any]], actual: Sequence[np.ndarray[Any, Any]], depth: int
) -> str | None:
    """Say how outputs differ more than rounding explains, or None when they agree.

    Parameters
    ----------
    expected, actual : sequence of arrays
    depth : int
        Number of operators between inputs and outputs.
    """
    if len(expected) != len(actual):
        return f"{len(actual)} outputs instead of {len(expected)}"
    for number, (want, have) in enumerate(zip(expected, actual, strict=True)):
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"output {number} is {have.dtype}{have.shape}, not {want.dtype}{want.shape}"
        relative = TOLERANCE.get(str(want.dtype), 0.0) * np.sqrt(max(depth, 1))
        want, have = want.astype(np.float64), have.astype(np.float64)
        finite = np.isfinite(want)
        if not np.array_equal(finite, np.isfinite(have)):
            return f"output {number} has NaN or infinities elsewhere"
        if not np.array_equal(want[~finite], have[~finite], equal_nan=True):
            return f"output {number} has other NaN or infinities"
        scale = np.abs(want[finite]).max(initial=0.0)
        worst = np.abs(want[finite] - have[finite]).max(initial=0.0)
        if worst > relative * scale:
            return (
                f"output {number} is off by {worst:.3g} where the largest value is {scale:.3g} "
                f"(tolerance {relative * scale:.3g})"
            )
    return None


def race(
    machines: Mapping[str, relax.VirtualMachine],
    name: str,
    inputs: Sequence[tvm.runtime.Tensor],
    device: tvm.runtime.Device,
    rounds: int | None = None,
) -> Race:
    """Time a function of several machines in turn, having the machine alone.

    Parameters
    ----------
    rounds : int, optional
        Timings of each module; by default as many as `RACE_SECONDS` allow.
    """
    with machine_lock(exclusive=True):
        return _race(machines, name, inputs, device, rounds)


def _race(
    named: Mapping[str, relax.VirtualMachine],
    name: str,
    inputs: Sequence[tvm.runtime.Tensor],
    device: tvm.runtime.Device,
    rounds: int | None,
) -> Race:
    machines = list(named.values())
    for machine in machines:
        machine[name](*inputs)  # warm up: pages, caches, threads
    once = [_time(machine, name, inputs, device, 1) for machine in machines]
    numbers = [max(1, round(ROUND_SECONDS / max(seconds, 1e-7))) for seconds in once]
    if rounds is None:
        fitting = int(RACE_SECONDS / np.dot(once, numbers))
        rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, fitting))
    times = np.empty((rounds, len(machines)))
    for turn in range(rounds):
        # The order alternates, so that no module always runs after the same one.
        order = range(len(machines)) if turn % 2 == 0 else reversed(range(len(machines)))
        for k in order:
            times[turn, k] = _time(machines[k], name, inputs, device, numbers[k])
    middle = np.median(times, axis=0)
    low, high = np.percentile(times, [25, 75], axis=0)
    ratios = times[:, :1] / times
    return Race(
        name,
        tuple(named),
        tuple(middle.tolist()),
        tuple(((high - low) / middle).tolist()),
        tuple(np.median(ratios, axis=0).tolist()),
        tuple(np.percentile(ratios, 25, axis=0).tolist()),
    )


def _time(
    machine: relax.VirtualMachine,
    name: str,
    inputs: Sequence[tvm.runtime.Tensor],
    device: tvm.runtime.Device,
    number: int,
) -> float:
    function = machine[name]
    device.sync()
    began = time.perf_counter()
    for _ in range(number):
        function(*inputs)
    device.sync()
    return (time.perf_counter() - began) / number
