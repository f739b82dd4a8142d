"""Reading pictures back: what is drawn, and where."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

from tvm_tensat.draw import Picture

SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float]  # left, top, right, bottom


def parsed(picture: Picture) -> ElementTree.Element:
    """The document; raises where it is not well-formed."""
    return ElementTree.fromstring(picture.svg)


def texts(picture: Picture) -> list[str]:
    return [element.text or "" for element in parsed(picture).iter(f"{SVG}text")]


def cells(picture: Picture) -> dict[str, str]:
    """The role of each box by its name."""
    found = {}
    for rectangle in parsed(picture).iter(f"{SVG}rect"):
        name = rectangle.get("data-cell")
        if name is not None:
            assert name not in found, f"{name} is drawn twice"
            found[name] = (rectangle.get("class") or "").removeprefix("tensat-")
    return found


def edges(picture: Picture) -> Counter[str]:
    found = (path.get("data-edge") for path in parsed(picture).iter(f"{SVG}path"))
    return Counter(name for name in found if name is not None)


def boxes(picture: Picture) -> list[Box]:
    """Where the boxes are, in the document's pixels, frames left out."""
    found: list[Box] = []

    def visit(element: ElementTree.Element, x: float, y: float) -> None:
        if moved := re.fullmatch(r"translate\((\S+) (\S+)\)", element.get("transform", "")):
            x, y = x + float(moved[1]), y + float(moved[2])
        if element.get("data-cell") is not None:
            left, top = x + float(element.get("x", 0)), y + float(element.get("y", 0))
            right = left + float(element.get("width", 0))
            found.append((left, top, right, top + float(element.get("height", 0))))
        for child in element:
            visit(child, x, y)

    visit(parsed(picture), 0.0, 0.0)
    return found


def overlapping(found: list[Box]) -> list[tuple[Box, Box]]:
    return [
        (a, b)
        for k, a in enumerate(found)
        for b in found[:k]
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]
