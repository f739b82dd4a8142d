"""Must sets: the classes that every derivation of a class contains.

They are the greatest solution of::

    must(n) = union of must(d) over the children d of e-node n
    must(c) = {c} + intersection of must(n) over the e-nodes n of class c

A set is a Python integer with one bit per class; classes are numbered along the graph, children
first, so that sets of classes deep in the graph are short.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_tensat.extraction.bits import members
from tvm_tensat.extraction.components import strong_components
from tvm_tensat.extraction.graph import Graph


@dataclass(frozen=True)
class MustSets:
    """Must sets of all live classes, and the components that cycles form.

    Parameters
    ----------
    of_class : dict of int to int
        The must set of each class, as bits.
    bit : dict of int to int
        The bit number of each class.
    class_at : list of int
        The class of each bit number.
    component : dict of int to int
        The number of the strongly connected component of each class.
    """

    of_class: dict[int, int]
    bit: dict[int, int]
    class_at: list[int]
    component: dict[int, int]

    def of_children(self, children: set[int]) -> int:
        """Return the union of the must sets of some classes."""
        union = 0
        for child in children:
            union |= self.of_class[child]
        return union

    def classes(self, bits: int) -> list[int]:
        """Return the classes in a set."""
        return [self.class_at[place] for place in members(bits)]


def must_sets(graph: Graph) -> MustSets:
    """Compute the must sets of a graph in which every class has a derivation."""
    live = graph.live_classes()
    below = {
        number: set().union(*(graph.children[node] for node in graph.nodes[number]))
        for number in live
    }
    components = strong_components(below)
    class_at = [number for component in components for number in component]
    bit = {number: place for place, number in enumerate(class_at)}
    sets = MustSets({}, bit, class_at, {})
    for place, component in enumerate(components):
        for number in component:
            sets.component[number] = place
        if len(component) == 1:
            sets.of_class[component[0]] = _from_nodes(graph, sets, component[0]) or 0
        else:
            _greatest_fixpoint(graph, sets, component)
    return sets


def _greatest_fixpoint(graph: Graph, sets: MustSets, component: list[int]) -> None:
    """Start from "everything" (no entry in the table) and take away until nothing changes."""
    inside = set(component)
    waiting = dict.fromkeys(component)
    while waiting:
        number = next(iter(waiting))
        del waiting[number]
        new = _from_nodes(graph, sets, number)
        if new is None or new == sets.of_class.get(number):
            continue
        sets.of_class[number] = new
        for parent in graph.parents[number]:
            if graph.owner[parent] in inside:
                waiting[graph.owner[parent]] = None


def _from_nodes(graph: Graph, sets: MustSets, number: int) -> int | None:
    """Return the must set of a class from those of its children; None for "everything"."""
    common: int | None = None
    for node in graph.nodes[number]:
        union = 0
        for child in graph.children[node]:
            known = sets.of_class.get(child)
            if known is None:
                break
            union |= known
        else:
            common = union if common is None else common & union
    return None if common is None else common | 1 << sets.bit[number]
