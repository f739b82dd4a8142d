"""A chosen graph in the order in which its bindings will be emitted: what fusion depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm_tensat.egraph import EGraph
from tvm_tensat.fusion.kernels import Emitted
from tvm_tensat.relax.order import ChosenGraph, arrange


@dataclass(frozen=True)
class EmittedGraph:
    """Operators in the order of bindings, and the e-nodes they are.

    Parameters
    ----------
    nodes : tuple of Emitted
    rows : tuple of int
        Rows of the e-graph.
    """

    nodes: tuple[Emitted, ...]
    rows: tuple[int, ...]


def emitted_graph(chosen: ChosenGraph, graph: EGraph, row_of: Mapping[int, int]) -> EmittedGraph:
    """Return what `tvm_tensat.relax.writer.write_segment` will emit for a choice.

    Parameters
    ----------
    chosen : ChosenGraph
    graph : EGraph
    row_of : mapping of int to int
        The chosen e-node's row, by class.
    """
    classes = tuple(place.number for place in arrange(chosen) if place.beside is None)
    position = {number: k for k, number in enumerate(classes)}
    nodes = []
    for number in classes:
        operator, children = chosen.choice[number]
        nodes.append(
            Emitted(
                operator=operator,
                operands=tuple(position[child] for child in children),
                types=tuple(int(graph.class_type[child]) for child in children),
                is_weight=bool(graph.class_weight[number]),
                is_bound=chosen.is_bound(number),
                outputs=len(chosen.outputs.get(number, ())),
            )
        )
    return EmittedGraph(tuple(nodes), tuple(row_of[number] for number in classes))
