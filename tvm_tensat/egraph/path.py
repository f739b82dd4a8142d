"""The rewrites that lead from the input to an extracted graph, one after another.

Classes are brought to their chosen e-nodes from the roots down. A class may be used as several
terms of the input; each of them is a *hole* of the graph above it, and its rewrites change what
stands in that hole alone. So a graph in which a value is used a thousand times is rewritten once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_tensat.egraph.columns import Ints
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.explain import Explainer, Step, Terms
from tvm_tensat.egraph.journal import GIVEN, PROJECTION
from tvm_tensat.egraph.rule import Rule


@dataclass(frozen=True)
class Path:
    """Rewrites from the input to the chosen graph.

    Attributes
    ----------
    terms : Terms
    steps : tuple of (int, Step)
        The hole in which each rewrite takes place (an e-node of the input or one that the choice
        uses) and the rewrite of the term that stands there.
    """

    terms: Terms
    steps: tuple[tuple[int, Step], ...]
    _roots: tuple[int, ...]
    _born: dict[int, int]  # hole -> its term at first
    _chosen: dict[int, tuple[int, tuple[int, ...]]]  # hole -> operator, holes of the operands
    _order: tuple[int, ...]  # holes, users first

    def programs(self) -> Iterator[tuple[int, ...]]:
        """Yield the terms of the roots before the first step and after each."""
        stands = dict(self._born)
        left = dict.fromkeys(self._order, 0)
        for hole, _ in self.steps:
            left[hole] += 1
        done: set[int] = set()
        position = 0  # holes before it in the order have no steps left
        steps = iter(self.steps)
        while True:
            while position < len(self._order) and not left[self._order[position]]:
                done.add(self._order[position])
                position += 1
            yield self._filled(stands, done)
            step = next(steps, None)
            if step is None:
                return
            hole, rewrite = step
            stands[hole] = rewrite.after
            left[hole] -= 1

    def _filled(self, stands: dict[int, int], done: set[int]) -> tuple[int, ...]:
        value: dict[int, int] = {}
        for hole in reversed(self._order):
            if hole in done:
                operator, operands = self._chosen[hole]
                value[hole] = self.terms.intern(operator, [value[each] for each in operands])
            else:
                value[hole] = stands[hole]
        return tuple(value[root] for root in self._roots)


def path_to(graph: EGraph, rules: Sequence[Rule], roots: Sequence[int], rows: Ints) -> Path:
    """Explain an extracted graph.

    Parameters
    ----------
    graph : EGraph
        As it was explored.
    rules : sequence of Rule
        With which it was explored.
    roots : sequence of int
        The classes wanted, by the numbers that they had when they were added.
    rows : (e-nodes,) int64
        The chosen e-nodes, one a class, acyclic.

    Raises
    ------
    PathTooLong
        Paths of pathological e-graphs can have exponentially many steps.
    ValueError
        When a class that is needed has no chosen e-node.
    """
    explainer = Explainer(graph, rules)
    chosen = dict(zip(graph.node_class[rows].tolist(), rows.tolist(), strict=True))
    order = _users_first(graph, chosen, [graph.find(root) for root in roots])
    holes: dict[int, dict[int, None]] = {number: {} for number in order}
    for root in roots:
        holes[graph.find(root)][root] = None
    for number in order:
        for operand in _operands(graph, chosen[number]):
            holes[graph.find(operand)][operand] = None
    steps: list[tuple[int, Step]] = []
    born, made = {}, {}
    for number in order:
        row = chosen[number]
        for hole in holes[number]:
            steps += [(hole, step) for step in explainer.steps(hole, row)]
            born[hole] = explainer.term(hole)
            made[hole] = int(graph.node_operator[row]), tuple(_operands(graph, row))
    return Path(
        explainer.terms,
        tuple(steps),
        tuple(roots),
        born,
        made,
        tuple(hole for number in order for hole in holes[number]),
    )


def _operands(graph: EGraph, row: int) -> list[int]:
    """Return the operands of an e-node at its birth."""
    begin = int(graph.node_start[row])
    arity = int(graph.operator_arity[graph.node_operator[row]])
    return graph.born_operands[begin : begin + arity].tolist()


def _users_first(graph: EGraph, chosen: dict[int, int], roots: Sequence[int]) -> list[int]:
    """Sort the classes that the roots reach, users before what they use."""
    finished: dict[int, None] = {}
    pending = [(root, False) for root in roots]
    while pending:
        number, expanded = pending.pop()
        if number in finished:
            continue
        if number not in chosen:
            raise ValueError(f"class {number} is needed and has no chosen e-node")
        if expanded:
            finished[number] = None
            continue
        pending.append((number, True))
        below = graph.sets.parent[np.array(_operands(graph, chosen[number]), np.int64)]
        pending.extend((child, False) for child in below.tolist())
    return list(finished)[::-1]


def lines(path: Path, rules: Sequence[Rule]) -> list[str]:
    """Describe each step: the rule, its iteration, and the subterm before and after."""
    found = []
    for _, step in path.steps:
        before, after = _changed_part(path.terms, step)
        name = _REASONS.get(step.rule) or f"{rules[step.rule].name} (iteration {step.iteration})"
        way = "" if step.forward else " backwards"
        found.append(f"{name}{way}: {path.terms.text(before)} -> {path.terms.text(after)}")
    return found


_REASONS = {PROJECTION: "field of a tuple", GIVEN: "given"}


def _changed_part(terms: Terms, step: Step) -> tuple[int, int]:
    """Return the smallest subterms outside which the terms of a step are equal."""
    before, after = step.before, step.after
    while True:
        (operator, left), (other, right) = terms.nodes[before], terms.nodes[after]
        differ = [pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]]
        if operator != other or len(left) != len(right) or len(differ) != 1:
            return before, after
        before, after = differ[0]
