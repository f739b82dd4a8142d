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

from tvm_tensat.egraph.columns import Ints, first_of_equals, hash_matrix
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.rule import Profile, Term


@dataclass(frozen=True)
class Wiring:
    """How the e-nodes that a rule makes hang together.

    Attributes
    ----------
    operands : tuple of tuple of int
        Of each e-node: ``k >= 0`` is variable k, ``-1 - k`` is e-node k of the template.
    targets : tuple of int
        What replaces each source, in the same numbering.
    """

    operands: tuple[tuple[int, ...], ...]
    targets: tuple[int, ...]

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Of each e-node, 1 + the largest level of those that it needs."""
        found: list[int] = []
        for operands in self.operands:
            found.append(1 + max((found[-1 - k] for k in operands if k < 0), default=-1))
        return tuple(found)

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
                pending.extend(self.operands[-1 - at] if at < 0 else ())
        return tuple(sorted(k for k in seen if k >= 0))


@dataclass(frozen=True)
class Template:
    """The targets of a rule for one signature.

    Attributes
    ----------
    wiring : Wiring
        Most often the same for all signatures of a rule.
    operators, types : tuple of int
        Of each e-node.
    """

    wiring: Wiring
    operators: tuple[int, ...]
    types: tuple[int, ...]


def template_of(variables: Sequence[Term], results: Sequence[Term]) -> Template:
    """Flatten terms into e-nodes, equal terms once."""
    number = {id(variable): k for k, variable in enumerate(variables)}
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    types: list[int] = []

    def visit(term: Term) -> int:
        if id(term) in number:
            return number[id(term)]
        key = term.operator, tuple(visit(operand) for operand in term.operands)
        if key not in known:
            known[key] = -1 - len(known)
            types.append(term.type)
        number[id(term)] = known[key]
        return known[key]

    targets = tuple(visit(term) for term in results)
    wiring = Wiring(tuple(operands for _, operands in known), targets)
    return Template(wiring, tuple(operator for operator, _ in known), tuple(types))


class Profiles:
    """Interns what rules may know about classes; see `Profile`."""

    def __init__(self) -> None:
        self.profiles: list[Profile] = []
        self._number: dict[tuple[int, bool, int], int] = {}
        self._plain: Ints = np.empty(0, np.int64)  # by 2 * type + whether it is a weight

    def of_classes(self, graph: EGraph) -> Ints:
        """Return the profile number of each class, (classes,) int64."""
        plain = graph.class_type * 2 + graph.class_weight
        more = int(plain.max(initial=-1)) + 1 - len(self._plain)
        self._plain = np.concatenate([self._plain, np.full(max(more, 0), -1)])
        for value in np.flatnonzero(np.bincount(plain[self._plain[plain] < 0])).tolist():
            self._plain[value] = self._intern(value, -1)
        profile: Ints = self._plain[plain]
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
    """Matches of one rule whose templates have the same wiring.

    Attributes
    ----------
    rule : int
    wiring : Wiring
    operators, types : (templates, e-nodes of the template) int64
    template : (matches,) int64
        Position in `operators` and `types`.
    variables : (matches, variables) int64
    roots : (matches, targets) int64
        Classes to merge with the targets.
    rows : (matches, operator terms) int64
        The e-nodes that were matched.
    heads : tuple of int
        Columns of `rows` that were matched as roots.
    """

    rule: int
    wiring: Wiring
    operators: Ints
    types: Ints
    template: Ints
    variables: Ints
    roots: Ints
    rows: Ints
    heads: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.roots)

    def take(self, some: Ints) -> Application:
        """Select matches."""
        return replace(
            self,
            template=self.template[some],
            variables=self.variables[some],
            roots=self.roots[some],
            rows=self.rows[some],
        )

    def on(self, parent: Ints) -> Application:
        """Return the matches with the present representatives of their classes."""
        return replace(self, variables=parent[self.variables], roots=parent[self.roots])

    def collapsed(self) -> Ints:
        """E-nodes that are equal to one of their own variables now, so they are on a cycle."""
        heads = [
            head
            for head, target in zip(self.heads, self.wiring.targets, strict=True)
            if target >= 0
        ]
        return self.rows[:, heads].ravel()


def group_rows(columns: Ints) -> tuple[Ints, Ints]:
    """Group equal rows of a matrix.

    Returns
    -------
    first : (groups,) int64
        The first row of each group.
    group : (rows,) int64
    """
    if len(columns) < 2 or (columns == columns[0]).all():  # most often there is one signature
        return np.arange(min(len(columns), 1)), np.zeros(len(columns), np.int64)
    _, first, group = first_of_equals(hash_matrix(columns))
    if not np.array_equal(columns[first][group], columns):  # a collision of hashes
        _, first, group = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return first, group
