"""What a chosen graph costs, and one cost for each e-node from which extraction chooses.

The cost of a graph is the sum of its kernels' times, each kernel measured as TVM fuses it, less
what is noise between kernels with the same largest operator (`NOISE`, `LOW`). No sum over e-nodes
can be that exactly, for what an operator costs depends on its neighbours; but each graph that was
measured corrects the costs of its e-nodes, so that they add up to what the graph costs. An e-node
that was in no graph yet costs what its signature cost elsewhere, or else an estimate by the
roofline, scaled by what measured kernels of its operator took against theirs and taken somewhat too
low: extraction then chooses what may be better, and that is measured next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tvm_tensat.cost.device import Device
from tvm_tensat.cost.fused import (
    GraphKernel,
    as_kernel,
    bytes_read,
    is_measurable,
    signatures_in,
)
from tvm_tensat.cost.kernel import Measurement, Setting, StoreKey
from tvm_tensat.cost.measure import measure
from tvm_tensat.cost.setting import setting_of
from tvm_tensat.cost.signatures import KERNEL, count_weight_bytes, sign
from tvm_tensat.cost.work import bytes_of
from tvm_tensat.egraph.egraph import FROM_INPUT, EGraph, Ints
from tvm_tensat.relax.language import RelaxLanguage

# An estimate is taken this much too low, so that a kernel which may be the better one is measured.
OPTIMISM = 0.85

# Kernels whose work differs by a factor of e to this power have about half the say in each other's
# estimate. Over 861 measured kernels of eight models, each estimated from the others, 0.3 gave a
# median error of 12%, 0.5 13%, 1.0 18%, a plain median over the operator 20%, the roofline 93%.
SIMILAR = 0.3
LEAST_WEIGHT = 1e-6

# Kernels with the same largest operator are measured minutes apart, and a shared machine slows down
# by as much meanwhile. What a kernel takes more or less than the others make it expected to take
# counts beyond that only. NasRNN's kernels around one product took 92 to 156 us when timed one by
# one, and 91 on average in the model: choosing by such differences was choosing by chance.
NOISE = 0.3

# Nothing that disturbs a machine makes a kernel faster, so of what an operator took in several
# kernels a low one is believed; not the lowest, since the estimates of the rest may be too high.
LOW = 0.25

# Of a fused kernel's time, what its smaller operators are charged at most.
MOST_OF_OTHERS = 0.5

Floats = NDArray[np.float64]

NO_RECORD = "the store has no time of it"


class NodeCosts:
    """Costs of an e-graph's e-nodes, which become truer as graphs are measured.

    Attributes
    ----------
    signatures : list of Signature
    node_signature : (nodes,) int64
        Position in `signatures`.
    measured : dict of str to Measurement
        By the kernel's key.
    measured_now : int
        Of them, those that were not in the store.
    """

    def __init__(self, graph: EGraph, language: RelaxLanguage, device: Device) -> None:
        self.graph = graph
        self.language = language
        self.device = device
        self.signatures, self.node_signature = sign(graph)
        self.weight_bytes = count_weight_bytes(graph, language)
        self.measured: dict[str, Measurement] = {}
        self.measured_now = 0
        estimates = [s.estimate(language, device.roofline) for s in self.signatures]
        self._kind = np.array([estimate.kind for estimate in estimates])
        self._estimate = np.array([estimate.seconds for estimate in estimates])
        self._work = np.log1p(
            [(e.work.flops, e.work.bytes_read, e.work.bytes_written) for e in estimates]
        )
        names = [language.operator(signature.operator).name for signature in self.signatures]
        self._name = np.unique(names, return_inverse=True)[1].ravel()
        self._anchored: dict[int, dict[str, float]] = {}  # signature -> its seconds by kernel
        self._learned: dict[int, float] = {}  # row -> seconds in a graph whose cost is known
        self._exact: set[int] = set()  # of them, those in a measured kernel
        self._failed: set[int] = set()  # rows of kernels that have no time
        self._recorded = None if device.measures else self._signatures_recorded()

    # -- graphs --------------------------------------------------------------------------------

    def unmeasured(self, kernels: Iterable[GraphKernel]) -> list[GraphKernel]:
        """Return those that could be measured and are not, each only once."""
        if self.device.store is None:
            return []
        wanted = {kernel.key: kernel for kernel in kernels if kernel.key not in self.measured}
        return [kernel for kernel in wanted.values() if is_measurable(kernel, self.language)]

    def without_anchor(self, kernels: Iterable[GraphKernel]) -> list[GraphKernel]:
        """Return those whose largest operator was the largest in no measured kernel yet."""
        scale = self._scales()
        found = []
        for kernel in kernels:
            numbers, _, largest = self._parts(kernel, scale)
            is_known = numbers[largest] in self._anchored
            if self._kind[numbers[largest]] == KERNEL and not is_known:
                found.append(kernel)
        return found

    def measure(
        self,
        kernels: Sequence[GraphKernel],
        progress: Callable[[int, int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        """Measure these kernels, or take their times from the store."""
        device = self.device
        if device.store is None or not kernels:
            return
        if not device.measures:
            setting = self._setting()
            keys = {kernel.key: StoreKey(kernel.key, setting) for kernel in kernels}
            known = device.store.get_many(list(keys.values()))
            for text, key in keys.items():
                self.measured[text] = known.get(key, Measurement.failure(NO_RECORD))
            return
        recorded: list[int] = []

        def show(done: int, total: int) -> None:
            recorded.append(done)
            if progress is not None:
                progress(done, total)

        results = measure(
            [as_kernel(kernel, self.language) for kernel in kernels],
            device.target,
            store=device.store,
            place=device.place,
            tuning_records=device.tuning_records,
            model_bytes=self.weight_bytes,
            progress=show,
            stop=stop,
        )
        self.measured_now += len(kernels) - recorded[0]  # the first call tells what the store has
        self.measured.update((k.key, m) for k, m in zip(kernels, results, strict=True))

    def seconds(self, kernels: Sequence[GraphKernel]) -> float:
        """Return what a graph costs; inf where a kernel that the input does not have failed."""
        scale = self._scales()
        return float(sum(self._seconds_of(kernel, scale) for kernel in kernels))

    def learn(self, kernels: Sequence[GraphKernel]) -> None:
        """Correct the costs of a graph's e-nodes so that they add up to what it costs.

        A kernel's time, less the estimates of its smaller operators, is its largest operator's.
        What an e-node cost in several kernels counts at its lowest, in measured ones if any were.
        """
        scale = self._scales()
        for kernel in kernels:
            measured = self._measured_seconds(kernel)
            numbers, parts, largest = self._parts(kernel, scale)
            if measured is not None and self._kind[numbers[largest]] == KERNEL:
                others = min(float(parts.sum() - parts[largest]), MOST_OF_OTHERS * measured)
                times = self._anchored.setdefault(int(numbers[largest]), {})
                times[kernel.key] = measured - others
        scale = self._scales()
        for kernel in kernels:
            seconds = self._seconds_of(kernel, scale)
            if not np.isfinite(seconds):
                self._failed.update(row for row in kernel.rows if self._is_new(row))
                continue
            _, parts, largest = self._parts(kernel, scale)
            others = float(parts.sum() - parts[largest])
            most = min(others, MOST_OF_OTHERS * seconds)
            if others > 0:
                parts *= most / others
            parts[largest] = seconds - most
            is_measured = self._measured_seconds(kernel) is not None
            for row, part in zip(kernel.rows, parts.tolist(), strict=True):
                if is_measured and row not in self._exact:
                    self._learned[row] = part
                    self._exact.add(row)
                elif is_measured or row not in self._exact:
                    self._learned[row] = min(part, self._learned.get(row, np.inf))

    def _measured_seconds(self, kernel: GraphKernel) -> float | None:
        known = self.measured.get(kernel.key)
        return None if known is None else known.seconds

    def _parts(self, kernel: GraphKernel, scale: Floats) -> tuple[Ints, Floats, int]:
        """Return a kernel's signatures, their estimated seconds, and which is the largest."""
        numbers = self.node_signature[np.array(kernel.rows)]
        parts = self._estimate[numbers] * scale[numbers]
        largest = int(np.lexsort((parts, self._kind[numbers] == KERNEL))[-1])
        return numbers, parts, largest

    def _seconds_of(self, kernel: GraphKernel, scale: Floats) -> float:
        measured = self._measured_seconds(kernel)
        failed = measured is None and kernel.key in self.measured
        if failed and any(map(self._is_new, kernel.rows)):
            return np.inf
        numbers, parts, largest = self._parts(kernel, scale)
        total = float(parts.sum())
        if (anchored := self._anchored.get(int(numbers[largest]))) is not None:
            expected = total - float(parts[largest]) + _low(anchored)
            if measured is None:
                return expected
            apart = max(abs(measured - expected) - NOISE * expected, 0.0)
            return expected + apart * float(np.sign(measured - expected))
        if measured is not None:
            return measured
        if self._kind[numbers[largest]] == KERNEL:
            return total
        line = self.device.roofline
        # Only elementwise work and views: what they read and write decides.
        moved = bytes_read(kernel, self.language)
        moved += bytes_of(self.language.info(self.signatures[numbers[-1]].result))
        return max(total, line.seconds(0.0, moved, 0.0, 0.0))

    def _is_new(self, row: int) -> bool:
        """Whether a rule made this e-node; the input's stay choosable whatever happens."""
        return bool(self.graph.node_rule[row] != FROM_INPUT)

    # -- e-nodes -------------------------------------------------------------------------------

    def costs(self) -> Floats:
        """Return the seconds of each e-node, (nodes,) float64; inf where there is no time."""
        values = self._estimate * self._scales()
        kernel = self._kind == KERNEL
        if self.device.store is not None:
            values[kernel] *= OPTIMISM
        for number, times in self._anchored.items():
            values[number] = _low(times)
        costs = values[self.node_signature]
        costs[self.without_time(kernel)] = np.inf
        if self._learned:
            costs[list(self._learned)] = list(self._learned.values())
        if self._failed:
            costs[list(self._failed)] = np.inf
        return costs

    def guessed(self) -> NDArray[np.bool_]:
        """Return which e-nodes' kernels were in no measured graph, (nodes,) bool."""
        unknown = self._kind == KERNEL
        unknown[list(self._anchored)] = False
        guessed = unknown[self.node_signature]
        guessed[list(self._learned)] = False
        return guessed

    def without_time(self, kernel: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which new e-nodes' kernels the store knows nothing of, if it is all there is."""
        if self._recorded is None:
            return np.zeros(len(self.node_signature), np.bool_)
        unknown = np.array(
            [
                is_kernel and signature.text(self.language) not in self._recorded
                for signature, is_kernel in zip(self.signatures, kernel.tolist(), strict=True)
            ],
            np.bool_,
        )
        return unknown[self.node_signature] & (self.graph.node_rule != FROM_INPUT)

    def _setting(self) -> Setting:
        device = self.device
        return setting_of(device.target, device.tuning_records, self.weight_bytes, device.place)

    def _signatures_recorded(self) -> set[str] | None:
        """Return the signatures in the store's kernels of this setting; None without a store."""
        device = self.device
        if device.store is None:
            return None
        setting = self._setting()
        return {
            text
            for key, known in device.store.get_setting(setting).items()
            if known.seconds is not None
            for text in signatures_in(key)
        }

    def _scales(self) -> Floats:
        """Return how much longer than estimated each signature's kernel probably takes.

        A mean (of logarithms) over the measured kernels of the same operator, in which those of
        similar work count most: a kernel regression after Nadaraya and Watson (1964).
        """
        scale = np.ones(len(self.signatures))
        measured = np.array([n for n in self._anchored if self._estimate[n] > 0], np.int64)
        times = [_low(self._anchored[n]) for n in measured.tolist()]
        ratio = np.log(np.array(times) / self._estimate[measured])
        for name in np.unique(self._name[measured]).tolist():
            some = np.flatnonzero(self._name == name)
            known = self._name[measured] == name
            apart = self._work[some][:, None] - self._work[measured[known]][None]  # (., known, 3)
            weight = np.exp(-0.5 * (apart**2).sum(2) / SIMILAR**2) + LEAST_WEIGHT
            scale[some] = np.exp(weight @ ratio[known] / weight.sum(1))
        return scale


def _low(times: Mapping[str, float]) -> float:
    return float(np.quantile(list(times.values()), LOW))
