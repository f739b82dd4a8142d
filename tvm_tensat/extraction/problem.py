"""The extraction problem, its solution, and what makes a problem ill-posed.

An e-graph is given as arrays (rows are e-nodes): e-node ``n`` belongs to e-class ``node_class[n]``
and has the children ``child_class[child_start[n]:child_start[n + 1]]``. An extraction chooses at
most one e-node per class such that every root has one, every child of a chosen e-node has one, and
no class is among its own descendants. Its cost is the sum over the chosen e-nodes, each once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class ExtractionError(ValueError):
    """The problem has no solution or is not well-formed: what, where, and what to do."""


@dataclass(frozen=True)
class Problem:
    """An e-graph with costs, from which the cheapest acyclic graph is wanted.

    Parameters
    ----------
    node_class : (nodes,) int64
        The class of each e-node.
    child_start : (nodes + 1,) int64
        Offsets into ``child_class``.
    child_class : (edges,) int64
        Child classes of all e-nodes, one after the other; repetitions are allowed.
    node_cost : (nodes,) float64
        Seconds, at least 0; ``inf`` for an e-node that cannot be chosen.
    roots : (k,) int64
        Classes that must be chosen; at least one.
    forbidden : (nodes,) bool
        E-nodes that cycle filtering took out: they are never chosen.
    class_count : int
        Classes are numbered ``0 .. class_count - 1``.
    """

    node_class: Ints
    child_start: Ints
    child_class: Ints
    node_cost: Floats
    roots: Ints
    forbidden: Bools
    class_count: int


@dataclass(frozen=True)
class Solution:
    """A chosen acyclic graph, and what is known about how good it is.

    Parameters
    ----------
    choice : (classes,) int64
        The e-node chosen in each class that the roots reach; -1 elsewhere.
    cost : float
        Seconds: the exact sum over the chosen e-nodes, each counted once.
    bound : float
        Seconds: no extraction costs less. 0 where nothing was proven.
    gap : float
        ``(cost - bound) / cost``, 0 for a cost of 0.
    status : str
        ``"optimal"`` (proven, to a relative 1e-6), ``"greedy"`` or ``"local optimum"`` (no proof
        was tried) or ``"feasible: <why it stopped>"``; ``"optimal (<remark>)"`` where the solver
        needed help.
    seconds : float
        Wall-clock time of the extraction.
    method : str
        The method that was asked for.
    """

    choice: Ints
    cost: float
    bound: float
    gap: float
    status: str
    seconds: float
    method: str


def check_problem(problem: Problem) -> None:
    """Raise `ExtractionError` unless the arrays describe an e-graph with usable costs."""
    nodes = len(problem.node_class)
    if nodes == 0:
        raise ExtractionError(
            "the e-graph has no e-nodes; extraction needs at least one (was the block empty?)"
        )
    if len(problem.roots) == 0:
        raise ExtractionError("no root class is given; name the classes of the block's outputs")
    _check_lengths(problem, nodes)
    _check_classes("node_class", problem.node_class, problem.class_count)
    _check_classes("child_class", problem.child_class, problem.class_count)
    _check_classes("roots", problem.roots, problem.class_count)
    bad = np.flatnonzero(np.isnan(problem.node_cost) | (problem.node_cost < 0))
    if len(bad):
        first = int(bad[0])
        raise ExtractionError(
            f"e-node {first} of class {problem.node_class[first]} costs {problem.node_cost[first]}"
            f" ({len(bad)} such e-nodes); costs must be seconds >= 0, or inf for an e-node that"
            " cannot be chosen: correct the cost model"
        )
    with np.errstate(over="ignore"):
        total = float(problem.node_cost[np.isfinite(problem.node_cost)].sum())
    if total == float("inf"):
        raise ExtractionError(
            "the costs of the e-nodes add up to more than a float64 holds; give them in a larger"
            " unit"
        )


def _check_lengths(problem: Problem, nodes: int) -> None:
    lengths = {
        "child_start": (len(problem.child_start), nodes + 1),
        "node_cost": (len(problem.node_cost), nodes),
        "forbidden": (len(problem.forbidden), nodes),
    }
    for name, (given, expected) in lengths.items():
        if given != expected:
            raise ExtractionError(
                f"{name} has {given} entries; {expected} are expected for {nodes} e-nodes"
            )
    start, edges = problem.child_start, len(problem.child_class)
    if start[0] != 0 or start[-1] != edges or bool(np.any(np.diff(start) < 0)):
        raise ExtractionError(
            f"child_start must rise from 0 to {edges}, the length of child_class; it goes from"
            f" {start[0]} to {start[-1]}, its least step is {np.diff(start).min()}"
        )


def _check_classes(name: str, classes: Ints, count: int) -> None:
    bad = np.flatnonzero((classes < 0) | (classes >= count))
    if len(bad):
        raise ExtractionError(
            f"{name}[{bad[0]}] is class {classes[bad[0]]}; classes are 0..{count - 1}"
            " (class_count): give canonical class numbers"
        )
