"""Applying matches: signatures, templates, and instantiating all of them at once.

Matches of a rule that agree in the operators matched and in the profiles of their variables (the
*signature*) get the same target up to the classes of the variables. The rule runs once a signature
and leaves a `Template`; instantiating fills a template's rows for all its matches together, level
by level over all templates of the iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tvm_tensat.egraph.egraph import EGraph, Hashes, Ints, hash_rows
from tvm_tensat.egraph.language import Refusal
from tvm_tensat.egraph.rule import Profile, Rule, Term, targets


@dataclass(frozen=True)
class TemplateRow:
    """An e-node to make: operand ``k >= 0`` is variable k, ``-1 - k`` is row k of the template."""

    operator: int
    type: int
    operands: tuple[int, ...]
    level: int  # 1 + the largest level of the rows it needs


@dataclass(frozen=True)
class Template:
    """The targets of a rule for one signature, in the numbering of `TemplateRow.operands`."""

    rows: tuple[TemplateRow, ...]
    targets: tuple[int, ...]

    @cached_property
    def uses(self) -> tuple[tuple[int, ...], ...]:
        """Variables that each target depends on."""
        return tuple(self._below(target) for target in self.targets)

    def _below(self, target: int) -> tuple[int, ...]:
        seen: set[int] = set()
        pending = [target]
        while pending:
            at = pending.pop()
            if at not in seen:
                seen.add(at)
                pending.extend(self.rows[-1 - at].operands if at < 0 else ())
        return tuple(sorted(k for k in seen if k >= 0))


def template_of(variables: Sequence[Term], results: Sequence[Term]) -> Template:
    """Flatten terms into rows, equal terms once."""
    number = {id(variable): k for k, variable in enumerate(variables)}
    rows: list[TemplateRow] = []
    known: dict[tuple[int, tuple[int, ...]], int] = {}

    def visit(term: Term) -> int:
        if id(term) in number:
            return number[id(term)]
        operands = tuple(visit(operand) for operand in term.operands)
        key = term.operator, operands
        if key not in known:
            level = 1 + max((rows[-1 - k].level for k in operands if k < 0), default=-1)
            known[key] = -1 - len(rows)
            rows.append(TemplateRow(term.operator, term.type, operands, level))
        number[id(term)] = known[key]
        return known[key]

    ends = tuple(visit(term) for term in results)
    return Template(tuple(rows), ends)


class Profiles:
    """Interns what rules may know about classes; see `Profile`."""

    def __init__(self) -> None:
        self.profiles: list[Profile] = []
        self._number: dict[tuple[int, bool, int], int] = {}

    def of_classes(self, graph: EGraph) -> Ints:
        """Return the profile number of each class, (classes,) int64."""
        span = len(graph.operator_arity) + 1
        packed = (graph.class_type * 2 + graph.class_weight) * span + graph.class_scalar + 1
        unique, inverse = np.unique(packed, return_inverse=True)
        numbers = []
        for value in unique.tolist():
            rest, scalar = divmod(value, span)
            key = rest // 2, bool(rest % 2), scalar - 1
            if key not in self._number:
                self._number[key] = len(self.profiles)
                self.profiles.append(Profile(*key))
            numbers.append(self._number[key])
        return np.array(numbers, np.int64)[inverse]


@dataclass(frozen=True)
class Application:
    """Matches of one rule that share a template.

    Attributes
    ----------
    rule : int
    template : Template
    variables : (matches, variables) int64
    roots : (matches, targets) int64
        Classes to merge with the targets.
    """

    rule: int
    template: Template
    variables: Ints
    roots: Ints

    def take(self, some: Ints) -> Application:
        """Select matches."""
        return Application(self.rule, self.template, self.variables[some], self.roots[some])


class Templates:
    """Memo of the templates, or the refusals, of one rule by signature."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._memo: dict[tuple[tuple[int, ...], tuple[int, ...]], Template | str] = {}

    def get(
        self, graph: EGraph, profiles: Profiles, operators: Sequence[int], numbers: Sequence[int]
    ) -> Template | str:
        """Return the template of a signature, or the reason why the rule refuses it."""
        key = tuple(operators), tuple(numbers)
        if key not in self._memo:
            some = [profiles.profiles[number] for number in numbers]
            try:
                variables, _, results = targets(self.rule, graph.language, operators, some)
                self._memo[key] = template_of(variables, results)
            except Refusal as reason:
                self._memo[key] = str(reason)
        return self._memo[key]


def signature_hashes(columns: Ints) -> Hashes:
    """Hash the rows of a matrix, (rows, columns) int64."""
    return hash_rows(np.zeros(len(columns), np.int64), columns)


def split_by_signature(columns: Ints) -> tuple[Ints, list[Ints]]:
    """Group equal rows of a matrix.

    Returns
    -------
    first : (groups,) int64
        A row of each group.
    members : list of (rows of the group,) int64
    """
    _, first, inverse = np.unique(signature_hashes(columns), return_index=True, return_inverse=True)
    if not np.array_equal(columns[first][inverse], columns):  # a collision of hashes
        _, first, inverse = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    return first, np.split(order, np.cumsum(np.bincount(inverse))[:-1])


def instantiate(
    graph: EGraph,
    applications: Sequence[Application],
    iteration: int,
    keep_going: Callable[[], bool],
) -> tuple[Ints, Ints]:
    """Add the e-nodes of all applications; merge nothing yet.

    Returns
    -------
    roots, targets : (merges,) int64
        Classes that the applications say are equal.
    """
    slots = [np.empty((len(a.template.rows), len(a.roots)), np.int64) for a in applications]
    depth = max((row.level for a in applications for row in a.template.rows), default=-1) + 1
    done = True
    for level in range(depth):
        by_arity: dict[int, list[tuple[int, int]]] = {}
        for at, application in enumerate(applications):
            for k, row in enumerate(application.template.rows):
                if row.level == level:
                    by_arity.setdefault(len(row.operands), []).append((at, k))
        for arity, places in by_arity.items():
            done = done and keep_going()
            if done:
                _add_level(graph, applications, slots, places, arity, iteration)
    if not done:  # out of time: what was added stays, unconnected and harmless
        empty = np.empty(0, np.int64)
        return empty, empty
    roots = [a.roots.T.ravel() for a in applications]
    ends = [
        _classes(a, slot, end)
        for a, slot in zip(applications, slots, strict=True)
        for end in a.template.targets
    ]
    return np.concatenate(roots), np.concatenate(ends)


def _classes(application: Application, slot: Ints, operand: int) -> Ints:
    return application.variables[:, operand] if operand >= 0 else slot[-1 - operand]


def _add_level(
    graph: EGraph,
    applications: Sequence[Application],
    slots: Sequence[Ints],
    places: Sequence[tuple[int, int]],
    arity: int,
    iteration: int,
) -> None:
    operators, types, rules, counts, children = [], [], [], [], []
    for at, k in places:
        application = applications[at]
        row, count = application.template.rows[k], len(application.roots)
        operators.append(row.operator)
        types.append(row.type)
        rules.append(application.rule)
        counts.append(count)
        columns = np.empty((count, arity), np.int64)
        for position, operand in enumerate(row.operands):
            columns[:, position] = _classes(application, slots[at], operand)
        children.append(columns)
    made = graph.add_batch(
        np.repeat(np.array(operators, np.int64), counts),
        np.concatenate(children),
        np.repeat(np.array(types, np.int64), counts),
        np.repeat(np.array(rules, np.int64), counts),
        iteration,
    )
    begin = 0
    for (at, k), count in zip(places, counts, strict=True):
        slots[at][k] = made[begin : begin + count]
        begin += count
