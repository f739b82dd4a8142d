"""The layout, on random graphs."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draw.support import overlapping
from tvm_tensat.draw.layered import Edge, layered

QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def graphs(draw: st.DrawFn, cyclic: bool = False):
    count = draw(st.integers(1, 25))
    sizes = st.tuples(st.floats(5, 200), st.floats(5, 60))
    widths, heights = zip(*(draw(sizes) for _ in range(count)), strict=True)
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))))
    names = draw(st.permutations(range(count)))
    edges = [
        Edge(names[min(p)], names[max(p)]) if not cyclic else Edge(*p)
        for p in pairs
        if cyclic or p[0] != p[1]
    ]
    return widths, heights, edges


def boxes_of(layout, widths, heights):
    left, top = layout.left.tolist(), layout.top.tolist()
    return [(x, y, x + w, y + h) for x, y, w, h in zip(left, top, widths, heights, strict=True)]


@QUIET
@given(graphs())
def test_boxes_of_an_acyclic_graph_do_not_overlap_and_edges_run_down(graph) -> None:
    widths, heights, edges = graph
    layout = layered(widths, heights, edges)
    boxes = boxes_of(layout, widths, heights)
    assert overlapping(boxes) == []
    for box in boxes:
        assert box[0] >= -1e-9 and box[1] >= -1e-9
        assert box[2] <= layout.width + 1e-9 and box[3] <= layout.height + 1e-9
    for edge, route in zip(edges, layout.routes, strict=True):
        (x0, y0), (x1, y1) = route[0], route[-1]
        tail, head = boxes[edge.tail], boxes[edge.head]
        assert tail[3] < head[1]
        assert np.isclose([x0, y0], [(tail[0] + tail[2]) / 2, tail[3]]).all()
        assert np.isclose([x1, y1], [(head[0] + head[2]) / 2, head[1]]).all()
        assert all(a[1] <= b[1] + 1e-9 for a, b in itertools.pairwise(route))


@QUIET
@given(graphs())
def test_edges_pass_beside_the_boxes_that_they_do_not_belong_to(graph) -> None:
    widths, heights, edges = graph
    layout = layered(widths, heights, edges)
    boxes = boxes_of(layout, widths, heights)
    for route in layout.routes:
        for (x, y0), (_, y1) in zip(route[::2], route[1::2], strict=True):  # vertical stretches
            inside = [b for b in boxes if b[0] < x < b[2] and y0 < b[3] - 1e-6 and b[1] + 1e-6 < y1]
            assert not inside
        # Curves lie between layers: no box reaches into the height that a curve crosses.
        for (_, y0), (_, y1) in zip(route[1::2], route[2::2], strict=False):
            assert not [b for b in boxes if y0 + 1e-6 < b[3] and b[1] < y1 - 1e-6]


@QUIET
@given(graphs(cyclic=True))
def test_cyclic_graphs_are_laid_out_too(graph) -> None:
    widths, heights, edges = graph
    layout = layered(widths, heights, edges)
    assert overlapping(boxes_of(layout, widths, heights)) == []
    for edge, route in zip(edges, layout.routes, strict=True):
        assert bool(route) == (edge.tail != edge.head)


def test_weak_edges_are_the_ones_that_run_upwards() -> None:
    sizes = [10.0] * 3
    edges = [Edge(2, 0, weak=True), Edge(0, 1), Edge(1, 2)]
    top = layered(sizes, sizes, edges).top.tolist()
    assert top == sorted(top)
    strong = [Edge(edge.tail, edge.head, weak=not edge.weak) for edge in edges]
    assert layered(sizes, sizes, strong).top[2] < layered(sizes, sizes, strong).top[0]


def test_a_box_stands_under_the_middle_of_those_it_hangs_from() -> None:
    layout = layered([20.0] * 3, [10.0] * 3, [Edge(0, 2), Edge(1, 2)])
    assert layout.left[2] == (layout.left[0] + layout.left[1]) / 2


def test_crossings_that_can_be_avoided_are() -> None:
    # A ladder given crosswise: 0 and 1 above, 3 under 0 and 2 under 1.
    layout = layered([20.0] * 4, [10.0] * 4, [Edge(0, 3), Edge(1, 2)])
    assert (layout.left[0] < layout.left[1]) == (layout.left[3] < layout.left[2])


def test_nothing_has_no_size() -> None:
    layout = layered([], [], [])
    assert (layout.width, layout.height, len(layout.left)) == (0.0, 0.0, 0)
