"""Reading extraction problems from egraph-serialize JSON, the format of the public data sets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_tensat.extraction.problem import ExtractionError, Ints, Problem


@dataclass(frozen=True)
class Named:
    """A problem read from a file, with the file's names.

    Parameters
    ----------
    problem : Problem
    nodes, classes : list of str
        By the numbers in the problem.
    """

    problem: Problem
    nodes: list[str]
    classes: list[str]

    def choice(self, choice: Ints) -> dict[str, str]:
        """Return the e-node chosen in each class, by names."""
        return {
            self.classes[number]: self.nodes[node]
            for number, node in enumerate(choice.tolist())
            if node >= 0
        }


def problem_from_json(path: str | Path) -> Problem:
    """Read the problem of a file, without its names; see `named_problem_from_json`."""
    return named_problem_from_json(path).problem


def named_problem_from_json(path: str | Path) -> Named:
    """Read an e-graph in the JSON form of the egraph-serialize project.

    The file has ``nodes`` (by name: ``eclass``, ``cost``, ``children`` as names of nodes, any node
    standing for its class) and ``root_eclasses``. E-nodes and classes are numbered in the file's
    order. ``subsumed`` e-nodes are read as forbidden.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Named
        Costs are taken as they are (the unit is the file's).

    Raises
    ------
    ExtractionError
        When the file is no such JSON, or a child or root names nothing.
    OSError
        When the file cannot be read.
    """
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        nodes: dict[str, dict[str, Any]] = data["nodes"]
        root_names: list[str] = data["root_eclasses"]
        class_names = [node["eclass"] for node in nodes.values()]
        costs = [float(node.get("cost", 1.0)) for node in nodes.values()]
        children = [node.get("children", []) for node in nodes.values()]
        forbidden = [bool(node.get("subsumed", False)) for node in nodes.values()]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ExtractionError(
            f"{path} is not an e-graph in egraph-serialize JSON ({type(error).__name__}: {error});"
            ' expected {"nodes": {name: {"eclass", "cost", "children"}}, "root_eclasses": [...]}'
        ) from error
    class_number: dict[str, int] = {}
    for name in class_names:
        class_number.setdefault(name, len(class_number))
    child_class: list[int] = []
    child_start = [0]
    for node_name, names in zip(nodes, children, strict=True):
        for name in names:
            if name not in nodes:
                raise ExtractionError(
                    f"{path}: e-node {node_name!r} has the child {name!r}, which is not in 'nodes'"
                )
            child_class.append(class_number[nodes[name]["eclass"]])
        child_start.append(len(child_class))
    unknown = [name for name in root_names if name not in class_number]
    if unknown:
        raise ExtractionError(f"{path}: root class {unknown[0]!r} has no e-node in 'nodes'")
    problem = Problem(
        node_class=np.array([class_number[name] for name in class_names], dtype=np.int64),
        child_start=np.array(child_start, dtype=np.int64),
        child_class=np.array(child_class, dtype=np.int64),
        node_cost=np.array(costs, dtype=np.float64),
        roots=np.array([class_number[name] for name in root_names], dtype=np.int64),
        forbidden=np.array(forbidden, dtype=np.bool_),
        class_count=len(class_number),
    )
    return Named(problem, list(nodes), list(class_number))
