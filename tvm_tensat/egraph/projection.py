"""The one law that holds for tuples of every length: field i of (x0, ..., xn) is xi."""

from __future__ import annotations

import numpy as np

from tvm_tensat.egraph.egraph import EGraph, Ints
from tvm_tensat.egraph.journal import PROJECTION
from tvm_tensat.egraph.operators import TUPLE
from tvm_tensat.egraph.pattern import join


def project_tuples(graph: EGraph) -> Ints:
    """Merge each field of a class that holds a tuple with the tuple's operand.

    It adds no e-node, and is applied after each iteration until it finds nothing.

    Returns
    -------
    (e-nodes,) int64
        A field and a tuple that contains what it stands for lie on a cycle; the newer of each two.
        A tuple of the fields of a product that was cut in two must not hide those fields.
    """
    projected: list[Ints] = [np.empty(0, np.int64)]
    while True:
        rows = graph.usable()
        field = graph.operators.field[graph.node_operator[rows]]
        taken = np.flatnonzero(field >= 0)
        of_tuple = rows[np.flatnonzero(field == TUPLE)]
        if not len(of_tuple) or not len(taken):
            break
        of_field = rows[taken]
        source = graph.children(of_field, 1)[:, 0]
        left, right = join(source, graph.node_class[of_tuple], limit=len(rows) * 100)
        operand = graph.operands[graph.node_start[of_tuple[right]] + field[taken[left]]]
        projected.append(np.maximum(of_field[left], of_tuple[right]))
        if not graph.union(of_field[left], operand, PROJECTION - of_tuple[right]):
            break
        graph.rebuild()
    return np.unique(np.concatenate(projected))
