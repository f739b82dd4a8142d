"""Cycle filtering: keeping the e-graph free of cycles (TENSAT, section 5.2).

A class depends on the child classes of its visible e-nodes. An extraction is sure to be acyclic
when no class depends on itself. *Efficient* filtering discards, before an application, the matches
that the e-graph of the iteration's start already shows to close a cycle (`Dependence`), and after
it hides the newest e-node of each cycle that the applications made together (`resolve_cycles`).

The oldest e-node of each class is never hidden: its children were classes of older e-nodes, so the
oldest e-nodes form an acyclic graph that always derives every class.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from tvm_tensat.egraph.columns import Bools, Ints, first_of_equals
from tvm_tensat.egraph.egraph import EGraph

COLUMNS_AT_ONCE = 4096  # bits a class in one reachability sweep: bounds its memory to 512 B a class


def class_edges(graph: EGraph) -> tuple[Ints, Ints, Ints]:
    """Edges between classes by visible e-nodes, as (row, its class, child class) columns."""
    rows = graph.usable()
    owner, child = graph.edges(rows)
    row = rows[owner]
    return row, graph.node_class[row], child


def components(source: Ints, child: Ints, class_count: int) -> Ints:
    """Return the number of each class's strongly connected component, (classes,) int64.

    SciPy's algorithm (Pearce 2005) numbers a component after all that it leads to, though SciPy
    does not promise it: where an order is needed, check it. It loops for ever when an edge is given
    twice (SciPy 1.17), so edges are made unique here.
    """
    edge = np.sort(source * class_count + child)
    once = np.ones(len(edge), np.bool_)
    once[1:] = edge[1:] != edge[:-1]
    source, child = np.divmod(edge[once], max(class_count, 1))
    begin = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=class_count))])
    matrix = csr_matrix((np.ones(len(child)), child, begin), shape=(class_count, class_count))
    _, label = connected_components(matrix, directed=True, connection="strong")
    return label.astype(np.int64)


def levels(source: Ints, child: Ints, class_count: int) -> tuple[list[Ints], Bools]:
    """Peel an edge list from the leaves.

    Returns
    -------
    levels : list of (some edges,) int64
        Positions of the edges whose source has all its children in earlier levels.
    stuck : (classes,) bool
        Classes on a cycle or above one.
    """
    by_child = np.argsort(child, kind="stable")
    begin = np.searchsorted(child[by_child], np.arange(class_count + 1))
    by_source = np.argsort(source, kind="stable")
    source_begin = np.searchsorted(source[by_source], np.arange(class_count + 1))
    waiting = np.bincount(source, minlength=class_count)
    ready = np.flatnonzero(waiting == 0)
    found = []
    while len(ready):
        incoming = by_child[_ranges(begin[ready], begin[ready + 1])]
        parents = source[incoming]
        np.subtract.at(waiting, parents, 1)
        ready = np.unique(parents[waiting[parents] == 0])
        if len(ready):
            found.append(by_source[_ranges(source_begin[ready], source_begin[ready + 1])])
    return found, waiting > 0


def _ranges(begin: Ints, end: Ints) -> Ints:
    """Concatenate ``arange(begin[i], end[i])``."""
    length = end - begin
    total = int(length.sum())
    return np.arange(total) + np.repeat(begin - (np.cumsum(length) - length), length)


class Dependence:
    """Which classes depend on which, in one state of an e-graph that is acyclic and rebuilt."""

    def __init__(self, graph: EGraph) -> None:
        self.class_count = len(graph.class_type)
        _, self.source, self.child = class_edges(graph)
        self.rank = components(self.source, self.child, self.class_count)
        # A class depends on classes of lower rank only: most questions are answered by that.
        self.ranked = bool((self.rank[self.source] > self.rank[self.child]).all())
        self.has_child = np.zeros(self.class_count, np.bool_)
        self.has_child[self.source] = True

    def closes_cycle(self, above: Ints, below: Ints) -> Bools:
        """Whether ``below[i]`` already depends on ``above[i]`` (or is it), (pairs,) bool.

        An e-node in class `above` with child `below` would then close a cycle.
        """
        targets, _, column = first_of_equals(above)
        return self.on_sets(below, column, targets, np.arange(len(targets)))

    def on_sets(self, asked: Ints, column: Ints, member: Ints, of_set: Ints) -> Bools:
        """Whether ``asked[i]`` depends on, or is, a member of the set ``column[i]`` of classes.

        Parameters
        ----------
        asked, column : (questions,) int64
            A class, and the number of a set.
        member, of_set : (members of all sets,) int64
            A class, and the number of the set that it belongs to.

        Returns
        -------
        (questions,) bool
        """
        answer = np.zeros(len(asked), np.bool_)
        source, child, rank = self.source, self.child, self.rank
        open_questions: Ints = np.arange(len(asked))
        if self.ranked:
            lowest = np.full(int(of_set.max(initial=-1)) + 1, self.class_count)
            np.minimum.at(lowest, of_set, rank[member])
            # A class that has no child depends on itself alone.
            same = np.isin(column * self.class_count + asked, of_set * self.class_count + member)
            answer[~self.has_child[asked]] = same[~self.has_child[asked]]
            open_questions = np.flatnonzero((rank[asked] >= lowest[column]) & self.has_child[asked])
            if not len(open_questions):
                return answer
            low = int(lowest[column[open_questions]].min())
            high = int(rank[asked[open_questions]].max())
            between = (rank[child] >= low) & (rank[source] <= high)
            source, child = source[between], child[between]
        sets, _, column_of = first_of_equals(column[open_questions])
        number = np.full(int(of_set.max(initial=-1)) + 1, -1)
        number[sets] = np.arange(len(sets))
        wanted = number[of_set] >= 0
        answer[open_questions] = _sweep(
            levels(source, child, self.class_count)[0],
            source,
            child,
            self.class_count,
            asked[open_questions],
            column_of,
            member[wanted],
            number[of_set[wanted]],
        )
        return answer


def _sweep(
    order: list[Ints],
    source: Ints,
    child: Ints,
    class_count: int,
    asked: Ints,
    column: Ints,
    member: Ints,
    of_set: Ints,
) -> Bools:
    """Answer the questions of `on_sets` by sets of bits, a bit a set, from the leaves up."""
    answer = np.zeros(len(asked), np.bool_)
    steps = []
    for edges in order:
        first = np.flatnonzero(np.diff(source[edges], prepend=-1))
        steps.append((source[edges[first]], child[edges], first))
    for start in range(0, int(of_set.max(initial=-1)) + 1, COLUMNS_AT_ONCE):
        some = np.flatnonzero((of_set >= start) & (of_set < start + COLUMNS_AT_ONCE))
        bit = of_set[some] - start
        reaches = np.zeros((class_count, int(bit.max(initial=0)) // 64 + 1), np.uint64)
        mask = np.uint64(1) << (bit % 64).astype(np.uint64)
        np.bitwise_or.at(reaches, (member[some], bit // 64), mask)
        for parent, below, first in steps:
            reaches[parent] |= np.bitwise_or.reduceat(reaches[below], first, axis=0)
        questions = np.flatnonzero((column >= start) & (column < start + COLUMNS_AT_ONCE))
        at = column[questions] - start
        word = reaches[asked[questions], at // 64] >> (at % 64).astype(np.uint64)
        answer[questions] = word & np.uint64(1) == 1
    return answer


def resolve_cycles(graph: EGraph) -> int:
    """Hide the newest e-node of each cycle until none is left.

    The newest e-node with an edge inside a strongly connected component is on a cycle, and is the
    newest of that cycle; after it is hidden the component is split again.

    Returns
    -------
    int
        How many e-nodes were hidden.
    """
    row, source, child = class_edges(graph)
    label = components(source, child, len(graph.class_type))
    inside = label[source] == label[child]
    if not inside.any():
        return 0
    protected = oldest_rows(graph)
    row, source, child = row[inside], source[inside], child[inside]
    # The component in a numbering of its own, so that a round costs what is left of it.
    classes, _, group = first_of_equals(np.concatenate([source, child]))
    source, child = np.split(group, 2)
    label = label[classes]
    hidden = rounds = 0
    while len(row):
        candidates = ~protected[row]
        newest = _newest(row[candidates], label[source[candidates]], rounds)
        if not len(newest):
            raise RuntimeError("the oldest e-nodes of the classes close a cycle, which cannot be")
        graph.node_filtered[newest] = True
        hidden += len(newest)
        rounds += 1
        keep = ~graph.node_filtered[row]
        row, source, child = row[keep], source[keep], child[keep]
        label = components(source, child, len(classes))
        inside = label[source] == label[child]
        row, source, child = row[inside], source[inside], child[inside]
    return hidden


def hide(graph: EGraph, rows: Ints) -> None:
    """Hide e-nodes that are known to be on a cycle, except the oldest of their class.

    An e-node that a rule replaced by one of its own variables (``x * 1 = x``), and a field of a
    tuple beside the operand it stands for, depend on their own class.
    """
    graph.node_filtered[rows[~oldest_rows(graph)[rows]]] = True


def _newest(row: Ints, component: Ints, rounds: int) -> Ints:
    """Newest row of each component; after many rounds the newest tenth of all rows at once."""
    order = np.lexsort((row, component))
    last = np.flatnonzero(np.diff(component[order], append=-1))
    newest = row[order[last]]
    if rounds > 100:
        rows = np.unique(row)
        newest = np.union1d(newest, rows[-max(len(rows) // 10, 1) :])
    return newest


def oldest_rows(graph: EGraph) -> Bools:
    """Mark the oldest alive row of each class; together these rows are acyclic. (nodes,) bool."""
    rows = np.flatnonzero(graph.node_alive)
    _, first = np.unique(graph.node_class[rows], return_index=True)
    mark = np.zeros(len(graph.node_alive), np.bool_)
    mark[rows[first]] = True
    return mark
