"""A mutable extraction problem, shrunk by rules that look at one class at a time.

Every e-node here stands for a set of e-nodes of the given problem (its members), whose costs it
sums. Members of e-nodes that every solution can contain are collected in `fixed`, their cost in
`offset`. A choice in what is left is lifted by choosing the fixed members, then the chosen ones.

The rules, for a class c (repeated while one applies; an optimum is always kept):

empty       c has no e-node: e-nodes that need it cannot be chosen.
unneeded    c is no root and no child: it is dropped.
free        c has an e-node that costs 0 and needs nothing: it is fixed.
shift       every solution contains a root: the least cost in it goes to the offset.
dominated   an e-node is dropped when another costs no more and needs no more.
sole        c has a single e-node, and is a root or costs 0: where c is a child, what that e-node
            needs is put in its place.
single use  c is a child of a single e-node n and no root: n is replaced by its combinations with
            each e-node of c.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tvm_tensat.extraction.choice import child_lists
from tvm_tensat.extraction.problem import Ints, Problem

# "sole" and "single use" may copy edges; they are applied while that adds at most so many. Larger
# values made the programs denser without removing more e-nodes from the public e-graphs.
MOST_ADDED_EDGES = 8

# Subset tests within a class are quadratic; larger classes are only searched for equal needs.
MOST_COMPARED = 100


class Graph:
    """Classes and e-nodes with links both ways, and a worklist of classes to look at again."""

    def __init__(self, problem: Problem) -> None:
        self.cost: list[float] = problem.node_cost.tolist()
        self.owner: list[int] = problem.node_class.tolist()
        self.children: list[set[int]] = [set(found) for found in child_lists(problem)]
        self.members: list[tuple[int, ...]] = [(node,) for node in range(len(self.cost))]
        self.nodes: list[set[int]] = [set() for _ in range(problem.class_count)]
        self.parents: list[set[int]] = [set() for _ in range(problem.class_count)]
        for node, number in enumerate(self.owner):
            self.nodes[number].add(node)
            for child in self.children[node]:
                self.parents[child].add(node)
        self.roots: set[int] = set(problem.roots.tolist())
        self.offset = 0.0
        self.fixed: list[int] = []
        self.closed = False  # nothing cheaper than the incumbent is left
        self._waiting = dict.fromkeys(range(problem.class_count))
        self._given = problem

    @property
    def size(self) -> int:
        """The number of edges: pairs of an e-node and a child class."""
        return sum(map(len, self.parents))

    def live_classes(self) -> list[int]:
        """Return the classes that still have e-nodes."""
        return [number for number, nodes in enumerate(self.nodes) if nodes]

    def add_root(self, number: int) -> None:
        """Note that every solution contains this class."""
        if number not in self.roots:
            self.roots.add(number)
            self._waiting[number] = None

    def remove_node(self, node: int) -> None:
        """Take an e-node out."""
        number = self.owner[node]
        self.nodes[number].remove(node)
        self._waiting[number] = None
        for child in self.children[node]:
            self.parents[child].discard(node)
            self._waiting[child] = None

    def drop_edge(self, node: int, child: int) -> None:
        """Forget that an e-node needs a class."""
        self.children[node].discard(child)
        self.parents[child].discard(node)
        self._waiting[child] = None
        self._waiting[self.owner[node]] = None

    def settle(self) -> None:
        """Apply the rules until none applies."""
        while self._waiting and not self.closed:
            number, _ = self._waiting.popitem()
            self._look_at(number)

    def lift(self, members: Iterable[int]) -> Ints:
        """Return the choice in the given problem that has these and the fixed members."""
        choice = np.full(self._given.class_count, -1, dtype=np.int64)
        for chosen in (self.fixed, members):
            nodes = np.fromiter(chosen, dtype=np.int64)
            choice[self._given.node_class[nodes]] = nodes
        return choice

    def _look_at(self, number: int) -> None:
        nodes, is_root = self.nodes[number], number in self.roots
        for node in [node for node in nodes if number in self.children[node]]:
            self.remove_node(node)
        if not nodes:
            self.closed |= is_root
            for parent in list(self.parents[number]):
                self.remove_node(parent)
            return
        if not is_root and not self.parents[number]:
            for node in list(nodes):
                self.remove_node(node)
            return
        if is_root:
            self._shift(number)
        if len(nodes) > 1:
            self._drop_dominated(number)
        free = [node for node in nodes if not self.children[node] and self.cost[node] == 0]
        if free:
            self._fix_free(number, free[0])
        elif len(nodes) == 1 and (is_root or self.cost[next(iter(nodes))] == 0):
            self._replace_sole(number)
        elif not is_root and len(self.parents[number]) == 1:
            self._combine(number)

    def _shift(self, number: int) -> None:
        least = min(self.cost[node] for node in self.nodes[number])
        if least > 0:
            self.offset += least
            for node in self.nodes[number]:
                self.cost[node] -= least

    def _drop_dominated(self, number: int) -> None:
        ranked = sorted(
            self.nodes[number],
            key=lambda node: (self.cost[node], len(self.children[node]), node),
        )
        kept: list[set[int]] = []
        seen: set[frozenset[int]] = set()
        compare = len(ranked) <= MOST_COMPARED
        for node in ranked:
            needs = self.children[node]
            key = frozenset(needs)
            if key in seen or (compare and any(other <= needs for other in kept)):
                self.remove_node(node)
                continue
            seen.add(key)
            if compare:
                kept.append(needs)

    def _fix_free(self, number: int, node: int) -> None:
        self.fixed += self.members[node]
        for parent in list(self.parents[number]):
            self.drop_edge(parent, number)
        self.roots.discard(number)
        for other in list(self.nodes[number]):
            self.remove_node(other)

    def _replace_sole(self, number: int) -> None:
        (node,) = self.nodes[number]
        needs = self.children[node]
        if number in self.roots:
            for child in needs:
                self.add_root(child)
        if (len(self.parents[number]) - 1) * (len(needs) - 1) > MOST_ADDED_EDGES:
            return
        self.fixed += self.members[node]
        for parent in list(self.parents[number]):
            self.drop_edge(parent, number)
            self.children[parent] |= needs
            for child in needs:
                self.parents[child].add(parent)
        self.roots.discard(number)
        self.remove_node(node)

    def _combine(self, number: int) -> None:
        (parent,) = self.parents[number]
        above = self.owner[parent]
        rest = self.children[parent] - {number}
        if (len(self.nodes[number]) - 1) * (len(rest) - 1) > MOST_ADDED_EDGES:
            return
        for node in list(self.nodes[number]):
            needs = rest | self.children[node]
            if above not in needs:
                self._add_node(
                    above,
                    self.cost[parent] + self.cost[node],
                    needs,
                    self.members[parent] + self.members[node],
                )
            self.remove_node(node)
        self.remove_node(parent)

    def _add_node(
        self, number: int, cost: float, needs: set[int], members: tuple[int, ...]
    ) -> None:
        node = len(self.cost)
        self.cost.append(cost)
        self.owner.append(number)
        self.children.append(needs)
        self.members.append(members)
        self.nodes[number].add(node)
        for child in needs:
            self.parents[child].add(node)
        self._waiting[number] = None
