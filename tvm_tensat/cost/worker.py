"""What runs inside a measuring process: build one kernel, then time it.

Each function is called by `tvm_tensat.cost.measure` through TVM's process pool and returns plain
values. Whatever a kernel raises comes back as one line of text; what it breaks beyond that (a
segmentation fault, an endless loop, memory) ends this process and nothing else.
"""

from __future__ import annotations

import contextlib
import signal
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import relax

from tvm_tensat.cost.kernel import Measurement
from tvm_tensat.cost.machine import runs_on_cpu
from tvm_tensat.cost.rotation import Rotation, rotate
from tvm_tensat.cost.sanity import gave_nan
from tvm_tensat.schedule import build_pipeline

_SAMPLE_SECONDS = 1e-3
"""Calls shorter than this are timed several at once: the clock and the call cost microseconds."""
_BUDGET_SECONDS = 0.3
_PRECISION = 0.01
"""Sampling stops early when the median's standard error is below this share of it."""
_DISTURBED_SPREAD = 0.1
_ROUNDS = 3
_LEAST_SAMPLES = 5


@dataclass(frozen=True)
class Task:
    """A kernel on its way to a worker: plain values only.

    Parameters
    ----------
    module : str
        The kernel's module as ``tvm.ir.save_json`` writes it.
    weights : tuple of bool
        Which parameters are compiled in.
    target : str
        The target as JSON.
    tuning_records : str or None
        Path of the user's tuning records.
    rotation_bytes : int
        See `tvm_tensat.cost.rotation.rotate`.
    """

    module: str
    weights: tuple[bool, ...]
    target: str
    tuning_records: str | None
    rotation_bytes: int


@dataclass(frozen=True)
class Samples:
    """Seconds of one application each: median, relative interquartile range, and how many."""

    median: float
    spread: float
    count: int

    def measurement(self) -> Measurement:
        """Return what these samples say of a kernel."""
        return Measurement(self.median, self.spread, self.count, None)


class Timer:
    """A built rotation, loaded and ready to be called on its device.

    Parameters
    ----------
    machine : relax.VirtualMachine
        Has the rotation's functions.
    device : tvm.runtime.Device
        Where they run.
    rotation : Rotation
    watched : bool
        Whether they run on a core of this machine, in the thread that calls them.
    """

    def __init__(
        self,
        machine: relax.VirtualMachine,
        device: tvm.runtime.Device,
        rotation: Rotation,
        watched: bool,
    ) -> None:
        self._machine, self._device, self._watched = machine, device, watched
        self._arguments = [tvm.runtime.tensor(a, device) for a in rotation.activations]
        self._rotation = rotation
        self.copies = rotation.copies

    def why_wrong(self) -> str:
        """Say what is wrong with the kernel's results; empty when nothing is."""
        return gave_nan(self._machine, self._arguments, self._rotation)

    def seconds(self, function: str, number: int, repeat: int) -> list[float]:
        """Return `repeat` means of `number` calls each."""
        evaluate = self._machine.time_evaluator(
            function, self._device, number=number, repeat=repeat
        )
        return [float(s) for s in evaluate(*self._arguments).results]

    def undisturbed_seconds(self, function: str, number: int) -> float:
        """Return the mean of `number` calls, less the time for which others had this core.

        While a kernel runs, the calling thread computes or spins; when its CPU time is less than
        what the clock says, the system ran something else meanwhile. On a core shared by three
        busy processes that leaves a few percent of error where the clock alone is wrong 3 times.
        """
        wall, own = time.perf_counter(), time.thread_time()
        seconds = self.seconds(function, number, 1)[0]
        if not self._watched:
            return seconds
        own, wall = time.thread_time() - own, time.perf_counter() - wall
        return seconds * min(1.0, own / wall)


_built: Timer | None = None


def start(memory_bytes: int | None, target: str, tuning_records: str | None) -> None:
    """Prepare this process: it leaves Ctrl-C to its parent and cannot take all memory.

    Builds and runs a first kernel, so that the time-outs of the others need not allow for what
    only the first one does, and so that a target that never works is no kernel's fault.
    """
    restrain(memory_bytes)
    _load(first_task(target, tuning_records)).seconds("single", 1, 1)


def restrain(memory_bytes: int | None) -> None:
    """Leave Ctrl-C to the parent, and take no more memory than this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if memory_bytes is not None:
        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


def first_task(target: str, tuning_records: str | None) -> Task:
    """Return a kernel that works wherever any does."""
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.nn.relu(x))
        builder.emit_func_output(result)
    return Task(tvm.ir.save_json(builder.get()), (False,), target, tuning_records, 0)


def build_rotation(task: Task) -> tuple[tvm.runtime.Executable, Rotation]:
    """Build what a task says, with the pipeline that models are built with."""
    target = tvm.target.Target(task.target)
    rotation = rotate(tvm.ir.load_json(task.module), task.weights, task.rotation_bytes)
    records = None if task.tuning_records is None else Path(task.tuning_records)
    with target:
        pipeline = build_pipeline(target, records)
        return tvm.compile(rotation.module, target, relax_pipeline=pipeline), rotation


def _load(task: Task) -> Timer:
    """Build a kernel and load it on this machine's device."""
    executable, rotation = build_rotation(task)
    target = tvm.target.Target(task.target)
    on_cpu = runs_on_cpu(target)
    device = tvm.cpu(0) if on_cpu else tvm.device(target.kind.name, 0)
    return Timer(relax.VirtualMachine(executable, device), device, rotation, watched=on_cpu)


def build(task: Task, timeout: float) -> str | None:
    """Build a kernel and keep it in this process; return why it failed, or None."""
    global _built
    _built = None
    with deadline(timeout):
        try:
            _built = _load(task)
        except Exception as error:
            return one_line(error)
    return None


def run(repeats: int, timeout: float) -> Samples | str:
    """Time the kernel that `build` left here; return the samples, or why it failed."""
    assert _built is not None
    with deadline(timeout):
        try:
            return _built.why_wrong() or sample(_built, repeats)
        except Exception as error:
            return one_line(error)


def sample(timer: Timer, repeats: int) -> Samples:
    """Warm up, then sample until precise enough; again when something disturbed the machine."""
    once = timer.undisturbed_seconds("single", 1)
    # A kernel that takes this long spends next to nothing of it on bringing its weights in.
    function, copies = ("main", timer.copies)
    if once * timer.copies > _BUDGET_SECONDS / 2:
        function, copies = ("single", 1)
    else:
        once = min(timer.undisturbed_seconds(function, 1) for _ in range(2))
    rounds: list[Samples] = []
    while len(rounds) < _ROUNDS:
        rounds.append(_round(timer, function, copies, once, repeats))
        if rounds[-1].spread <= _DISTURBED_SPREAD or once > _BUDGET_SECONDS / _LEAST_SAMPLES:
            return rounds[-1]
    # Nothing that disturbs a machine makes a kernel faster.
    return min(rounds, key=lambda samples: samples.median)


def _round(timer: Timer, function: str, copies: int, once: float, repeats: int) -> Samples:
    number = max(1, round(_SAMPLE_SECONDS / max(once, 1e-9)))
    samples: list[float] = []
    started = time.perf_counter()
    while len(samples) < repeats:
        samples.append(timer.undisturbed_seconds(function, number))
        spent = time.perf_counter() - started
        if spent > _BUDGET_SECONDS and (len(samples) >= _LEAST_SAMPLES or spent > 1.0):
            break
        if len(samples) >= _LEAST_SAMPLES and _standard_error(samples) < _PRECISION:
            break
    return Samples(statistics.median(samples) / copies, _spread(samples), len(samples))


def _spread(samples: list[float]) -> float:
    """Return the interquartile range over the median; 0 for a single sample."""
    if len(samples) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0


def _standard_error(samples: list[float]) -> float:
    """Return the median's relative standard error, were the samples normally distributed."""
    deviation = _spread(samples) / 1.349  # a normal distribution's quartiles are 1.349 sigma apart
    return float(1.2533 * deviation / len(samples) ** 0.5)


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """End this process when the time is over.

    The pool's own time-out needs Python to run, which a kernel may never let it; an alarm does
    not. It also ends a worker that hangs after its parent is gone.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def one_line(error: BaseException) -> str:
    """Return an exception as one line: its type and the first line of what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text[:300]


def last_line(error: BaseException) -> str:
    """Return the last line of an exception that came as a traceback's text from a worker."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
