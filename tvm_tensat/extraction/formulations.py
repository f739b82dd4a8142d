"""TENSAT's integer program for extraction, as published.

Yang et al., Equality Saturation for Tensor Graph Superoptimization, MLSys 2021, section 5.1, with
x_i = 1 when e-node i is chosen, e_m the e-nodes of class m, g(i) the class of i, h_i its child
classes and M the number of classes::

    minimize    sum of c_i x_i
    subject to  sum of x_i over e_root = 1                                     (each root)
                x_i <= sum of x_j over e_m                     (each i, each m in h_i)
                t_g(i) - t_m - eps + A (1 - x_i) >= 0          (each i, each m in h_i)
                x_i in {0, 1},  0 <= t_m <= 1

The last rows make the choice acyclic: along a chosen edge the order t falls by at least eps. With
real t, eps < 1/M; with integer t in 0..M-1, 1 stands for eps and A >= M. Without them the program
is right for e-graphs whose cycles were filtered; on others its solution can contain cycles, which
are then excluded by loop formulas (see `tvm_tensat.extraction.cuts`) and the program is solved
again. E-nodes that cycle filtering took out, and those of infinite cost, are fixed to 0.

The program is written for the part of the e-graph that the roots reach.
"""

from __future__ import annotations

import numpy as np

from tvm_tensat.extraction.problem import Floats, Ints, Problem
from tvm_tensat.extraction.program import Program, Rows, block

ORDERS = ("real", "integer", "none")


def tensat_program(problem: Problem, order: str, scale: float) -> Program:
    """Return TENSAT's integer program; its first variables are the e-nodes, then the orders.

    Parameters
    ----------
    problem : Problem
        Trimmed to what the roots reach.
    order : {"real", "integer", "none"}
        The order variables that exclude cycles.
    scale : float
        Factor on the costs.
    """
    nodes, classes = len(problem.node_class), problem.class_count
    usable = np.isfinite(problem.node_cost) & ~problem.forbidden
    cost = np.where(usable, problem.node_cost, 0.0) * scale
    upper = usable.astype(np.float64)
    integer = np.ones(nodes, dtype=np.bool_)
    blocks = [_root_rows(problem), _child_rows(problem)]
    if order != "none":
        cost = np.concatenate([cost, np.zeros(classes)])
        highest = 1.0 if order == "real" else classes - 1.0
        upper = np.concatenate([upper, np.full(classes, highest)])
        integer = np.concatenate([integer, np.full(classes, order == "integer")])
        blocks.append(_order_rows(problem, order))
    return Program(cost, upper, integer, blocks)


def edges(problem: Problem) -> tuple[Ints, Ints]:
    """Return the distinct (e-node, child class) pairs, as two arrays."""
    node = np.repeat(np.arange(len(problem.node_class)), np.diff(problem.child_start))
    pairs = np.unique(node * problem.class_count + problem.child_class)
    return pairs // problem.class_count, pairs % problem.class_count


def _root_rows(problem: Problem) -> Rows:
    roots = np.unique(problem.roots)
    is_root = np.isin(problem.node_class, roots)
    variable = np.flatnonzero(is_root)
    row = np.searchsorted(roots, problem.node_class[is_root])
    return block(row, variable, 1.0, "=", np.ones(len(roots)))


def _child_rows(problem: Problem) -> Rows:
    node, child = edges(problem)
    by_class = np.argsort(problem.node_class, kind="stable")
    size = np.bincount(problem.node_class, minlength=problem.class_count)
    first = np.concatenate([[0], np.cumsum(size)])
    # Row r holds every e-node of class child[r]: concatenated ranges of by_class.
    length = size[child]
    row = np.repeat(np.arange(len(node)), length)
    inside = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
    member = by_class[first[child][row] + inside]
    return block(
        np.concatenate([np.arange(len(node)), row]),
        np.concatenate([node, member]),
        np.concatenate([np.ones(len(node)), -np.ones(len(row))]),
        "<",
        np.zeros(len(node)),
    )


def _order_rows(problem: Problem, order: str) -> Rows:
    node, child = edges(problem)
    nodes, classes = len(problem.node_class), problem.class_count
    step, big = (1.0 / (classes + 1), 2.0) if order == "real" else (1.0, float(classes))
    row = np.arange(len(node))
    ones = np.ones(len(node))
    return block(
        np.concatenate([row, row, row]),
        np.concatenate([nodes + problem.node_class[node], nodes + child, node]),
        np.concatenate([ones, -ones, -big * ones]),
        ">",
        np.full(len(node), step - big),
    )


def order_values(problem: Problem, choice: Ints, order: str) -> Floats:
    """Return values of the order variables that fit an acyclic choice (for a warm start)."""
    level = np.zeros(problem.class_count)
    for number in topological(problem, choice):
        node = choice[number]
        children = problem.child_class[problem.child_start[node] : problem.child_start[node + 1]]
        if len(children):
            level[number] = level[children].max() + 1
    return level if order == "integer" else level / (problem.class_count + 1)


def topological(problem: Problem, choice: Ints) -> list[int]:
    """Return the classes that an acyclic choice reaches, children before parents."""
    start = problem.child_start.tolist()
    seen: set[int] = set()
    order: list[int] = []
    stack = [(root, False) for root in problem.roots.tolist()]
    while stack:
        number, done = stack.pop()
        if done:
            order.append(number)
        elif number not in seen:
            seen.add(number)
            stack.append((number, True))
            node = int(choice[number])
            children = problem.child_class[start[node] : start[node + 1]].tolist()
            stack.extend((child, False) for child in children if child not in seen)
    return order
