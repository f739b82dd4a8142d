"""An e-graph as a picture: classes are frames around e-nodes, data flows downwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_tensat.draw import svg
from tvm_tensat.draw.graph import Arrow, Cell, Node, draw_graph
from tvm_tensat.draw.labels import operator_lines, type_text
from tvm_tensat.egraph.egraph import FROM_INPUT, EGraph, Ints

MOST_NODES = 100  # more e-nodes in one picture are not readable
_LEFT_OUT = "{} of {} e-classes and {} of {} e-nodes are shown: those nearest to the result"


def draw_egraph(
    graph: EGraph,
    roots: Sequence[int] = (),
    chosen: Ints | None = None,
    *,
    new_since: int | None = None,
    most: int = MOST_NODES,
    caption: str = "",
) -> svg.Picture:
    """Draw an e-graph.

    E-nodes that cycle filtering hides are crossed out, with dotted arrows. Of an e-graph that is
    too large, the classes nearest to the roots are drawn, those of the chosen e-nodes first, and a
    line says what is left out.

    Parameters
    ----------
    graph : EGraph
        Rebuilt, as after `tvm_tensat.egraph.explore`.
    roots : sequence of int
        Classes of the results, drawn with a thick frame.
    chosen : (e-nodes,) int64, optional
        Rows of an extraction, which are highlighted.
    new_since : int, optional
        Highlight e-nodes that rules made in this iteration or later.
    most : int
        E-nodes to draw at most.
    caption : str
        A line above the picture.
    """
    graph.rebuild()
    view = _View(graph, [graph.find(root) for root in roots], chosen)
    rows = view.nearest(most)
    nodes, arrows = _drawn(view, rows, new_since)
    lines = [caption] if caption else []
    total = np.flatnonzero(graph.node_alive)
    if len(rows) < len(total):
        classes = len(np.unique(graph.node_class[total]))
        shown = len(np.unique(graph.node_class[rows]))
        lines.append(_LEFT_OUT.format(shown, classes, len(rows), len(total)))
    piece = draw_graph(nodes, arrows)
    return svg.picture(svg.above([svg.words(lines, "faint"), piece]) if lines else piece)


class _View:
    """An e-graph as Python lists.

    Attributes
    ----------
    children : dict of int to list of int
        The child classes of each row that is alive.
    rows : dict of int to list of int
        The rows of each class, oldest first.
    """

    def __init__(self, graph: EGraph, roots: list[int], chosen: Ints | None) -> None:
        self.graph = graph
        self.roots = roots
        self.chosen = set() if chosen is None else set(chosen.tolist())
        alive = np.flatnonzero(graph.node_alive)
        owner, child = graph.edges(alive)
        start = np.searchsorted(owner, np.arange(len(alive) + 1)).tolist()
        self.children = {
            row: child[start[k] : start[k + 1]].tolist() for k, row in enumerate(alive.tolist())
        }
        self.rows: dict[int, list[int]] = {}
        for row in alive.tolist():
            self.rows.setdefault(int(graph.node_class[row]), []).append(row)

    def nearest(self, most: int) -> list[int]:
        """Return the rows to draw, at most so many."""
        if len(self.children) <= most:
            return [row for rows in self.rows.values() for row in rows]
        kept: dict[int, list[int]] = {}
        # What was chosen, else the oldest e-nodes, which form an acyclic graph: one a class.
        waiting = list(self.roots or self.rows)
        for number in waiting:  # grows meanwhile
            if number in kept or len(kept) == most:
                continue
            first = [row for row in self.rows[number] if row in self.chosen] or self.rows[number]
            kept[number] = first[:1]
            waiting += self.children[first[0]]
        room = most - len(kept)
        for number, rows in kept.items():
            others = [
                row
                for row in self.rows[number]
                if row not in rows and all(child in kept for child in self.children[row])
            ]
            kept[number] = sorted(rows + others[:room])
            room -= len(others[:room])
        return [row for rows in kept.values() for row in rows]


def _drawn(
    view: _View, rows: Sequence[int], new_since: int | None
) -> tuple[list[Node], list[Arrow]]:
    graph = view.graph
    by_class: dict[int, list[int]] = {}
    for row in sorted(rows):
        by_class.setdefault(int(graph.node_class[row]), []).append(row)
    position = {number: k for k, number in enumerate(by_class)}
    nodes, arrows = [], []
    for number, members in by_class.items():
        cells = tuple(_cell(view, row, new_since) for row in members)
        caption = f"#{number} {type_text(graph.language.info(int(graph.class_type[number])))}"
        frame = "root" if number in view.roots else "frame"
        nodes.append(Node(cells, caption, frame))
        for at, row in enumerate(members):
            children = view.children[row]
            role = "chosen-edge" if row in view.chosen else "edge"
            role = "filtered-edge" if graph.node_filtered[row] else role
            for k, child in enumerate(children):
                if child in position:  # else it is left out
                    place = (k + 1) / (len(children) + 1)
                    arrows.append(Arrow(position[child], position[number], at, place, role))
    return nodes, arrows


def _cell(view: _View, row: int, new_since: int | None) -> Cell:
    graph = view.graph
    number = int(graph.node_operator[row])
    operator = graph.language.operator(number)
    is_new = (
        new_since is not None
        and graph.node_rule[row] != FROM_INPUT
        and graph.node_iteration[row] >= new_since
    )
    filtered = bool(graph.node_filtered[row])
    role = "chosen" if row in view.chosen else "new" if is_new else "plain"
    return Cell(
        name=f"e-node {row}",
        lines=operator_lines(graph.language, number),
        role="filtered" if filtered else role,
        title=str(operator),
        crossed=filtered,
    )
