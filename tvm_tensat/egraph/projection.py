"""The one law that holds for tuples of every length: field i of (x0, ..., xn) is xi."""

from __future__ import annotations

import numpy as np

from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.pattern import join


def project_tuples(graph: EGraph) -> int:
    """Merge each field of a class that holds a tuple with the tuple's operand.

    It adds no e-node, and is applied after each iteration until it finds nothing.

    Returns
    -------
    int
        Merges made.
    """
    merged = 0
    while True:
        rows = graph.usable()
        language = graph.language
        numbers = np.unique(graph.node_operator[rows]).tolist()
        described = {number: language.operator(number) for number in numbers}
        tuples = [n for n, operator in described.items() if operator.name == "tuple"]
        fields = {n: op["index"] for n, op in described.items() if op.name == "get"}
        of_tuple = rows[np.isin(graph.node_operator[rows], tuples)]
        of_field = rows[np.isin(graph.node_operator[rows], list(fields))]
        if not len(of_tuple) or not len(of_field):
            return merged
        source = graph.children(of_field, 1)[:, 0]
        left, right = join(source, graph.node_class[of_tuple], limit=len(rows) * 100)
        matched = graph.node_operator[of_field[left]].tolist()
        index = np.array([fields[number] for number in matched], np.int64)
        operand = graph.operands[graph.node_start[of_tuple[right]] + index]
        new = graph.union(graph.node_class[of_field[left]], operand)
        if not new:
            return merged
        merged += new
        graph.rebuild()
