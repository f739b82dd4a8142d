"""What the cost of an e-node depends on: its signature, interned for a whole e-graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_tensat.cost.fused import signature_text
from tvm_tensat.cost.roofline import Roofline
from tvm_tensat.cost.work import Work, bytes_of, is_elementwise, is_free, work_of
from tvm_tensat.egraph.egraph import FROM_INPUT, EGraph, Ints
from tvm_tensat.relax.language import RelaxLanguage

FREE, FUSED, KERNEL = "free", "fused", "kernel"


@dataclass(frozen=True)
class Estimate:
    """What an operator costs, before anything was measured.

    Parameters
    ----------
    kind : str
        `FREE`, `FUSED` or `KERNEL`.
    seconds : float
        By the roofline.
    work : Work
        What it adds to the kernel that it is part of.
    """

    kind: str
    seconds: float
    work: Work


@dataclass(frozen=True)
class Signature:
    """An operator applied to operands of some types.

    Parameters
    ----------
    operator : int
    types : tuple of int
        Of the operands.
    weights : tuple of bool
        Whether the operands are known at compile time.
    result : int
        Type of the result.
    """

    operator: int
    types: tuple[int, ...]
    weights: tuple[bool, ...]
    result: int

    def text(self, language: RelaxLanguage) -> str:
        """Return what identifies it in the keys of kernels."""
        infos = [language.info(number) for number in self.types]
        return signature_text(language.operator(self.operator), infos, self.weights)

    def estimate(self, language: RelaxLanguage, line: Roofline) -> Estimate:
        """Estimate what it costs.

        - free: leaves, tuples, views, and what is computed from weights alone, at compile time;
        - fused: elementwise work, which TVM computes inside the kernel that makes its operand: its
          other operands' traffic and its arithmetic, without a launch;
        - kernel: everything else.
        """
        operator = language.operator(self.operator)
        operands = [language.info(number) for number in self.types]
        folded = all(self.weights) and language.is_foldable(self.operator)
        if operator.arity == 0 and operator.name in ("leaf", "weight", "scalar"):
            return Estimate(FREE, 0.0, Work())
        if folded or is_free(operator, operands):
            return Estimate(FREE, 0.0, Work())
        work = work_of(operator, operands, language.info(self.result))
        if is_elementwise(operator):
            sizes = sorted(map(bytes_of, operands))
            added = Work(work.flops, float(sum(sizes[:-1])), 0.0, work.transcendentals)
            return Estimate(FUSED, line.seconds_of(added) - line.launch_seconds, added)
        return Estimate(KERNEL, line.seconds_of(work), work)


def sign(graph: EGraph) -> tuple[list[Signature], Ints]:
    """Return the signatures of an e-graph and, by row, the position of each e-node's.

    E-nodes that congruence merged away are included.
    """
    signatures: list[Signature] = []
    number = np.empty(len(graph.node_operator), np.int64)
    arity = graph.operator_arity[graph.node_operator]
    for count in np.unique(arity).tolist():
        rows = np.flatnonzero(arity == count)
        children = graph.children(rows, count)
        operand = graph.class_type[children] * 2 + graph.class_weight[children]
        columns = np.hstack([graph.node_operator[rows][:, None], operand])
        unique, first, inverse = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        results = graph.class_type[graph.node_class[rows[first]]].tolist()
        number[rows] = len(signatures) + inverse.ravel()
        for (operator, *packed), result in zip(unique.tolist(), results, strict=True):
            types = tuple(value // 2 for value in packed)
            weights = tuple(bool(value % 2) for value in packed)
            signatures.append(Signature(operator, types, weights, result))
    return signatures, number


def count_weight_bytes(graph: EGraph, language: RelaxLanguage) -> int:
    """Return the size of the input's weights, which decides how cold they are when used."""
    rows = np.flatnonzero(graph.node_rule == FROM_INPUT)
    return sum(
        bytes_of(language.info(type_number))
        for operator, type_number in zip(
            graph.node_operator[rows].tolist(),
            graph.class_type[graph.node_class[rows]].tolist(),
            strict=True,
        )
        if language.operator(operator).name == "weight"
    )
