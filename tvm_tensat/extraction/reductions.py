"""Reductions that keep an optimum: what cannot be in a cheaper extraction than the best known one.

On top of the rules of `tvm_tensat.extraction.graph`, with must sets (`tvm_tensat.extraction.must`)
and the cost of the incumbent, repeated until hardly anything changes:

- a class without a derivation, or that the roots do not reach, is dropped;
- an e-node whose must set contains its own class would close a cycle: dropped;
- a child that another child's derivations always contain needs no mention;
- an e-node is dropped when the least costs of its must set and of the roots' exceed the incumbent;
- an e-node is dropped when another of its class costs no more and needs only what the first one
  must have anyway;
- classes in the must set of a root become roots;
- a root as a child needs no mention, unless the two lie in one strongly connected component,
  where the edge can be part of a cycle.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from tvm_tensat.extraction.bits import Weights
from tvm_tensat.extraction.graph import MOST_COMPARED, Graph
from tvm_tensat.extraction.must import MustSets, must_sets
from tvm_tensat.extraction.problem import Ints, Problem

# Extractions that are not cheaper than the incumbent by more than this (relative) are dropped.
# It covers the rounding of sums, and is far below the tolerance of a proof.
TIE_TOLERANCE = 1e-9

# A round that drops less than this share of the edges is the last one: the next one drops even
# less, and takes as long.
WORTH_A_ROUND = 0.01


@dataclass(frozen=True)
class Reduced:
    """What is left of a problem.

    Parameters
    ----------
    problem : Problem
        The rest; without e-nodes when reductions alone solved the problem.
    members : list of tuple of int
        The e-nodes of the given problem that each e-node stands for.
    offset : float
        The cost that every solution has on top of the rest's.
    closed : bool
        Whether no extraction is cheaper than the incumbent (within `TIE_TOLERANCE`).
    graph : Graph
        For lifting.
    """

    problem: Problem
    members: list[tuple[int, ...]]
    offset: float
    closed: bool
    graph: Graph

    def lift(self, nodes: Ints) -> Ints:
        """Return the choice in the given problem that chosen e-nodes of the rest stand for."""
        return self.graph.lift(member for node in nodes.tolist() for member in self.members[node])


def reduce_problem(problem: Problem, incumbent: float, deadline: float) -> Reduced:
    """Reduce a problem for as long as a round drops a share of it worth the round's time.

    Parameters
    ----------
    problem : Problem
        Restricted to what the roots reach.
    incumbent : float
        The cost of the best known extraction, in the unit of the problem.
    deadline : float
        In `time.monotonic` seconds; the rest is returned as it is then.
    """
    graph = Graph(problem)
    graph.settle()
    _drop_useless(graph)
    while not graph.closed and time.monotonic() < deadline:
        before = graph.size
        if not _apply_must_sets(graph, incumbent):
            break
        graph.settle()
        _drop_useless(graph)
        if graph.size > (1 - WORTH_A_ROUND) * before:
            break
    return _rest(graph)


def _drop_useless(graph: Graph) -> None:
    """Drop what has no derivation or is not reached; must sets and solvers need that."""
    _drop_underivable(graph)
    _drop_unreachable(graph)
    graph.settle()


def _drop_underivable(graph: Graph) -> None:
    waiting = {}
    ready = []
    derived: set[int] = set()
    for number in graph.live_classes():
        for node in graph.nodes[number]:
            waiting[node] = len(graph.children[node])
            if not graph.children[node]:
                ready.append(number)
    while ready:
        number = ready.pop()
        if number in derived:
            continue
        derived.add(number)
        for parent in graph.parents[number]:
            waiting[parent] -= 1
            if waiting[parent] == 0:
                ready.append(graph.owner[parent])
    for number in graph.live_classes():
        if number not in derived:
            for node in list(graph.nodes[number]):
                graph.remove_node(node)


def _drop_unreachable(graph: Graph) -> None:
    reached: set[int] = set()
    stack = list(graph.roots)
    while stack:
        number = stack.pop()
        if number not in reached:
            reached.add(number)
            for node in graph.nodes[number]:
                stack.extend(graph.children[node])
    for number in graph.live_classes():
        if number not in reached:
            for node in list(graph.nodes[number]):
                graph.remove_node(node)


def _apply_must_sets(graph: Graph, incumbent: float) -> bool:
    """Apply the rules that need must sets once; return whether anything changed."""
    sets = must_sets(graph)
    needed = sets.of_children(graph.roots)
    changed = False
    for number in sets.classes(needed):
        if number not in graph.roots:
            graph.add_root(number)
            changed = True
    # What every extraction contains is counted once, for all e-nodes; below it weighs nothing.
    base = graph.offset
    weights = Weights(len(sets.class_at))
    for number in sets.class_at:
        least = min(graph.cost[node] for node in graph.nodes[number])
        is_needed = needed >> sets.bit[number] & 1
        base += least if is_needed else 0.0
        weights.append(0.0 if is_needed else least)
    for number in sets.class_at:
        is_needed = needed >> sets.bit[number] & 1
        least = min(graph.cost[node] for node in graph.nodes[number]) if is_needed else 0.0
        limit = incumbent * (1 - TIE_TOLERANCE) - base + least
        changed |= _drop_nodes(graph, sets, number, weights, limit)
        changed |= _drop_edges(graph, sets, number)
    return changed


def _drop_nodes(graph: Graph, sets: MustSets, number: int, weights: Weights, limit: float) -> bool:
    """Drop e-nodes of a class that are cyclic, dominated, or with what they need cost the limit."""
    own = 1 << sets.bit[number]
    of_node = {node: sets.of_children(graph.children[node]) for node in graph.nodes[number]}
    kept: list[int] = []
    ranked = sorted(of_node, key=lambda node: (graph.cost[node], of_node[node].bit_count(), node))
    for node in ranked:
        must = of_node[node]
        if (
            must & own
            or graph.cost[node] + weights.of(must) >= limit
            # Sets are closed: other's children are in must when all that they need is.
            or any(of_node[other] & ~must == 0 for other in kept[:MOST_COMPARED])
        ):
            graph.remove_node(node)
        else:
            kept.append(node)
    return len(kept) < len(ranked)


def _drop_edges(graph: Graph, sets: MustSets, number: int) -> bool:
    changed = False
    for node in graph.nodes[number]:
        children = graph.children[node]
        implied = 0
        for child in children:
            implied |= sets.of_class[child] & ~(1 << sets.bit[child])
        for child in list(children):
            crosses = sets.component[child] != sets.component[number]
            if implied >> sets.bit[child] & 1 or (crosses and child in graph.roots):
                graph.drop_edge(node, child)
                changed = True
    return changed


def _rest(graph: Graph) -> Reduced:
    classes = [] if graph.closed else graph.live_classes()
    number_of = {number: place for place, number in enumerate(classes)}
    nodes = [node for number in classes for node in sorted(graph.nodes[number])]
    lengths = [len(graph.children[node]) for node in nodes]
    problem = Problem(
        node_class=np.array([number_of[graph.owner[node]] for node in nodes], dtype=np.int64),
        child_start=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        child_class=np.array(
            [number_of[child] for node in nodes for child in sorted(graph.children[node])],
            dtype=np.int64,
        ),
        node_cost=np.array([graph.cost[node] for node in nodes], dtype=np.float64),
        roots=np.array(
            sorted(number_of[root] for root in graph.roots if root in number_of), dtype=np.int64
        ),
        forbidden=np.zeros(len(nodes), dtype=np.bool_),
        class_count=len(classes),
    )
    return Reduced(
        problem, [graph.members[node] for node in nodes], graph.offset, graph.closed, graph
    )
