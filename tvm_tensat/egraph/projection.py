"""The one law that holds for tuples of every length: field i of (x0, ..., xn) is xi."""

from __future__ import annotations

import numpy as np

from tvm_tensat.egraph.columns import first_of_equals
from tvm_tensat.egraph.egraph import EGraph, Ints
from tvm_tensat.egraph.journal import PROJECTION
from tvm_tensat.egraph.pattern import join


def project_tuples(graph: EGraph) -> Ints:
    """Merge each field of a class that holds a tuple with the tuple's operand.

    It adds no e-node, and is applied after each iteration until it finds nothing.

    Returns
    -------
    (e-nodes,) int64
        The fields that were merged with an operand.
    """
    tuples, gets = graph.operators.named("tuple"), graph.operators.named("get")
    projected = [np.empty(0, np.int64)]
    while tuples and gets:
        rows = graph.usable()
        kind = graph.operators.kind[graph.node_operator[rows]]
        which = np.zeros(len(graph.operators.kind), np.int8)  # by kind
        which[tuples], which[gets] = 1, 2
        of_tuple, of_field = (rows[np.flatnonzero(which[kind] == each)] for each in (1, 2))
        if not len(of_tuple) or not len(of_field):
            break
        source = graph.children(of_field, 1)[:, 0]
        left, right = join(source, graph.node_class[of_tuple], limit=len(rows) * 100)
        operator, _, group = first_of_equals(graph.node_operator[of_field[left]])
        fields = [graph.language.operator(number)["index"] for number in operator.tolist()]
        index = np.array(fields, np.int64)[group]
        operand = graph.operands[graph.node_start[of_tuple[right]] + index]
        projected.append(of_field[left])
        if not graph.union(of_field[left], operand, np.full(len(left), PROJECTION)):
            break
        graph.rebuild()
    return np.unique(np.concatenate(projected))
