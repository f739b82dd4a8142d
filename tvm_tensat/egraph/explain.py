"""Why two classes are equal: the rewrites that lead from one term to another.

An e-node stands for the term that it was when it was made: its operator on the terms of its
operands at birth. The merges of the journal, those left out that joined what was joined already,
form a forest over these terms, as egg's explanations do (Flatt et al., "Small Proofs from
Congruence Closure", 2022). A path in the forest uses only merges that are older than the moment
its ends were first equal, so explaining what a merge needed - that the operands of two congruent
e-nodes are equal, that what was matched is an instance of the pattern - ends.

A path from one term to another replaces one subterm a step, by one rule, forwards or backwards.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import minimum_spanning_tree

from tvm_tensat.egraph.columns import first_of_equals
from tvm_tensat.egraph.egraph import FROM_INPUT, EGraph
from tvm_tensat.egraph.journal import CONGRUENCE, PROJECTION, Applied
from tvm_tensat.egraph.language import Language
from tvm_tensat.egraph.multi import sources_of
from tvm_tensat.egraph.pattern import Pattern
from tvm_tensat.egraph.rule import Rule

# Explanations inline those of the steps they need, which can grow without bound.
MOST_STEPS = 20_000


class PathTooLong(Exception):
    """A path has more than `MOST_STEPS` steps."""


class Terms:
    """Interned terms: equal terms have one number."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.nodes: list[tuple[int, tuple[int, ...]]] = []  # operator, operands
        self._number: dict[tuple[int, tuple[int, ...]], int] = {}

    def intern(self, operator: int, operands: Sequence[int]) -> int:
        """Return the number of a term."""
        node = operator, tuple(operands)
        number = self._number.setdefault(node, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(node)
        return number

    def text(self, term: int, depth: int = 3) -> str:
        """Write a term, its inner terms below `depth` as dots."""
        operator, operands = self.nodes[term]
        name = str(self.language.operator(operator))
        if not operands:
            return name
        if not depth:
            return f"{name}(…)"
        return f"{name}({', '.join(self.text(each, depth - 1) for each in operands)})"


@dataclass(frozen=True)
class Step:
    """One rewrite of one subterm.

    Attributes
    ----------
    rule : int
        Number of the rule, or `PROJECTION`, or `GIVEN`.
    source : int
        Which of the rule's sources was replaced.
    iteration : int
        In which the rule was applied, -1 for no rule.
    forward : bool
        False where the rule's target was replaced by its source.
    before, after : int
        Terms that differ in one subterm.
    """

    rule: int
    source: int
    iteration: int
    forward: bool
    before: int
    after: int

    def reversed(self) -> Step:
        """Return the step the other way round."""
        return replace(self, forward=not self.forward, before=self.after, after=self.before)


@dataclass(frozen=True)
class Origin:
    """How an e-node was made: by a rule, in an iteration, because these e-nodes were matched."""

    rule: int
    iteration: int
    matched: tuple[int, ...]


def origin_of(graph: EGraph, row: int) -> Origin | None:
    """Return how an e-node was made; None for one of the input."""
    rule, iteration = int(graph.node_rule[row]), int(graph.node_iteration[row])
    if rule == FROM_INPUT:
        return None
    for entry in graph.journal.applied:
        if (entry.application.rule, entry.iteration) == (rule, iteration):
            match = np.flatnonzero((entry.made == row).any(axis=0))
            if len(match):
                return Origin(rule, iteration, tuple(entry.application.rows[match[0]].tolist()))
    return None  # it was added when time ran out, before its match was noted


Steps = list[Step]
# A computation that yields others whose results it needs: recursion without Python's stack.
Task = Generator[Any, Any, Any]


class Explainer:
    """Explains equalities of one e-graph, as it is now."""

    def __init__(self, graph: EGraph, rules: Sequence[Rule]) -> None:
        graph.rebuild()
        self.graph = graph
        self.rules = rules
        self.terms = Terms(graph.language)
        self._forest = _forest(graph)
        self._term_of: dict[int, int] = {}
        self._known: dict[tuple[int, int], Steps] = {}
        self._firsts = np.array([entry.first for entry in graph.journal.applied], np.int64)

    def term(self, row: int) -> int:
        """Return the term that an e-node was when it was made."""
        pending = [row]
        while pending:
            at = pending[-1]
            operands = self._born(at)
            missing = [each for each in operands if each not in self._term_of]
            if at not in self._term_of and not missing:
                operator = int(self.graph.node_operator[at])
                terms = [self._term_of[each] for each in operands]
                self._term_of[at] = self.terms.intern(operator, terms)
            if at in self._term_of:
                pending.pop()
            else:
                pending.extend(missing)
        return self._term_of[row]

    def steps(self, left: int, right: int) -> Steps:
        """Return the rewrites from the term of one e-node to that of an equal one.

        Raises
        ------
        ValueError
            When their classes differ.
        PathTooLong
        """
        if self.graph.find(left) != self.graph.find(right):
            raise ValueError(f"the e-nodes {left} and {right} are in different classes")
        found: Steps = _run(self._explain(left, right))
        return found

    def _born(self, row: int) -> list[int]:
        graph = self.graph
        begin = int(graph.node_start[row])
        arity = int(graph.operator_arity[graph.node_operator[row]])
        return graph.born_operands[begin : begin + arity].tolist()

    # Each of the tasks below gives the steps from the term of its first e-node.

    def _explain(self, left: int, right: int) -> Task:
        if left == right:
            return []
        if (left, right) not in self._known:
            steps: Steps = []
            at = left
            for after, reason, forward in self._path(left, right):
                if reason == CONGRUENCE:
                    part = yield self._align(at, self._born(after))
                else:
                    ends = (at, after) if forward else (after, at)
                    part = yield self._reason(*ends, reason)
                    if not forward:
                        part = [step.reversed() for step in reversed(part)]
                steps += part
                if len(steps) > MOST_STEPS:
                    raise PathTooLong(f"more than {MOST_STEPS:,} steps")
                at = after
            steps = without_loops(steps)
            self._known[left, right] = steps
            self._known[right, left] = [step.reversed() for step in reversed(steps)]
        return self._known[left, right]

    def _path(self, left: int, right: int) -> list[tuple[int, int, bool]]:
        """Return (e-node, reason, forward) of each merge between two e-nodes of a class."""
        came: dict[int, tuple[int, int, bool]] = {left: (left, 0, True)}
        queue = deque([left])
        while right not in came:
            at = queue.popleft()
            for other, reason, forward in self._forest[at]:
                if other not in came:
                    came[other] = at, reason, forward
                    queue.append(other)
        path = []
        at = right
        while at != left:
            before, reason, forward = came[at]
            path.append((at, reason, forward))
            at = before
        return path[::-1]

    def _align(self, row: int, wanted: Sequence[int | tuple[int, Task]]) -> Task:
        """Bring the operands of an e-node to the terms of others, or on to what tasks give.

        Parameters
        ----------
        wanted : sequence of int or (int, task)
            For each operand an e-node, or one and the task that goes on from its term.
        """
        operator = int(self.graph.node_operator[row])
        operands = [self.term(each) for each in self._born(row)]
        steps: Steps = []
        for place, (born, want) in enumerate(zip(self._born(row), wanted, strict=True)):
            target, onward = want if isinstance(want, tuple) else (want, None)
            part = list((yield self._explain(born, target)))
            if onward is not None:
                part += yield onward
            for step in part:
                before = self.terms.intern(operator, operands)
                operands[place] = step.after
                after = self.terms.intern(operator, operands)
                steps.append(replace(step, before=before, after=after))
        return steps

    def _reason(self, left: int, right: int, reason: int) -> Task:
        """Explain a merge that is no congruence, in the direction in which it was noted."""
        if reason <= PROJECTION:
            return (yield self._project(left, right, PROJECTION - reason))
        if reason < 0:
            return [Step(reason, 0, -1, True, self.term(left), self.term(right))]
        entry = self.graph.journal.applied[int(np.searchsorted(self._firsts, reason, "right")) - 1]
        target, match = divmod(reason - entry.first, len(entry.application))
        there = yield self._to_source(left, entry, match, target)
        back = yield self._to_target(entry, match, entry.application.wiring.targets[target])
        before = there[-1].after if there else self.term(left)
        after = back[-1].after if back else self.term(right)
        rule = entry.application.rule
        middle = Step(rule, self._source_of(entry, target), entry.iteration, True, before, after)
        return [*there, middle, *(step.reversed() for step in reversed(back))]

    def _source_of(self, entry: Applied, target: int) -> int:
        return 0 if self.rules[entry.application.rule].kind == "group" else target

    def _to_source(self, row: int, entry: Applied, match: int, target: int) -> Task:
        """Go from a matched e-node to the instance of the pattern."""
        application = entry.application
        rule = self.rules[application.rule]
        source = sources_of(rule)[self._source_of(entry, target)]
        variables = application.variables[match].tolist()
        numbers = list(source.variables)
        if rule.kind == "group":  # the shared variable, then the others of each member
            others = len(rule.variables) - 1
            numbers = [number + target * others if number else 0 for number in numbers]
        inner = iter(application.rows[match].tolist()[application.heads[target] + 1 :])
        bound = [variables[number] for number in numbers]
        return (yield self._to_pattern(row, source.pattern, inner, bound))

    def _to_pattern(
        self, row: int, pattern: Pattern, inner: Iterator[int], bound: Sequence[int]
    ) -> Task:
        wanted: list[int | tuple[int, Task]] = []
        for child in pattern.children:
            if isinstance(child, int):
                wanted.append(bound[child])
            else:
                below = next(inner)
                # Preorder: what is below it is taken from `inner` now, not when the task runs.
                mine = [next(inner) for _ in range(_size(child) - 1)]
                wanted.append((below, self._to_pattern(below, child, iter(mine), bound)))
        return (yield self._align(row, wanted))

    def _to_target(self, entry: Applied, match: int, place: int) -> Task:
        """Go from the e-node in a place of the template to the instance of the rule's target."""
        if place >= 0:
            return []
        wanted: list[int | tuple[int, Task]] = []
        for operand in entry.application.wiring.operands[-1 - place]:
            if operand >= 0:
                wanted.append(int(entry.application.variables[match, operand]))
            else:
                below = int(entry.made[-1 - operand, match])
                wanted.append((below, self._to_target(entry, match, operand)))
        return (yield self._align(int(entry.made[-1 - place, match]), wanted))

    def _project(self, field: int, operand: int, made: int) -> Task:
        """Go from a field of a tuple to the tuple's operand."""
        index = int(self.graph.operators.field[self.graph.node_operator[field]])
        inside = self._born(made)[index]
        there = yield self._align(field, [made])
        before = there[-1].after if there else self.term(field)
        middle = Step(PROJECTION, 0, -1, True, before, self.term(inside))
        return [*there, middle, *(yield self._explain(inside, operand))]


def without_loops(steps: Steps) -> Steps:
    """Leave out the steps between two occurrences of the same term."""
    kept: Steps = []
    length_at = {steps[0].before: 0} if steps else {}
    for step in steps:
        if step.after in length_at:
            for dropped in kept[length_at[step.after] :]:
                del length_at[dropped.after]
            del kept[length_at[step.after] :]
        else:
            kept.append(step)
            length_at[step.after] = len(kept)
    return kept


def _forest(graph: EGraph) -> dict[int, list[tuple[int, int, bool]]]:
    """Return (other e-node, reason, forward) of the merges that joined what was not joined."""
    left, right, reason = graph.journal.merges()
    count = len(graph.node_operator)
    _, first, _ = first_of_equals(np.minimum(left, right) * count + np.maximum(left, right))
    # Of weights in order of time, the spanning forest of least weight has the earliest merges.
    weights = coo_matrix((first + 1.0, (left[first], right[first])), (count, count))
    kept = minimum_spanning_tree(weights.tocsr()).data.astype(np.int64) - 1
    forest: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
    for at in np.sort(kept).tolist():
        a, b, why = int(left[at]), int(right[at]), int(reason[at])
        forest[a].append((b, why, True))
        forest[b].append((a, why, False))
    return forest


def _size(pattern: Pattern) -> int:
    return 1 + sum(_size(child) for child in pattern.children if isinstance(child, Pattern))


def _run(task: Task) -> Any:
    """Run a task and those that it waits for."""
    waiting, result = [task], None
    while waiting:
        finished, given = _advance(waiting[-1], result)
        if finished:
            waiting.pop()
            result = given
        else:
            waiting.append(given)
            result = None
    return result


def _advance(task: Task, result: Any) -> tuple[bool, Any]:
    """Send a task what it waits for; return whether it is finished, and what it gives."""
    try:
        return False, task.send(result)
    except StopIteration as done:
        return True, done.value
