"""The chosen graph of a segment and the order in which its bindings are emitted."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tvm_tensat.relax.reader import OriginalNode, ReadSegment

__all__ = ["Choice", "ChosenGraph", "Place", "arrange"]

Choice = Mapping[int, tuple[int, tuple[int, ...]]]

_INLINE = ("leaf", "weight", "scalar")


@dataclass(frozen=True)
class Place:
    """One step of emission: a class, or a binding that is not in the e-graph."""

    number: int
    beside: int | None = None


class ChosenGraph:
    """The classes that a choice reaches from a segment's outputs.

    All class numbers in it are those that `find` gives.

    Attributes
    ----------
    choice : dict of int to (int, tuple of int)
        Operator and child classes of each class needed.
    outputs : dict of int to list of relax.Var
        The output Vars of each class that has some.
    topological : list of int
        Classes needed, children before parents.
    """

    def __init__(self, read: ReadSegment, choice: Choice, find: Callable[[int], int]) -> None:
        self.read = read
        self._find = find
        self.outputs: dict[int, list[Any]] = {}
        for var, number in read.roots:
            self.outputs.setdefault(find(number), []).append(var)
        self.choice: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.topological: list[int] = []
        self._reach(choice)
        self._originals: dict[tuple[int, tuple[int, ...]], OriginalNode] = {}
        for node in read.nodes:
            self._originals.setdefault((node.operator, self.children_of(node)), node)
        self._named: dict[int, int] = {}
        for number, indices in read.bound.items():
            first = min(indices)
            self._named[find(number)] = min(first, self._named.get(find(number), first))
        self._taken_apart = self._tuples_taken_apart()

    def _reach(self, choice: Choice) -> None:
        """Fill `choice` and `topological` by a depth-first walk without recursion."""
        done: dict[int, bool] = {}  # False while a class is on the walk's path
        stack = [(number, False) for number in reversed(list(self.outputs))]
        while stack:
            number, leaving = stack.pop()
            if leaving:
                done[number] = True
                self.topological.append(number)
                continue
            if number in done:
                if not done[number]:
                    raise ValueError(f"the choice is cyclic: class {number} needs itself")
                continue
            if number not in choice:
                raise ValueError(f"the choice has no e-node for class {number}, which is needed")
            operator, children = choice[number]
            children = tuple(self._find(child) for child in children)
            self.choice[number] = (operator, children)
            done[number] = False
            stack.append((number, True))
            stack.extend((child, False) for child in reversed(children) if not done.get(child))

    def _tuples_taken_apart(self) -> set[int]:
        """Classes of tuples that a chosen "get" reads: they need a Var."""
        operator = self.read.language.operator
        return {kids[0] for op, kids in self.choice.values() if operator(op).name == "get"}

    def children_of(self, node: OriginalNode) -> tuple[int, ...]:
        """Return the classes of an original e-node's operands as they are numbered now."""
        return tuple(self._find(child) for child in node.children)

    def original(self, number: int) -> OriginalNode | None:
        """Return the first original e-node equal to the one chosen for a class, if any is."""
        return self._originals.get(self.choice[number])

    def named(self, number: int) -> int | None:
        """Return the position of the first binding whose Var is in this class, if any is."""
        return self._named.get(number)

    def is_bound(self, number: int) -> bool:
        """Whether the class gets a binding, and is not written where it is used."""
        name = self.read.language.operator(self.choice[number][0]).name
        if name in _INLINE:
            return False
        if name != "tuple" or number in self.outputs or number in self._taken_apart:
            return True
        return self.original(number) is not None

    def positions(self) -> dict[int, tuple[int, int]]:
        """Return for each class where it would like to be: (position, 0 if new, else 1).

        An original e-node stays at its binding's position; a new one goes where its first
        consumer is, an output's at the output's position at the latest.
        """
        last = len(self.read.segment.bindings)
        latest: dict[int, int] = {}
        wish: dict[int, tuple[int, int]] = {}
        for number in reversed(self.topological):
            original = self.original(number)
            if original is not None:
                wish[number] = (original.index, 1)
            else:
                end = latest.get(number, last)
                if number in self.outputs:
                    end = min(end, self._named.get(number, last))
                wish[number] = (end, 0)
            for child in self.choice[number][1]:
                latest[child] = min(latest.get(child, last), wish[number][0])
        return wish


def arrange(graph: ChosenGraph) -> Iterator[Place]:
    """Yield the classes needed, children before parents, as close to the input's order as can be.

    Kahn's algorithm with a heap: of the classes that are ready, the one whose wished position is
    first. Bindings beside the e-graph come at their own positions.
    """
    wish = graph.positions()
    waiting: dict[int, int] = {}
    parents: dict[int, list[int]] = {}
    rank = {number: i for i, number in enumerate(graph.topological)}
    heap: list[tuple[int, int, int, Place]] = []
    for i, index in enumerate(graph.read.beside):
        heapq.heappush(heap, (index, -1, i, Place(-1, index)))
    for number in graph.topological:
        children = set(graph.choice[number][1])
        waiting[number] = len(children)
        for child in children:
            parents.setdefault(child, []).append(number)
        if not children:
            heapq.heappush(heap, (*wish[number], rank[number], Place(number)))
    while heap:
        *_, place = heapq.heappop(heap)
        yield place
        for parent in parents.get(place.number, ()) if place.beside is None else ():
            waiting[parent] -= 1
            if waiting[parent] == 0:
                heapq.heappush(heap, (*wish[parent], rank[parent], Place(parent)))
