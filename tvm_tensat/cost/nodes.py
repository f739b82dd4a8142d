"""One cost for each e-node: what choosing it adds to the running time of the compiled block.

The cost of an e-node depends on its *signature*: its operator, the types of its operands, and which
of them are weights. Three kinds:

- free: leaves, tuples, views, and what is computed from weights alone, at compile time;
- fused: elementwise work, which TVM computes inside the kernel that makes its operand: charged
  for what it adds there (its other operands' traffic and its arithmetic), not as a kernel;
- a kernel: measured when it has been chosen once, until then a roofline estimate, scaled by what
  measured kernels of its operator took against theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from tvm.target import Target

from tvm_tensat.cost.here import HERE
from tvm_tensat.cost.kernel import Kernel, Measurement, StoreKey
from tvm_tensat.cost.measure import measure
from tvm_tensat.cost.place import Place
from tvm_tensat.cost.roofline import Roofline
from tvm_tensat.cost.setting import setting_of
from tvm_tensat.cost.store import CostStore
from tvm_tensat.cost.work import Work, bytes_of, is_elementwise, is_free, work_of
from tvm_tensat.egraph.egraph import FROM_INPUT, EGraph, Ints
from tvm_tensat.egraph.language import Dim, Operator, TensorInfo, TupleInfo, TypeInfo
from tvm_tensat.relax.kernels import kernel_module
from tvm_tensat.relax.language import RelaxLanguage

# An estimate is taken this much too low, so that a kernel which may be the better one is measured.
OPTIMISM = 0.85

NO_RECORD = "the store has no time of it"


@dataclass(frozen=True)
class Signature:
    """What the cost of an e-node depends on."""

    operator: int
    types: tuple[int, ...]  # of the operands
    weights: tuple[bool, ...]  # whether the operands are known at compile time


@dataclass(frozen=True)
class Device:
    """Where costs are measured, or None for `store` to only estimate.

    Parameters
    ----------
    target : tvm.target.Target
    roofline : Roofline
    store : CostStore or None
    tuning_records : Path or None
    measures : bool
        Whether kernels that the store does not have are measured; else only the input uses them.
    place : Place
        This machine, or a farm.
    """

    target: Target
    roofline: Roofline
    store: CostStore | None
    tuning_records: Path | None = None
    measures: bool = True
    place: Place = HERE


class NodeCosts:
    """Costs of an e-graph's e-nodes, which become truer as kernels are measured.

    Attributes
    ----------
    signatures : list of Signature
    node_signature : (nodes,) int64
        Position in `signatures`.
    measured : dict of int to Measurement
        By position in `signatures`.
    """

    def __init__(self, graph: EGraph, language: RelaxLanguage, device: Device) -> None:
        self.graph = graph
        self.language = language
        self.device = device
        self.signatures: list[Signature] = []
        self._result: list[int] = []  # type of each signature's result
        self.weight_bytes = self._count_weight_bytes()
        self.node_signature = self._sign()
        self.measured: dict[int, Measurement] = {}
        self.measured_now = 0  # of them, those that were not in the store
        self._kernel: list[bool] = []  # measurable
        self._estimate: list[float] = []
        sourced = self._made_of_sources()
        for number, signature in enumerate(self.signatures):
            kind, seconds = self._estimated(number, number in sourced)
            self._kernel.append(kind == "kernel" and self._is_measurable(signature))
            self._estimate.append(seconds)
        if not device.measures:
            self._look_up()

    def costs(self) -> NDArray[np.float64]:
        """Return the seconds of each e-node, (nodes,) float64; inf where there is no time.

        The input's own e-nodes stay choosable: a kernel of the input that could not be measured
        keeps its estimate.
        """
        scale = self._scales()
        values = np.array(self._estimate)
        failed = np.zeros(len(values), np.bool_)
        for number, signature in enumerate(self.signatures):
            known = self.measured.get(number)
            if known is not None and known.seconds is not None:
                values[number] = known.seconds
            elif self._kernel[number]:
                failed[number] = known is not None
                name = self.language.operator(signature.operator).name
                values[number] *= scale.get(name, 1.0) * (1.0 if failed[number] else OPTIMISM)
        costs = values[self.node_signature]
        from_rule = self.graph.node_rule != FROM_INPUT
        costs[from_rule & failed[self.node_signature]] = np.inf
        return costs

    def unmeasured(self, nodes: Ints) -> list[int]:
        """Signatures of these e-nodes that could be measured and are not, in order of first use."""
        if self.device.store is None or not self.device.measures:
            return []
        wanted = dict.fromkeys(self.node_signature[nodes].tolist())
        return [n for n in wanted if self._kernel[n] and n not in self.measured]

    def measure(
        self,
        numbers: list[int],
        progress: Callable[[int, int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        """Measure these signatures, or take them from the store."""
        store = self.device.store
        if store is None or not numbers:
            return
        recorded: list[int] = []

        def show(done: int, total: int) -> None:
            recorded.append(done)
            if progress is not None:
                progress(done, total)

        results = measure(
            [self._as_kernel(number) for number in numbers],
            self.device.target,
            store=store,
            place=self.device.place,
            tuning_records=self.device.tuning_records,
            model_bytes=self.weight_bytes,
            progress=show,
            stop=stop,
        )
        self.measured_now += len(numbers) - recorded[0]  # the first call tells what the store has
        self.measured.update(zip(numbers, results, strict=True))

    def _look_up(self) -> None:
        """Take from the store what it has of all kernels; the others have no time."""
        device = self.device
        if device.store is None:
            return
        setting = setting_of(device.target, device.tuning_records, self.weight_bytes, device.place)
        numbers = [number for number, kernel in enumerate(self._kernel) if kernel]
        keys = [StoreKey(self.describe(number), setting) for number in numbers]
        known = device.store.get_many(keys)
        for number, key in zip(numbers, keys, strict=True):
            self.measured[number] = known.get(key, Measurement.failure(NO_RECORD))

    def describe(self, number: int) -> str:
        """Return a signature as text, which is also the key of its measured kernel."""
        signature = self.signatures[number]
        operands = [
            str(self.language.info(type_number)) + ("!" if weight else "")
            for type_number, weight in zip(signature.types, signature.weights, strict=True)
        ]
        return f"{self.language.operator(signature.operator)}({', '.join(operands)})"

    # -- signatures --------------------------------------------------------------------------

    def _sign(self) -> Ints:
        """Intern the signature of every e-node, those that congruence merged away included."""
        graph = self.graph
        number = np.empty(len(graph.node_operator), np.int64)
        arity = graph.operator_arity[graph.node_operator]
        for count in np.unique(arity).tolist():
            rows = np.flatnonzero(arity == count)
            children = graph.children(rows, count)
            operand = graph.class_type[children] * 2 + graph.class_weight[children]
            columns = np.hstack([graph.node_operator[rows][:, None], operand])
            unique, first, inverse = np.unique(
                columns, axis=0, return_index=True, return_inverse=True
            )
            self._result += graph.class_type[graph.node_class[rows[first]]].tolist()
            number[rows] = len(self.signatures) + inverse.ravel()
            for operator, *packed in unique.tolist():
                types = tuple(value // 2 for value in packed)
                weights = tuple(bool(value % 2) for value in packed)
                self.signatures.append(Signature(operator, types, weights))
        return number

    def _count_weight_bytes(self) -> int:
        """Return the size of the model's weights, which decides how cold they are when used."""
        graph = self.graph
        rows = np.flatnonzero(graph.node_rule == FROM_INPUT)
        return sum(
            bytes_of(self.language.info(type_number))
            for operator, type_number in zip(
                graph.node_operator[rows].tolist(),
                graph.class_type[graph.node_class[rows]].tolist(),
                strict=True,
            )
            if self.language.operator(operator).name == "weight"
        )

    def _made_of_sources(self) -> set[int]:
        """Signatures of e-nodes with no operand that a kernel makes, so with nothing to fuse into.

        Where e-nodes of one signature differ in that, the signature counts as fused.
        """
        graph = self.graph
        alive = np.flatnonzero(graph.node_alive)
        names = [self.language.operator(n).name for n in range(len(graph.operator_arity))]
        source = np.array([name in ("leaf", "weight", "scalar") for name in names], np.bool_)
        class_made = np.zeros(len(graph.class_type), np.bool_)
        class_made[graph.node_class[alive[~source[graph.node_operator[alive]]]]] = True
        class_made &= ~graph.class_weight
        owner, child = graph.edges(alive)
        made = np.bincount(owner, weights=class_made[child], minlength=len(alive)) > 0
        fused = set(self.node_signature[alive[made]].tolist())
        return set(self.node_signature[alive[~made]].tolist()) - fused

    # -- estimates ---------------------------------------------------------------------------

    def _estimated(self, number: int, stands_alone: bool) -> tuple[str, float]:
        """Return the kind of a signature and its estimated seconds."""
        signature = self.signatures[number]
        operator = self.language.operator(signature.operator)
        operands = [self.language.info(t) for t in signature.types]
        folded = all(signature.weights) and self.language.is_foldable(signature.operator)
        if operator.arity == 0 and operator.name in ("leaf", "weight", "scalar"):
            return "free", 0.0
        if folded or is_free(operator, operands):
            return "free", 0.0
        work = work_of(operator, operands, self.language.info(self._result[number]))
        line = self.device.roofline
        if is_elementwise(operator) and not stands_alone:
            sizes = sorted(map(bytes_of, operands))
            added = Work(work.flops, float(sum(sizes[:-1])), 0.0, work.transcendentals)
            return "fused", line.seconds_of(added) - line.launch_seconds
        return "kernel", line.seconds_of(work)

    def _scales(self) -> dict[str, float]:
        """Return how much longer than estimated the measured kernels of each operator take."""
        ratios: dict[str, list[float]] = {}
        for number, known in self.measured.items():
            if known.seconds is not None and self._estimate[number] > 0:
                name = self.language.operator(self.signatures[number].operator).name
                ratios.setdefault(name, []).append(known.seconds / self._estimate[number])
        return {name: median(values) for name, values in ratios.items()}

    # -- kernels -----------------------------------------------------------------------------

    def _is_measurable(self, signature: Signature) -> bool:
        """Whether the signature alone says what to build: static shapes, no foreign callee."""
        operator = self.language.operator(signature.operator)
        infos = [self.language.info(t) for t in signature.types]
        return _is_relax(operator) and all(map(_is_static, infos))

    def _as_kernel(self, number: int) -> Kernel:
        signature = self.signatures[number]
        weights: list[bool] = []
        for type_number, weight in zip(signature.types, signature.weights, strict=True):
            info = self.language.info(type_number)
            weights += [weight] * (len(info.fields) if isinstance(info, TupleInfo) else 1)
        return Kernel(
            kernel_module(self.language, signature.operator, signature.types),
            tuple(weights),
            self.describe(number),
        )


def _is_static(info: TypeInfo) -> bool:
    if isinstance(info, TupleInfo):
        return all(map(_is_static, info.fields))
    if not isinstance(info, TensorInfo) or info.shape is None:
        return False
    return all(isinstance(dim, int) for dim in info.shape)


def _is_relax(operator: Operator) -> bool:
    """Whether it is an operator of Relax with plain attributes, not a call of something else."""
    return operator.name.startswith("relax.") and all(map(_is_plain, dict(operator.attrs).values()))


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or (
        isinstance(value, (bool, int, float, str)) and not isinstance(value, Dim)
    )
