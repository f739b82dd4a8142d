"""The e-graph as egraph-serialize JSON, which extraction-gym and egraph-visualizer read.

``nodes`` maps a name to ``op``, ``children`` (names of e-nodes, each standing for its class),
``eclass``, ``cost`` and ``subsumed``; ``root_eclasses`` lists the wanted classes and ``class_data``
gives their types. E-nodes that cycle filtering hides are written as subsumed: a reader must not
choose them. `tvm_tensat.extraction.problem_from_json` reads the file back as a problem.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_tensat.egraph.cycles import oldest_rows
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.files import replacing


def egraph_data(
    graph: EGraph, roots: Sequence[int], costs: NDArray[np.float64] | None = None
) -> dict[str, Any]:
    """Return an e-graph as the data of its JSON form.

    Parameters
    ----------
    graph : EGraph
    roots : sequence of int
        Classes wanted.
    costs : (nodes,) float64, optional
        By row of the e-graph; 1 each by default. Rows of infinite cost are written as subsumed,
        because JSON has no infinity.
    """
    graph.rebuild()
    rows = np.flatnonzero(graph.node_alive)
    values = np.ones(len(graph.node_operator)) if costs is None else costs
    hidden = graph.node_filtered | ~np.isfinite(values)
    oldest = np.flatnonzero(oldest_rows(graph))
    stands_for = dict(zip(graph.node_class[oldest].tolist(), oldest.tolist(), strict=True))
    nodes = {}
    for row in rows.tolist():
        operator = int(graph.node_operator[row])
        arity = int(graph.operator_arity[operator])
        children = graph.children(np.array([row]), arity)[0].tolist()
        nodes[f"n{row}"] = {
            "op": str(graph.language.operator(operator)),
            "children": [f"n{stands_for[child]}" for child in children],
            "eclass": str(int(graph.node_class[row])),
            "cost": float(values[row]) if np.isfinite(values[row]) else 0.0,
            "subsumed": bool(hidden[row]),
        }
    return {
        "nodes": nodes,
        "root_eclasses": list(dict.fromkeys(str(graph.find(root)) for root in roots)),
        "class_data": {
            str(number): {"type": str(graph.language.info(int(graph.class_type[number])))}
            for number in stands_for
        },
    }


def write_egraph(
    path: str | Path,
    graph: EGraph,
    roots: Sequence[int],
    costs: NDArray[np.float64] | None = None,
) -> None:
    """Write an e-graph as a file, which appears when it is complete; see `egraph_data`.

    Raises
    ------
    OSError
        If the file cannot be written; an older file of that name is left as it was.
    """
    text = json.dumps(egraph_data(graph, roots, costs), indent=1)
    with replacing(Path(path)) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
