"""A graph of labelled boxes as a piece of a picture.

A node is a box, or a frame with a caption around several boxes beside each other (an e-class around
its e-nodes). Arrows lead from the bottom of a node to the top of one of another's boxes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_tensat.draw import svg
from tvm_tensat.draw.layered import Edge, Point, layered

_PAD_X, _PAD_Y = 8.0, 5.0
_FRAME_PAD, _CAPTION, _CELL_GAP = 7.0, 17.0, 8.0
_LOOP = 14.0  # room beside a node for an arrow to itself
_HEAD = 4.0  # half the width of an arrow's head


@dataclass(frozen=True)
class Cell:
    """A box with text.

    Parameters
    ----------
    name : str
        Unique in the graph; written into the SVG as ``data-cell``.
    lines : tuple of str
        The first in normal size, the others small.
    role : str
        Its look; see `tvm_tensat.draw.svg`.
    title : str
        Shown under the mouse.
    crossed : bool
        Whether it is crossed out.
    """

    name: str
    lines: tuple[str, ...]
    role: str = "plain"
    title: str = ""
    crossed: bool = False

    @property
    def width(self) -> float:
        """In pixels."""
        sizes = [svg.FONT_SIZE] + [svg.SMALL_SIZE] * (len(self.lines) - 1)
        widths = [svg.text_width(line, s) for line, s in zip(self.lines, sizes, strict=False)]
        return max(widths, default=0.0) + 2 * _PAD_X

    @property
    def height(self) -> float:
        """In pixels."""
        return svg.FONT_SIZE + (len(self.lines) - 1) * svg.SMALL_SIZE * 1.3 + 2 * _PAD_Y


@dataclass(frozen=True)
class Node:
    """One box, or a frame around boxes.

    Parameters
    ----------
    cells : tuple of Cell
        At least one.
    caption : str or None
        Below the boxes in a frame; without one there is no frame and one box.
    frame : str
        Role of the frame.
    """

    cells: tuple[Cell, ...]
    caption: str | None = None
    frame: str = "frame"


@dataclass(frozen=True)
class Arrow:
    """A value that a box uses.

    Parameters
    ----------
    tail : int
        The node that makes it.
    head, cell : int
        The node that uses it, and which of its boxes.
    place : float
        Where it enters the box, from 0 (left) to 1.
    role : str
    """

    tail: int
    head: int
    cell: int = 0
    place: float = 0.5
    role: str = "edge"


def draw_graph(nodes: Sequence[Node], arrows: Sequence[Arrow]) -> svg.Piece:
    """Lay out and draw a graph."""
    loops: dict[int, int] = defaultdict(int)
    for arrow in arrows:
        loops[arrow.tail] += arrow.tail == arrow.head
    shapes = [_Shape(node, loops[number]) for number, node in enumerate(nodes)]
    edges = [
        Edge(
            a.tail,
            a.head,
            shapes[a.tail].bottom_port,
            shapes[a.head].port(a.cell, a.place),
            weak=nodes[a.head].cells[a.cell].crossed,
        )
        for a in arrows
    ]
    layout = layered([s.width for s in shapes], [s.height for s in shapes], edges)
    places = list(zip(layout.left.tolist(), layout.top.tolist(), strict=True))
    elements = [
        element
        for shape, (x, y) in zip(shapes, places, strict=True)
        for element in shape.elements(x, y)
    ]
    drawn: dict[int, int] = defaultdict(int)
    for arrow, route in zip(arrows, layout.routes, strict=True):
        tail, head = nodes[arrow.tail], nodes[arrow.head].cells[arrow.cell]
        steps = _curve(route, shapes[arrow.head].cell_top)
        if not route:
            drawn[arrow.tail] += 1
            steps = shapes[arrow.tail].loop(*places[arrow.tail], arrow, drawn[arrow.tail])
        name = svg.quoted(f"{tail.cells[0].name} -> {head.name}")
        elements.append(svg.path(arrow.role, steps, f' data-edge="{name}"'))
    return svg.Piece(layout.width, layout.height, tuple(elements))


class _Shape:
    """A node with its size and the places of its boxes."""

    def __init__(self, node: Node, loops: int) -> None:
        self.node = node
        framed = node.caption is not None
        pad = _FRAME_PAD if framed else 0.0
        self.cell_left, x = [], pad
        for cell in node.cells:
            self.cell_left.append(x)
            x += cell.width + _CELL_GAP
        self.cell_top = pad
        self.body = x - _CELL_GAP + pad
        if node.caption is not None:
            caption = svg.text_width(node.caption, svg.SMALL_SIZE) + 2 * pad
            spare = max(caption - self.body, 0.0)
            self.cell_left = [left + spare / 2 for left in self.cell_left]
            self.body += spare
        self.width = self.body + _LOOP * loops
        self.height = pad + max(cell.height for cell in node.cells)
        self.height += _CAPTION + 1 if framed else 0.0
        self.bottom_port = (self.body - self.width) / 2

    def port(self, cell: int, place: float) -> float:
        """Return where an arrow enters a box, from the centre of the node."""
        return self.cell_left[cell] + place * self.node.cells[cell].width - self.width / 2

    def elements(self, x: float, y: float) -> list[str]:
        """Draw the node with its upper left corner at (x, y)."""
        node, found = self.node, []
        if node.caption is not None:
            middle, line = x + self.body / 2, y + self.height - 5
            found.append(svg.rectangle(node.frame, x, y, self.body, self.height))
            found.append(svg.text(node.caption, middle, line, "faint", svg.SMALL_SIZE))
        for cell, left in zip(node.cells, self.cell_left, strict=True):
            found += _cell(cell, x + left, y + self.cell_top)
        return found

    def loop(self, x: float, y: float, arrow: Arrow, number: int) -> str:
        """Return the way from the node's right side round its corner to one of its boxes."""
        right, far = x + self.body, x + self.body + _LOOP * number - 3
        start, over, tip = y + self.height - 8, y - 8, y + self.cell_top
        end = x + self.width / 2 + self.port(arrow.cell, arrow.place)
        n = svg.number
        return (
            f"M{n(right)} {n(start)}Q{n(far)} {n(start)} {n(far)} {n(start - 8)}L{n(far)} {n(y)}"
            f"Q{n(far)} {n(over)} {n(far - 8)} {n(over)}L{n(end + 8)} {n(over)}"
            f"Q{n(end)} {n(over)} {n(end)} {n(y)}L{n(end)} {n(tip)}"
        ) + _arrowhead((end, tip), down=True)


def _cell(cell: Cell, x: float, y: float) -> list[str]:
    name = f' data-cell="{svg.quoted(cell.name)}"'
    found = [svg.rectangle(cell.role, x, y, cell.width, cell.height, name, cell.title)]
    role = "faint" if cell.role == "filtered" else "text"
    at = y + _PAD_Y + svg.FONT_SIZE - 2
    for number, line in enumerate(cell.lines):
        size = svg.SMALL_SIZE if number else svg.FONT_SIZE
        found.append(svg.text(line, x + cell.width / 2, at, "faint" if number else role, size))
        at += svg.SMALL_SIZE * 1.3
    if cell.crossed:
        n = svg.number
        right, bottom = x + cell.width, y + cell.height
        cross = f"M{n(x)} {n(y)}L{n(right)} {n(bottom)}M{n(right)} {n(y)}L{n(x)} {n(bottom)}"
        found.append(svg.path("cross", cross))
    return found


def _curve(route: Sequence[Point], inside: float) -> str:
    """Return the path of a route: straight in layers, curved between them, then the head.

    `inside` is how far it goes on into a frame from above.
    """
    if not route:
        return ""
    n = svg.number
    x, y = route[0]
    steps = [f"M{n(x)} {n(y)}"]
    for at in range(1, len(route)):
        (x0, y0), (x1, y1) = route[at - 1], route[at]
        if at % 2:
            steps += [f"L{n(x1)} {n(y1)}"] if y0 != y1 else []
        else:
            half = n((y0 + y1) / 2)
            steps.append(f"C{n(x0)} {half} {n(x1)} {half} {n(x1)} {n(y1)}")
    x, last = route[-1]
    down = last >= y
    if down and inside:
        last += inside
        steps.append(f"L{n(x)} {n(last)}")
    return "".join(steps) + _arrowhead((x, last), down)


def _arrowhead(tip: Point, down: bool) -> str:
    """Return an open head, part of the line so that it needs no marker."""
    n, (x, y) = svg.number, tip
    back = y - 1.5 * _HEAD if down else y + 1.5 * _HEAD
    return f"M{n(x - _HEAD)} {n(back)}L{n(x)} {n(y)}L{n(x + _HEAD)} {n(back)}"
