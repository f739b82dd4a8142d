"""Signatures and templates: a rule runs once for all matches that it cannot tell apart.

Matches of a rule that agree in the operators matched and in the profiles of their variables (the
*signature*) get the same target up to the classes of the variables. The rule runs once a signature
and leaves a `Template`, which `instantiate` fills for all its matches together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tvm_tensat.egraph.columns import Hashes, Ints, first_of_equals, hash_rows
from tvm_tensat.egraph.egraph import EGraph
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
        plain = graph.class_type * 2 + graph.class_weight
        present = np.flatnonzero(np.bincount(plain, minlength=1))
        number = np.empty(int(present[-1]) + 1 if len(present) else 0, np.int64)
        for value in present.tolist():
            number[value] = self._intern(value, -1)
        profile: Ints = number[plain]
        # Few classes are constants, so they are treated one kind at a time.
        constant = np.flatnonzero(graph.class_scalar >= 0)
        span = len(graph.operator_arity)
        packed, _, group = first_of_equals(plain[constant] * span + graph.class_scalar[constant])
        numbers = [self._intern(*divmod(value, span)) for value in packed.tolist()]
        profile[constant] = np.array(numbers, np.int64)[group]
        return profile

    def _intern(self, plain: int, scalar: int) -> int:
        key = plain // 2, bool(plain % 2), scalar
        if key not in self._number:
            self._number[key] = len(self.profiles)
            self.profiles.append(Profile(*key))
        return self._number[key]


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
    rows : (matches, targets) int64
        The e-nodes that were matched as roots.
    """

    rule: int
    template: Template
    variables: Ints
    roots: Ints
    rows: Ints

    def take(self, some: Ints) -> Application:
        """Select matches."""
        return Application(
            self.rule, self.template, self.variables[some], self.roots[some], self.rows[some]
        )

    def on(self, parent: Ints) -> Application:
        """Return the matches with the present representatives of their classes."""
        return replace(self, variables=parent[self.variables], roots=parent[self.roots])

    def collapsed(self) -> Ints:
        """E-nodes that are equal to one of their own variables now, so they are on a cycle."""
        at = [k for k, target in enumerate(self.template.targets) if target >= 0]
        return self.rows[:, at].ravel()


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
    if len(columns) and (columns == columns[0]).all():  # most often there is one signature
        return np.zeros(1, np.int64), [np.arange(len(columns))]
    _, first, group = first_of_equals(signature_hashes(columns))
    if not np.array_equal(columns[first][group], columns):  # a collision of hashes
        _, first, group = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(group, kind="stable")
    return first, np.split(order, np.cumsum(np.bincount(group))[:-1])
