"""Strongly connected components of small graphs given as Python dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def strong_components(graph: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Return the strongly connected components, each after all that it leads to.

    R. Tarjan, Depth-first search and linear graph algorithms, 1972, without recursion.

    Parameters
    ----------
    graph : mapping of int to iterable of int
        The successors of each vertex; successors that are no key are ignored.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    open_vertices: list[int] = []
    is_open: set[int] = set()
    components: list[list[int]] = []
    for start in graph:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        open_vertices.append(start)
        is_open.add(start)
        path = [(start, iter(graph[start]))]
        while path:
            vertex, successors = path[-1]
            for successor in successors:
                if successor not in index:
                    if successor not in graph:
                        continue
                    index[successor] = low[successor] = len(index)
                    open_vertices.append(successor)
                    is_open.add(successor)
                    path.append((successor, iter(graph[successor])))
                    break
                if successor in is_open and index[successor] < low[vertex]:
                    low[vertex] = index[successor]
            else:
                path.pop()
                if path and low[vertex] < low[path[-1][0]]:
                    low[path[-1][0]] = low[vertex]
                if low[vertex] == index[vertex]:
                    component = []
                    while True:
                        member = open_vertices.pop()
                        is_open.discard(member)
                        component.append(member)
                        if member == vertex:
                            break
                    components.append(component)
    return components


def cycles_of(graph: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Return the components that contain a cycle: several vertices, or one that leads to itself."""
    return [
        component
        for component in strong_components(graph)
        if len(component) > 1 or component[0] in set(graph[component[0]])
    ]
