"""Layered layout of a graph of boxes (Sugiyama, Tagawa and Toda 1981): edges run downwards.

1. Edges that close a cycle are turned around.
2. A box's layer is one below the lowest of those it hangs from; sources sink to their users.
3. A long edge gets a *bend* in each layer that it crosses: a box of no height of its own.
4. Boxes of a layer are ordered by the means of their neighbours, sweeping down and up.
5. Boxes move sideways to their neighbours' means, in this order and without overlaps: least
   squares, solved exactly by pooling adjacent violators.

Everything is deterministic: ties go to the box that was given first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GAP, BEND_GAP = 18.0, 10.0  # between boxes of a layer, beside bends
LAYER_GAP = 34.0
_BEND = 1.0  # width of a bend
_SWEEPS = 12
_STRAIGHT = 8.0  # how much more a bend clings to its neighbours than a box does

Floats = NDArray[np.float64]
Point = tuple[float, float]
_Neighbour = tuple[int, float, float]  # a box, where a link touches it, where it touches us


@dataclass(frozen=True)
class Edge:
    """An edge between boxes.

    Parameters
    ----------
    tail, head : int
    tail_port, head_port : float
        Where it leaves the bottom of the one and enters the top of the other, from the centre.
    weak : bool
        Turned around rather than others where edges close a cycle.
    """

    tail: int
    head: int
    tail_port: float = 0.0
    head_port: float = 0.0
    weak: bool = False


@dataclass(frozen=True)
class Layout:
    """Where everything is, in pixels from the upper left corner.

    Parameters
    ----------
    left, top : (boxes,) float64
    routes : tuple of tuple of Point
        For each edge the ends of its vertical stretches, in pairs; curves connect the pairs. An
        edge that was turned around runs upwards, from the top of its tail to the bottom of its
        head. Empty for an edge from a box to itself.
    width, height : float
    """

    left: Floats
    top: Floats
    routes: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def layered(widths: Sequence[float], heights: Sequence[float], edges: Sequence[Edge]) -> Layout:
    """Lay out boxes of these sizes."""
    count = len(widths)
    if not count:
        return Layout(np.zeros(0), np.zeros(0), ((),) * len(edges), 0.0, 0.0)
    turned = _turned(count, edges)
    layer = _layers(count, edges, turned)
    graph = _Bent(count, widths, layer, edges, turned)
    order = _order(graph)
    centre = _centres(graph, order)
    return _placed(graph, order, centre, heights, edges, turned)


def _turned(count: int, edges: Sequence[Edge]) -> list[bool]:
    """Mark the edges to turn around: those that run against a depth-first order of the others."""
    below: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        if not edge.weak:
            below[edge.tail].append(edge.head)
    finished: dict[int, int] = {}  # box -> place
    seen: set[int] = set()
    for start in reversed(range(count)):  # so that in doubt the first box stands first
        stack = [(start, 0)] if start not in seen else []
        seen.add(start)
        while stack:
            box, at = stack.pop()
            if at < len(below[box]):
                stack.append((box, at + 1))
                head = below[box][at]
                if head not in seen:
                    seen.add(head)
                    stack.append((head, 0))
            else:
                finished[box] = len(finished)
    return [finished[edge.tail] < finished[edge.head] for edge in edges]


def _ends(edge: Edge, turned: bool) -> tuple[int, int]:
    return (edge.head, edge.tail) if turned else (edge.tail, edge.head)


def _layers(count: int, edges: Sequence[Edge], turned: Sequence[bool]) -> list[int]:
    """Return the layer of each box."""
    pairs = [_ends(e, t) for e, t in zip(edges, turned, strict=True) if e.tail != e.head]
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for upper, lower in pairs:
        above[lower].append(upper)
        below[upper].append(lower)
    waiting = [len(known) for known in above]
    ready = [box for box in range(count) if not waiting[box]]
    layer = [0] * count
    for box in ready:  # grows meanwhile
        for lower in below[box]:
            layer[lower] = max(layer[lower], layer[box] + 1)
            waiting[lower] -= 1
            if not waiting[lower]:
                ready.append(lower)
    for box in range(count):
        if not above[box] and below[box]:
            layer[box] = min(layer[lower] for lower in below[box]) - 1
    return layer


class _Bent:
    """The graph with bends: every link leads from a layer to the next.

    Attributes
    ----------
    width, weight : (boxes and bends,) float64
    layer : list of int
    links : list of (upper, lower, upper port, lower port)
    chains : list of list of int
        For each edge its bends, from above.
    """

    def __init__(
        self,
        count: int,
        widths: Sequence[float],
        layer: list[int],
        edges: Sequence[Edge],
        turned: Sequence[bool],
    ) -> None:
        self.count = count
        self.layer = list(layer)
        self.links: list[tuple[int, int, float, float]] = []
        self.chains: list[list[int]] = []
        for edge, is_turned in zip(edges, turned, strict=True):
            chain: list[int] = []
            self.chains.append(chain)
            if edge.tail == edge.head:
                continue
            upper, lower = _ends(edge, is_turned)
            ports = (edge.tail_port, edge.head_port)
            port, last_port = ports[::-1] if is_turned else ports
            for at in range(layer[upper] + 1, layer[lower]):
                chain.append(len(self.layer))
                self.layer.append(at)
                self.links.append((upper, chain[-1], port, 0.0))
                upper, port = chain[-1], 0.0
            self.links.append((upper, lower, port, last_port))
        bends = len(self.layer) - count
        self.width = np.array([*widths, *[_BEND] * bends])
        self.weight = np.array([1.0] * count + [_STRAIGHT] * bends)

    def neighbours(self, down: bool) -> list[list[_Neighbour]]:
        """Return the neighbours of each box in the layer above, or below."""
        found: list[list[_Neighbour]] = [[] for _ in self.layer]
        for upper, lower, port, other in self.links:
            if down:
                found[lower].append((upper, port, other))
            else:
                found[upper].append((lower, other, port))
        return found


def _order(graph: _Bent) -> list[list[int]]:
    """Return the boxes of each layer from left to right."""
    layers: list[list[int]] = [[] for _ in range(max(graph.layer) + 1)]
    for box, at in enumerate(graph.layer):
        layers[at].append(box)
    above, below = graph.neighbours(down=True), graph.neighbours(down=False)
    best, fewest = [list(row) for row in layers], _crossings(graph, layers)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        place = {box: k for row in layers for k, box in enumerate(row)}
        for row in layers if down else layers[::-1]:
            known = above if down else below
            mean = {box: _mean_place(box, known[box], place, graph.width) for box in row}
            row.sort(key=mean.__getitem__)
            place.update((box, k) for k, box in enumerate(row))
        crossings = _crossings(graph, layers)
        if crossings < fewest:
            best, fewest = [list(row) for row in layers], crossings
        if not fewest:
            break
    return best


def _mean_place(
    box: int, beside: Sequence[_Neighbour], place: dict[int, int], width: Floats
) -> float:
    places = [place[other] + port / width[other] for other, port, _ in beside]
    return float(sum(places) / len(places)) if places else float(place[box])


def _crossings(graph: _Bent, layers: Sequence[Sequence[int]]) -> int:
    """Count the pairs of links that cross."""
    place = {box: k for row in layers for k, box in enumerate(row)}
    ends: list[list[Point]] = [[] for _ in layers]
    for upper, lower, port, other in graph.links:
        top = place[upper] + port / graph.width[upper]
        bottom = place[lower] + other / graph.width[lower]
        ends[graph.layer[upper]].append((top, bottom))
    total = 0
    for row in ends:
        top, bottom = np.array(row).reshape(-1, 2).T
        apart = (top[:, None] - top) * (bottom[:, None] - bottom)
        total += int(np.count_nonzero(apart < 0)) // 2
    return total


def _centres(graph: _Bent, order: Sequence[Sequence[int]]) -> Floats:
    """Return the horizontal centre of each box and bend."""
    centre = np.zeros(len(graph.width))
    apart = [_apart(graph, row) for row in order]
    for row, distances in zip(order, apart, strict=True):
        centre[row] = np.cumsum(distances) - distances.sum() / 2
    above, below = graph.neighbours(down=True), graph.neighbours(down=False)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        rows = range(len(order)) if down else range(len(order) - 1, -1, -1)
        for at in rows:
            row = list(order[at])
            # The last sweeps look both ways, so that neither end of an edge is neglected.
            sides = (above, below) if sweep >= _SWEEPS - 2 else (above if down else below,)
            wanted = np.array([_wanted(box, centre, sides) for box in row])
            centre[row] = _nearest(wanted, apart[at], graph.weight[row])
    return centre


def _wanted(box: int, centre: Floats, sides: Sequence[list[list[_Neighbour]]]) -> float:
    beside = [centre[n] + port - own for known in sides for n, port, own in known[box]]
    return float(sum(beside) / len(beside)) if beside else float(centre[box])


def _apart(graph: _Bent, row: Sequence[int]) -> Floats:
    """Return how far each box's centre must be from the one before it; 0 for the first."""
    width = graph.width[list(row)]
    bend = np.array(row) >= graph.count
    gap = np.where(bend[1:] | bend[:-1], BEND_GAP, GAP)
    return np.concatenate([[0.0], (width[1:] + width[:-1]) / 2 + gap])


def _nearest(wanted: Floats, apart: Floats, weight: Floats) -> Floats:
    """Return the places nearest to those wanted, in order and at least `apart` from each other."""
    shift = np.cumsum(apart)
    pools: list[list[float]] = []  # mean, weight, how many
    for value, heavy in zip((wanted - shift).tolist(), weight.tolist(), strict=True):
        pools.append([value, heavy, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, more, number = pools.pop()
            last = pools[-1]
            last[0] = (last[0] * last[1] + mean * more) / (last[1] + more)
            last[1] += more
            last[2] += number
    return shift + np.concatenate([[mean] * int(number) for mean, _, number in pools])


def _placed(
    graph: _Bent,
    order: Sequence[Sequence[int]],
    centre: Floats,
    heights: Sequence[float],
    edges: Sequence[Edge],
    turned: Sequence[bool],
) -> Layout:
    """Turn layers into coordinates and bends into routes."""
    count, half = graph.count, graph.width / 2
    centre = centre - (centre - half).min()
    layer_height = [max((heights[b] for b in row if b < count), default=0.0) for row in order]
    layer_top = np.concatenate([[0.0], np.cumsum(np.array(layer_height) + LAYER_GAP)[:-1]])
    top = np.array([layer_top[graph.layer[box]] for box in range(count)])
    # A box that only feeds others stands at the bottom of its layer, near them.
    fed = {lower for _, lower, _, _ in graph.links}
    for box in range(count):
        if box not in fed:
            top[box] += layer_height[graph.layer[box]] - heights[box]
    routes: list[tuple[Point, ...]] = []
    for edge, chain, is_turned in zip(edges, graph.chains, turned, strict=True):
        if edge.tail == edge.head:
            routes.append(())
            continue
        upper, lower = _ends(edge, is_turned)
        ports = (edge.tail_port, edge.head_port)
        upper_port, lower_port = ports[::-1] if is_turned else ports
        x, at = float(centre[upper] + upper_port), graph.layer[upper]
        points = [(x, float(top[upper] + heights[upper]))]
        points.append((x, float(layer_top[at] + layer_height[at])))
        for bend in chain:
            x, at = float(centre[bend]), graph.layer[bend]
            points.append((x, float(layer_top[at])))
            points.append((x, float(layer_top[at] + layer_height[at])))
        x, at = float(centre[lower] + lower_port), graph.layer[lower]
        points += [(x, float(layer_top[at])), (x, float(top[lower]))]
        routes.append(tuple(points[::-1] if is_turned else points))
    width = float((centre + half).max())
    height = float(layer_top[-1] + layer_height[-1])
    return Layout(centre[:count] - half[:count], top, tuple(routes), width, height)
