"""SVG as text: the colours, the elements, pieces that are put beside each other, the picture.

Every element carries its colours for a light background as attributes, because some viewers drop
style sheets; the style sheet then replaces them where the reader prefers dark. A picture brings its
own background, so it can be read on any page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from unicodedata import east_asian_width

from tvm_tensat.files import replacing

MARGIN = 12.0
FONT_SIZE, SMALL_SIZE = 12.0, 10.0
_FONT = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_ADVANCE = 0.61  # width of a character of these fonts over the font's size, the widest of them

# Role -> fill and stroke on a light background, then on a dark one. Pairs that differ in meaning
# differ in their lines too (dashed, thick, crossed out), for those who see colours otherwise.
_ROLES: dict[str, tuple[str, str, str, str]] = {
    "page": ("#ffffff", "none", "#1b1f24", "none"),
    "text": ("#1f2328", "none", "#e6edf3", "none"),
    "faint": ("#59636e", "none", "#9198a1", "none"),
    "plain": ("#f6f8fa", "#818b98", "#2a3038", "#6e7781"),
    "source": ("#ddf4ff", "#54aeff", "#0c2d4d", "#388bfd"),
    "gone": ("#ffebe9", "#cf222e", "#4a1a1d", "#f85149"),
    "new": ("#dafbe1", "#1a7f37", "#12361f", "#3fb950"),
    "chosen": ("#fff3c4", "#9a6700", "#4b3a0b", "#e3b341"),
    "filtered": ("#f0f0f0", "#a0a7af", "#24282e", "#596068"),
    "frame": ("#ffffff", "#b1bac4", "#20252c", "#4d5560"),
    "root": ("#ffffff", "#59636e", "#20252c", "#9198a1"),
    "edge": ("none", "#818b98", "none", "#7d8590"),
    "gone-edge": ("none", "#cf222e", "none", "#f85149"),
    "new-edge": ("none", "#1a7f37", "none", "#3fb950"),
    "chosen-edge": ("none", "#9a6700", "none", "#e3b341"),
    "filtered-edge": ("none", "#a0a7af", "none", "#596068"),
    "cross": ("none", "#cf222e", "none", "#f85149"),
}
_LINES = {
    "gone": ("1.2", "5 3"),
    "new": ("2", None),
    "chosen": ("2.4", None),
    "filtered": ("1", "2 2"),
    "root": ("2.4", None),
    "gone-edge": ("1.2", "5 3"),
    "new-edge": ("1.8", None),
    "chosen-edge": ("2", None),
    "filtered-edge": ("1", "2 2"),
}
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text_width(line: str, size: float = FONT_SIZE) -> float:
    """Return how wide a line is at most, in pixels."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in line) * size * _ADVANCE


def quoted(text: str) -> str:
    """Return text that can stand in XML, between tags or in an attribute."""
    return escape(_NOT_XML.sub("\ufffd", text))


def number(value: float) -> str:
    """Return a coordinate to a tenth of a pixel, which is finer than a reader sees."""
    return f"{round(value, 1) + 0.0:g}"  # + 0.0: no negative zero


def painted(role: str) -> str:
    """Return the attributes that give an element the look of a role."""
    fill, stroke, _, _ = _ROLES[role]
    width, dashes = _LINES.get(role, ("1", None))
    lines = "" if stroke == "none" else f' stroke="{stroke}" stroke-width="{width}"'
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'class="tensat-{role}" fill="{fill}"{lines}{dashed}'


def rectangle(
    role: str, x: float, y: float, width: float, height: float, more: str = "", title: str = ""
) -> str:
    """Return a box with round corners; `more` are attributes, the title shows under the mouse."""
    place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    inside = f"<title>{quoted(title)}</title>" if title else ""
    return f'<rect {place} rx="4" {painted(role)}{more}>{inside}</rect>'


def text(
    line: str, x: float, y: float, role: str = "text", size: float = FONT_SIZE, middle: bool = True
) -> str:
    """Return a line of text on the base line `y`, centred at `x` or beginning there."""
    anchor = ' text-anchor="middle"' if middle else ""
    fill = f'class="tensat-{role}" fill="{_ROLES[role][0]}"'
    place = f'x="{number(x)}" y="{number(y)}" font-size="{number(size)}"'
    return f"<text {place} {fill}{anchor}>{quoted(line)}</text>"


def path(role: str, steps: str, more: str = "") -> str:
    """Return a line."""
    return f'<path d="{steps}" {painted(role)}{more}/>'


@dataclass(frozen=True)
class Piece:
    """A part of a picture, drawn from (0, 0) to (width, height) in pixels."""

    width: float
    height: float
    elements: tuple[str, ...]

    def at(self, x: float, y: float) -> str:
        """Return it moved."""
        inside = "\n".join(self.elements)
        return f'<g transform="translate({number(x)} {number(y)})">\n{inside}\n</g>'


def words(lines: Sequence[str], role: str = "text", size: float = FONT_SIZE) -> Piece:
    """Return lines of text as a piece."""
    step = size * 1.4
    elements = [text(line, 0, size + k * step, role, size, False) for k, line in enumerate(lines)]
    width = max((text_width(line, size) for line in lines), default=0.0)
    return Piece(width, step * len(lines), tuple(elements))


def beside(pieces: Iterable[Piece], gap: float = 24.0) -> Piece:
    """Put pieces in a row, their tops on one line."""
    elements, x, height = [], 0.0, 0.0
    for piece in pieces:
        elements.append(piece.at(x, 0))
        x += piece.width + gap
        height = max(height, piece.height)
    return Piece(max(x - gap, 0.0), height, tuple(elements))


def above(pieces: Iterable[Piece], gap: float = 10.0) -> Piece:
    """Put pieces in a column."""
    elements, y, width = [], 0.0, 0.0
    for piece in pieces:
        elements.append(piece.at(0, y))
        y += piece.height + gap
        width = max(width, piece.width)
    return Piece(width, max(y - gap, 0.0), tuple(elements))


@dataclass(frozen=True)
class Picture:
    """An SVG document, which notebooks show.

    Parameters
    ----------
    svg : str
    """

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Picture: {len(self.svg):,} characters of SVG>"

    def save(self, file: str | Path) -> None:
        """Write it as a file, which appears when it is complete."""
        with replacing(Path(file)) as unfinished:
            unfinished.write_text(self.svg, encoding="utf-8")


def picture(piece: Piece) -> Picture:
    """Frame a piece as a document."""
    width, height = number(piece.width + 2 * MARGIN), number(piece.height + 2 * MARGIN)
    dark = "".join(
        f".tensat-{role}{{fill:{fill};stroke:{stroke}}}"
        for role, (_, _, fill, stroke) in _ROLES.items()
    )
    background = f'<rect width="{width}" height="{height}" rx="6" {painted("page")}/>'
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" style="max-width: 100%" '
        f'font-family="{_FONT}">\n'
        f"<style>@media (prefers-color-scheme: dark){{{dark}}}</style>\n"
        f"{background}\n{piece.at(MARGIN, MARGIN)}\n</svg>\n"
    )
