"""SVG as text: escaping, sizes, files."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draw.support import SVG, parsed, texts
from tvm_tensat.draw import svg
from tvm_tensat.draw.graph import Arrow, Cell, Node, draw_graph

QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_markup_in_text_is_text() -> None:
    hostile = "<script>&\"'</text>"
    cell = Cell(hostile, (hostile, hostile), title=hostile)
    picture = svg.picture(draw_graph([Node((cell,), hostile)], [Arrow(0, 0)]))
    assert texts(picture) == [hostile] * 3
    titles = [title.text for title in parsed(picture).iter(f"{SVG}title")]
    assert titles == [hostile]
    assert not list(parsed(picture).iter(f"{SVG}script"))


@QUIET
@given(st.text())
def test_any_text_gives_a_well_formed_document(line: str) -> None:
    cell = Cell(line, (line,), title=line)
    ElementTree.fromstring(svg.picture(draw_graph([Node((cell,))], [])).svg)


def test_wide_letters_take_twice_the_room() -> None:
    assert svg.text_width("行列") == svg.text_width("abcd")


def test_numbers_are_short_and_never_minus_zero() -> None:
    assert [svg.number(v) for v in (1.0, 0.04, -0.04, 12.345, -3.25)] == [
        "1",
        "0",
        "0",
        "12.3",
        "-3.2",
    ]


def test_pieces_in_rows_and_columns_do_not_overlap() -> None:
    def box(number: int) -> svg.Piece:
        return svg.Piece(10, 10 * number, (svg.rectangle("plain", 0, 0, 10, 10 * number),))

    both = svg.above([svg.beside([box(1), box(2)]), box(3)])
    assert (both.width, both.height) == (44, 60)


def test_a_picture_is_shown_by_notebooks_and_saved_whole(tmp_path) -> None:
    picture = svg.picture(svg.words(["ä → b"]))
    assert picture._repr_svg_() == picture.svg
    assert "characters of SVG" in repr(picture)
    picture.save(tmp_path / "file.svg")
    assert (tmp_path / "file.svg").read_text(encoding="utf-8") == picture.svg
    assert [file.name for file in tmp_path.iterdir()] == ["file.svg"]


def test_every_colour_has_its_counterpart_for_dark_pages() -> None:
    style = next(parsed(svg.picture(svg.words(["a"]))).iter(f"{SVG}style")).text
    assert "prefers-color-scheme: dark" in style
    used = parsed(svg.picture(draw_graph([Node((Cell("a", ("a",), crossed=True),), "b")], [])))
    roles = {element.get("class") for element in used.iter()} - {None}
    assert roles and all(f".{role}{{" in style for role in roles)
