"""What changed between two forms of a function, as a picture: both drawn beside each other.

Steps are matched as a text comparison matches lines, where steps are alike that apply the same
operator to operands of the same types, with equal constants. A small function is drawn whole. Of a
larger one its *changes* are drawn: steps that went or came, which are connected or stand in the
same place, and the steps next to them. Changes that look alike are drawn once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import tvm
from tvm import relax

from tvm_tensat.draw import svg
from tvm_tensat.draw.egraph import MOST_NODES
from tvm_tensat.draw.graph import Arrow, Node, draw_graph
from tvm_tensat.draw.program import Step, read_program

_GAP = 40.0
_WIDEST = 1400.0  # changes stand beside each other up to this many pixels

Steps = Sequence[Step]
_Box = tuple[int, int]  # side (0 before, 1 after), step


@dataclass(frozen=True)
class _Change:
    """Steps that went, and the steps that came for them."""

    gone: tuple[int, ...]
    new: tuple[int, ...]


def draw_function(
    program: tvm.IRModule | relax.Function, name: str = "main", most: int = MOST_NODES
) -> svg.Picture:
    """Draw a Relax function, its first `most` steps when it has more.

    Parameters
    ----------
    program : IRModule or relax.Function
    name : str
        Of the function, in a module.
    most : int
    """
    steps = read_program(program, name)
    piece = _side(steps, range(min(most, len(steps))), set(), "plain")
    if len(steps) > most:
        line = f"the first {most} of {len(steps)} boxes are shown"
        piece = svg.above([svg.words([line], "faint"), piece])
    return svg.picture(piece)


def draw_change(
    before: tvm.IRModule | relax.Function,
    after: tvm.IRModule | relax.Function,
    name: str = "main",
    most: int = MOST_NODES,
) -> svg.Picture:
    """Draw what changed between two forms of a Relax function.

    Parameters
    ----------
    before, after : IRModule or relax.Function
    name : str
        Of the function, in a module.
    most : int
        Boxes to draw at most.
    """
    old, new = read_program(before, name), read_program(after, name)
    changes = _changes(old, new)
    gone = {step for change in changes for step in change.gone}
    came = {step for change in changes for step in change.new}
    lines = [
        f"before: {_bindings(old)} bindings, {len(gone)} gone (dashed)",
        f"after: {_bindings(new)} bindings, {len(came)} new (thick)",
    ]
    if len(old) + len(new) <= most:
        whole = _Change(tuple(range(len(old))), tuple(range(len(new))))
        pieces = [_both(old, new, whole, gone, came)]
    else:
        pieces, more = _alike_once(old, new, changes, gone, came, most)
        lines += more
    return svg.picture(svg.above([svg.words(lines, "faint"), _rows(pieces)], 16.0))


def _bindings(steps: Steps) -> int:
    return sum(step.cell.role != "source" for step in steps)


# -- what changed ----------------------------------------------------------------------------------


def _changes(old: Steps, new: Steps) -> list[_Change]:
    """Match the steps of both forms and connect those that have no match."""
    matcher = SequenceMatcher(
        None, [s.likeness for s in old], [s.likeness for s in new], autojunk=False
    )
    joined: dict[_Box, _Box] = {}  # a forest

    def find(box: _Box) -> _Box:
        while joined[box] != box:
            box = joined[box]
        return box

    def join(one: _Box, other: _Box) -> None:
        if one in joined and other in joined:
            first, second = sorted([find(one), find(other)])
            joined[second] = first

    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag != "equal":
            here = [(0, k) for k in range(i, i_end)] + [(1, k) for k in range(j, j_end)]
            joined.update(dict.fromkeys(here, here[0]))
    for side, steps in enumerate((old, new)):
        for number, step in enumerate(steps):
            for operand in step.operands:
                join((side, number), (side, operand))
    for block in matcher.get_matching_blocks():
        for k in range(block.size):  # what a step used, and what its match uses in its place
            pair = old[block.a + k], new[block.b + k]
            for here, there in zip(*(step.operands for step in pair), strict=False):
                join((0, here), (1, there))
    groups: dict[_Box, list[_Box]] = {}
    for box in joined:
        groups.setdefault(find(box), []).append(box)
    return [
        _Change(*(tuple(sorted(k for at, k in group if at == side)) for side in (0, 1)))
        for group in groups.values()
    ]


def _shape(old: Steps, new: Steps, change: _Change) -> tuple[object, ...]:
    """Return what changes that look alike have in common: operators and how they are connected."""
    found: list[object] = []
    for steps, numbers in ((old, change.gone), (new, change.new)):
        place = {number: k for k, number in enumerate(numbers)}
        found += [
            (steps[n].cell.lines[0], tuple(place.get(o, -1) for o in steps[n].operands))
            for n in numbers
        ]
        found.append(len(numbers))
    return tuple(found)


def _with_neighbours(steps: Steps, numbers: Iterable[int]) -> list[int]:
    """Add the steps that these use and that use them."""
    own = set(numbers)
    users = {n for n, step in enumerate(steps) if own & set(step.operands)}
    used = {operand for n in own for operand in steps[n].operands}
    return sorted(own | users | used)


# -- drawing ---------------------------------------------------------------------------------------


def _alike_once(
    old: Steps, new: Steps, changes: Sequence[_Change], gone: set[int], came: set[int], most: int
) -> tuple[list[svg.Piece], list[str]]:
    """Draw one of the changes of each shape, with how often there is one, and say what is not."""
    alike: dict[tuple[object, ...], list[_Change]] = {}
    for change in changes:
        alike.setdefault(_shape(old, new, change), []).append(change)
    lines = ["what changed is shown, with what stands beside it; changes that look alike once"]
    pieces: list[svg.Piece] = []
    room, left_out = most, 0
    for group in alike.values():
        gone_here = _with_neighbours(old, group[0].gone)
        new_here = _with_neighbours(new, group[0].new)
        boxes = len(gone_here) + len(new_here)
        if boxes > room and pieces:
            left_out += len(group)
            continue
        if boxes > room:
            lines.append(f"the first {room} of the {boxes} boxes of a change are shown")
            gone_here = gone_here[: room // 2]
            new_here = new_here[: room - len(gone_here)]
        room -= len(gone_here) + len(new_here)
        shown = _Change(tuple(gone_here), tuple(new_here))
        times = "once" if len(group) == 1 else f"{len(group)} times like this"
        pieces.append(svg.above([svg.words([times]), _both(old, new, shown, gone, came)]))
    if left_out:
        lines.append(f"{left_out} more changes are left out, for room")
    return pieces, lines


def _both(old: Steps, new: Steps, shown: _Change, gone: set[int], came: set[int]) -> svg.Piece:
    sides = [_side(old, shown.gone, gone, "gone"), _side(new, shown.new, came, "new")]
    return svg.beside(
        [
            svg.above([svg.words([title], "faint"), side])
            for title, side in zip(("before", "after"), sides, strict=True)
            if side.width
        ],
        _GAP,
    )


def _side(steps: Steps, shown: Iterable[int], changed: set[int], role: str) -> svg.Piece:
    """Draw some steps of one form."""
    place = {number: k for k, number in enumerate(shown)}
    nodes, arrows = [], []
    for number, k in place.items():
        step = steps[number]
        cell = replace(step.cell, role=role) if number in changed else step.cell
        nodes.append(Node((cell,)))
        for position, operand in enumerate(step.operands):
            if operand in place:
                touched = number in changed or operand in changed
                where = (position + 1) / (len(step.operands) + 1)
                arrows.append(
                    Arrow(place[operand], k, 0, where, f"{role}-edge" if touched else "edge")
                )
    return draw_graph(nodes, arrows)


def _rows(pieces: Sequence[svg.Piece]) -> svg.Piece:
    """Put pieces in rows that are not too wide."""
    rows: list[list[svg.Piece]] = []
    width = _WIDEST
    for piece in pieces:
        if width + _GAP + piece.width > _WIDEST:
            rows.append([])
            width = -_GAP
        rows[-1].append(piece)
        width += _GAP + piece.width
    return svg.above([svg.beside(row, _GAP) for row in rows], 24.0)
