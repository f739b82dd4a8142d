"""Local search: switch e-nodes of a greedy choice for as long as it becomes cheaper.

The state is an acyclic choice in every class that has a derivation, and for each class the number
of its uses: by a root, or by the chosen e-node of a class that is in use itself. The cost is that
of the classes in use. A *switch* takes another e-node in one class; uses, and with them the cost,
are updated along the two graphs that change.

Merging two products never pays at the first of the two: it needs the merged product on top of the
other one. So every switch is a *probe*: after it, the classes are visited that could use what the
switch has brought into use, and they switch too where that is cheaper by itself. A probe that has
not lowered the cost in the end is undone. The search ends when no probe of a whole round does.

A switch of class c to an e-node with child d is refused where d leads to c. Classes are ranked
along the choice, children first, so only a d ranked above c is followed, through classes above c;
where none leads to c, all that was reached moves to the place before c.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import numpy as np

from tvm_tensat.extraction.choice import child_lists
from tvm_tensat.extraction.formulations import topological
from tvm_tensat.extraction.problem import Ints, Problem
from tvm_tensat.extraction.restrict import live_nodes

# A switch must gain this share of the cost, so that rounding cannot make a cycle of "gains".
LEAST_GAIN = 1e-9


def local_search(problem: Problem, choice: Ints, deadline: float) -> tuple[Ints, bool]:
    """Improve a choice until no probe gains.

    Parameters
    ----------
    problem : Problem
    choice : (classes,) int64
        Acyclic, with an e-node in every class that has a derivation, as `greedy_dag` returns it.
    deadline : float
        In `time.monotonic` seconds.

    Returns
    -------
    choice : (classes,) int64
        Not trimmed to the roots.
    finished : bool
        Whether it is a local optimum; else time was up.
    """
    search = _Search(problem, choice)
    finished = search.run(deadline)
    return np.array(search.choice, dtype=np.int64), finished


class _Search:
    def __init__(self, problem: Problem, choice: Ints) -> None:
        self.children = child_lists(problem)
        self.owner: list[int] = problem.node_class.tolist()
        self.node_cost: list[float] = problem.node_cost.tolist()
        self.choice: list[int] = choice.tolist()
        self.others: list[list[int]] = [[] for _ in range(problem.class_count)]
        self.users: list[list[int]] = [[] for _ in range(problem.class_count)]
        for node in np.flatnonzero(live_nodes(problem, choice >= 0)).tolist():
            self.others[self.owner[node]].append(node)
            for child in self.children[node]:
                self.users[child].append(node)
        self.cost = 0.0
        self.uses = [0] * problem.class_count
        self.fresh: list[int] = []  # classes that came into use
        everything = replace(problem, roots=np.flatnonzero(choice >= 0))
        self.order = _Order(topological(everything, choice), problem.class_count)
        self.done: list[tuple[int, int, float]] = []  # switches, to be undone
        self._use(problem.roots.tolist())

    def run(self, deadline: float) -> bool:
        """Probe every e-node of the classes in use, round by round; False when time is up."""
        improved = True
        while improved:
            improved = False
            for number in [number for number, uses in enumerate(self.uses) if uses]:
                if time.monotonic() > deadline:
                    return False
                for node in self.others[number]:
                    if self.uses[number] and node != self.choice[number]:
                        improved |= self._probe(number, node)
        return True

    def _probe(self, number: int, node: int) -> bool:
        """Switch, let others follow, and undo everything unless it is cheaper in the end."""
        before = self.cost
        self.done.clear()
        self.fresh.clear()
        if not self._switch(number, node):
            return False
        self._follow()
        if self.cost < before * (1 - LEAST_GAIN):
            return True
        self._undo(0)
        return False

    def _follow(self) -> None:
        """Switch to e-nodes that use what came into use, and to others in it, where that gains."""
        place = 0
        while place < len(self.fresh):
            number = self.fresh[place]
            place += 1
            for node in (*self.users[number], *self.others[number]):
                owner = self.owner[node]
                if not self.uses[owner] or self.choice[owner] == node:
                    continue
                mark, before, known = len(self.done), self.cost, len(self.fresh)
                if self._switch(owner, node) and self.cost >= before * (1 - LEAST_GAIN):
                    self._undo(mark)
                    del self.fresh[known:]

    def _switch(self, number: int, node: int) -> bool:
        """Choose an e-node in its class; False, and nothing is changed, if that closes a cycle."""
        if not self._make_room(number, node):
            return False
        self.done.append((number, self.choice[number], self.cost))
        self._choose(number, node)
        return True

    def _undo(self, mark: int) -> None:
        while len(self.done) > mark:
            number, node, cost = self.done.pop()
            # Later switches may have moved this class below children that it had before.
            self._make_room(number, node)
            self._choose(number, node)
            self.cost = cost

    def _make_room(self, number: int, node: int) -> bool:
        """Rank the children of an e-node below its class; False if one leads to the class."""
        rank = self.order.rank
        above = [child for child in self.children[node] if rank[child] >= rank[number]]
        if above:
            reached = self._reached(above, rank[number])
            if number in reached:
                return False
            self.order.move_before(number, reached)
        return True

    def _choose(self, number: int, node: int) -> None:
        old = self.choice[number]
        self.choice[number] = node
        if self.uses[number]:
            self.cost += self.node_cost[node] - self.node_cost[old]
            self._use(self.children[node])
            self._release(self.children[old])

    def _use(self, classes: list[int]) -> None:
        stack = list(classes)
        while stack:
            number = stack.pop()
            self.uses[number] += 1
            if self.uses[number] == 1:
                self.fresh.append(number)
                self.cost += self.node_cost[self.choice[number]]
                stack += self.children[self.choice[number]]

    def _release(self, classes: list[int]) -> None:
        stack = list(classes)
        while stack:
            number = stack.pop()
            self.uses[number] -= 1
            if self.uses[number] == 0:
                self.cost -= self.node_cost[self.choice[number]]
                stack += self.children[self.choice[number]]

    def _reached(self, starts: list[int], lowest: float) -> set[int]:
        """Return the classes ranked no lower that the choice leads to from these."""
        seen = set(starts)
        stack = list(starts)
        while stack:
            for child in self.children[self.choice[stack.pop()]]:
                if child not in seen and self.order.rank[child] >= lowest:
                    seen.add(child)
                    stack.append(child)
        return seen


class _Order:
    """A linear order of the classes with an e-node, as a linked list with a rank for each class.

    Ranks are floats, so that classes can be moved to a place between two others; when two ranks
    come too close, all are numbered anew.
    """

    def __init__(self, classes: list[int], size: int) -> None:
        # Number `size` is the list's head.
        self.rank = [0.0] * (size + 1)
        self.after = [size] * (size + 1)
        self.before = [size] * (size + 1)
        for last, number in itertools.pairwise([size, *classes, size]):
            self.after[last], self.before[number] = number, last
        self._renumber()

    def move_before(self, number: int, moved: set[int]) -> None:
        """Move classes to the place before one that is ranked below them, in their order."""
        ranked = sorted(moved, key=self.rank.__getitem__)
        for other in ranked:
            before, after = self.before[other], self.after[other]
            self.after[before], self.before[after] = after, before
        last = self.before[number]
        step = (self.rank[number] - self.rank[last]) / (len(ranked) + 1)
        for other in ranked:
            self.after[last], self.before[other] = other, last
            self.rank[other] = self.rank[last] + step
            last = other
        self.after[last], self.before[number] = number, last
        if step < 1e-6:
            self._renumber()

    def _renumber(self) -> None:
        head = len(self.rank) - 1
        self.rank[head] = 0.0  # before the first
        at, rank = self.after[head], 1.0
        while at != head:
            self.rank[at] = rank
            at, rank = self.after[at], rank + 1.0
