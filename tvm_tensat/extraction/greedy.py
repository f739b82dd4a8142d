"""Greedy extraction: Knuth's generalization of Dijkstra's algorithm, in one pass over the e-nodes.

Classes are finished in the order of their cost. An e-node is priced once, when the last of its
child classes is finished, and the first e-node of a class that comes out of the queue is the
class's choice. So a choice refers only to classes finished before it: the result is acyclic even
where a cycle costs nothing. (D. E. Knuth, A generalization of Dijkstra's algorithm, IPL 6(1),
1977.)

The two methods differ in what an e-node costs:

tree
    its own cost plus the costs of its children: shared work is counted wherever it is used, as in
    TENSAT's greedy extraction;
DAG
    its own cost plus that of the union of its children's graphs, each e-node counted once.
    A graph is kept as a bit set in a Python integer, one bit per chosen e-node that costs
    something; adding a child's graph to a union looks only at the bits that are new.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod

import numpy as np

from tvm_tensat.extraction.bits import Weights
from tvm_tensat.extraction.choice import child_lists, exact_cost, trim
from tvm_tensat.extraction.problem import Ints, Problem


class _Price(ABC):
    """What an e-node costs when all its children are finished."""

    @abstractmethod
    def of(self, cost: float, children: list[int]) -> float:
        """Return the price of an e-node with this cost of its own and these child classes."""

    @abstractmethod
    def finish(self, number: int, price: float, cost: float, children: list[int]) -> None:
        """Note that a class is finished with an e-node of this price, cost and children."""


class _TreePrice(_Price):
    def __init__(self, class_count: int) -> None:
        self.price = [0.0] * class_count

    def of(self, cost: float, children: list[int]) -> float:
        price = self.price
        for child in children:
            cost += price[child]
        return cost

    def finish(self, number: int, price: float, cost: float, children: list[int]) -> None:
        self.price[number] = price


class _DagPrice(_Price):
    def __init__(self, class_count: int) -> None:
        self.price = [0.0] * class_count
        self.graph = [0] * class_count
        self.weights = Weights(class_count)  # the cost behind each bit

    def of(self, cost: float, children: list[int]) -> float:
        return cost + self._union(children)[0]

    def finish(self, number: int, price: float, cost: float, children: list[int]) -> None:
        graph = self._union(children)[1]
        if cost > 0:
            graph |= 1 << self.weights.append(cost)
        self.price[number] = price
        self.graph[number] = graph

    def _union(self, children: list[int]) -> tuple[float, int]:
        if not children:
            return 0.0, 0
        largest = max(children, key=self.price.__getitem__)
        total, union = self.price[largest], self.graph[largest]
        for child in children:
            new = self.graph[child] & ~union
            if new:
                total += self.weights.of(new)
                union |= new
        return total, union


def greedy_tree(problem: Problem) -> Ints:
    """Choose in each class the e-node of the least tree cost.

    Returns
    -------
    (classes,) int64
        The choice in every class that has a derivation (not trimmed to the roots), -1 elsewhere.
    """
    return _finish_in_order(problem, _TreePrice(problem.class_count))


def greedy_dag(problem: Problem) -> Ints:
    """Choose in each class the e-node of the least DAG cost, or as `greedy_tree` if that is better.

    Neither of the two dominates the other on every graph, so the cheaper one is returned.

    Returns
    -------
    (classes,) int64
        The choice in every class that has a derivation (not trimmed to the roots), -1 elsewhere.
    """
    by_tree = greedy_tree(problem)
    by_dag = _finish_in_order(problem, _DagPrice(problem.class_count))
    tree, dag = trim(problem, by_tree), trim(problem, by_dag)
    if tree is None or dag is None:  # a root without derivation, for the caller to report
        return by_dag
    return by_dag if exact_cost(problem, dag) <= exact_cost(problem, tree) else by_tree


def _finish_in_order(problem: Problem, price: _Price) -> Ints:
    children = child_lists(problem)
    node_class = problem.node_class.tolist()
    costs = problem.node_cost.tolist()
    usable = np.isfinite(problem.node_cost) & ~problem.forbidden
    parents: list[list[int]] = [[] for _ in range(problem.class_count)]
    waiting = [0] * len(costs)
    queue: list[tuple[float, int]] = []
    for node in np.flatnonzero(usable).tolist():
        waiting[node] = len(children[node])
        for child in children[node]:
            parents[child].append(node)
        if not children[node]:
            queue.append((price.of(costs[node], []), node))
    heapq.heapify(queue)
    choice = [-1] * problem.class_count
    while queue:
        node_price, node = heapq.heappop(queue)
        number = node_class[node]
        if choice[number] >= 0:
            continue
        choice[number] = node
        price.finish(number, node_price, costs[node], children[node])
        for parent in parents[number]:
            waiting[parent] -= 1
            if waiting[parent] == 0 and choice[node_class[parent]] < 0:
                heapq.heappush(queue, (price.of(costs[parent], children[parent]), parent))
    return np.array(choice, dtype=np.int64)
