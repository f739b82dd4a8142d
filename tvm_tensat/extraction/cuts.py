"""Loop formulas: linear rows that cycles violate.

Let L be a set of classes. In an acyclic choice that contains a class of L, some chosen e-node of a
class in L has no child in L: otherwise the chosen children could be followed within L for ever.
So for every c in L::

    sum of x_i over i in c  <=  sum of x_i over the e-nodes of classes in L without a child in L

These are the loop formulas of answer set programming (F. Lin, Y. Zhao, ASSAT: computing answer
sets of a logic program by SAT solvers, 2004). Together with the rows "a chosen e-node's children
are chosen" they describe exactly the acyclic choices.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tvm_tensat.extraction.problem import Problem
from tvm_tensat.extraction.program import Rows, block


def loop_rows(problem: Problem, loops: Iterable[Iterable[int]]) -> Rows:
    """Return the loop formula of each class of each set, over e-node variables."""
    row: list[int] = []
    variable: list[int] = []
    coefficient: list[float] = []
    count = 0
    edge_node = np.repeat(np.arange(len(problem.node_class)), np.diff(problem.child_start))
    for loop in loops:
        members = np.array(sorted(loop), dtype=np.int64)
        inside = np.zeros(problem.class_count, dtype=np.bool_)
        inside[members] = True
        leads_back = np.zeros(len(problem.node_class), dtype=np.bool_)
        leads_back[edge_node[inside[problem.child_class]]] = True
        outward = np.flatnonzero(inside[problem.node_class] & ~leads_back).tolist()
        for member in members.tolist():
            nodes = np.flatnonzero(problem.node_class == member).tolist()
            row += [count] * (len(nodes) + len(outward))
            variable += nodes + outward
            coefficient += [1.0] * len(nodes) + [-1.0] * len(outward)
            count += 1
    return block(row, variable, coefficient, "<", np.zeros(count))
