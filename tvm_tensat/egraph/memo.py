"""What rules gave for signatures, shared by the explorations over one language.

The signature of an e-node is its operator and the profiles of its operands; that of a match is the
signatures of its e-nodes, which tell the operators matched and the profiles of all variables. A
rule runs once for each signature of a match and leaves a `Template`, or the reason of its refusal.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from tvm_tensat.egraph.columns import HashTable, Ints, extended, hash_lists
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.language import Language, Refusal
from tvm_tensat.egraph.rule import Rule
from tvm_tensat.egraph.signature import likeness, targets
from tvm_tensat.egraph.template import Profiles, Template, Wiring, group_rows, template_of

UNKNOWN, REFUSED = -2, -1


class Signatures:
    """Interns the signatures of e-nodes."""

    def __init__(self) -> None:
        self._table = HashTable()
        self._operator: Ints = np.empty(0, np.int64)
        self._start: Ints = np.empty(0, np.int64)
        self._profiles: Ints = np.empty(0, np.int64)  # of the operands, signature after signature

    def __len__(self) -> int:
        return len(self._operator)

    def of_rows(self, graph: EGraph, rows: Ints, profile: Ints) -> Ints:
        """Return the number of the signature of each e-node, (rows,) int64.

        Parameters
        ----------
        profile : (classes,) int64

        Raises
        ------
        RuntimeError
            When two signatures have the same 64-bit hash: once in about 10^10 explorations.
        """
        operator = graph.node_operator[rows]
        arity = graph.operator_arity[operator]
        below = profile[graph.edges(rows)[1]]
        begin = np.cumsum(arity) - arity
        hashes = hash_lists(operator, below, arity)
        number = self._table.find(hashes)
        absent = np.flatnonzero(number < 0)
        number[absent], firsts = self._table.number(hashes[absent], len(self))
        fresh = absent[firsts]
        place = _ranges(begin[fresh], arity[fresh])
        start = len(self._profiles) + np.cumsum(arity[fresh]) - arity[fresh]
        self._operator = extended(self._operator, operator[fresh])
        self._start = extended(self._start, start)
        self._profiles = extended(self._profiles, below[place])
        known = self._profiles[_ranges(self._start[number], arity)]
        if not np.array_equal(self._operator[number], operator) or not np.array_equal(known, below):
            raise RuntimeError("two signatures of e-nodes have the same hash")
        return number


def _ranges(begin: Ints, length: Ints) -> Ints:
    """Concatenate ``arange(begin[i], begin[i] + length[i])``."""
    before = np.cumsum(length) - length
    return np.arange(int(length.sum())) + np.repeat(begin - before, length)


class RuleMemo:
    """Templates of one rule by signature.

    Templates are numbered; those that are wired alike are together in a group, as rows of the
    tables that `tables` gives.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.reasons: dict[tuple[int, ...], str] = {}  # of the signatures refused
        self._known: dict[tuple[int, ...], int] = {}
        self._by_one: Ints = np.empty(0, np.int64)  # for matches of one e-node: by its signature
        self._wirings: list[Wiring] = []
        self._members: list[list[Template]] = []  # of each wiring
        self._tables: dict[int, tuple[Ints, Ints]] = {}
        self.group_of: Ints = np.empty(0, np.int64)  # by template
        self.place_of: Ints = np.empty(0, np.int64)

    def find(self, signatures: Ints) -> tuple[Ints, Ints]:
        """Look up matches.

        Parameters
        ----------
        signatures : (matches, e-nodes of a match) int64

        Returns
        -------
        template : (matches,) int64
            Its number, `REFUSED`, or `UNKNOWN`.
        example : (some,) int64
            A match of each signature that is unknown or refused.
        """
        if signatures.shape[1] == 1:
            one = signatures[:, 0]
            more = int(one.max(initial=-1)) + 1 - len(self._by_one)
            if more > 0:
                self._by_one = extended(self._by_one, np.full(more, UNKNOWN))
            template = self._by_one[one]
            open_matches = np.flatnonzero(template < 0)
            first, _ = group_rows(signatures[open_matches])
            return template, open_matches[first]
        first, group = group_rows(signatures)
        some = np.array(
            [self._known.get(tuple(key), UNKNOWN) for key in signatures[first].tolist()], np.int64
        )
        return some[group], first[some < 0]

    def learn(self, signature: tuple[int, ...], given: Template | str) -> int:
        """Note what the rule gives for a signature; return the template's number or `REFUSED`."""
        if isinstance(given, str):
            self.reasons[signature] = given
            number = REFUSED
        else:
            number = len(self.group_of)
            if given.wiring not in self._wirings:
                self._wirings.append(given.wiring)
                self._members.append([])
            group = self._wirings.index(given.wiring)
            self.group_of = extended(self.group_of, np.array([group]))
            self.place_of = extended(self.place_of, np.array([len(self._members[group])]))
            self._members[group].append(given)
            self._tables.pop(group, None)
        self._known[signature] = number
        if len(signature) == 1:
            more = signature[0] + 1 - len(self._by_one)
            self._by_one = extended(self._by_one, np.full(max(more, 0), UNKNOWN))
            self._by_one[signature[0]] = number
        return number

    def get(self, signature: tuple[int, ...]) -> int:
        """Return the template's number of a signature, `REFUSED` or `UNKNOWN`."""
        return self._known.get(signature, UNKNOWN)

    def tables(self, group: int) -> tuple[Wiring, Ints, Ints]:
        """Return a wiring, and the operators and types of its templates, a row each."""
        if group not in self._tables:
            members = self._members[group]
            self._tables[group] = (
                np.array([each.operators for each in members], np.int64),
                np.array([each.types for each in members], np.int64),
            )
        return (self._wirings[group], *self._tables[group])


class Memo:
    """Profiles, signatures and templates over one language."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.profiles = Profiles()
        self.signatures = Signatures()
        self._rules: dict[int, RuleMemo] = {}
        self._alike: dict[tuple[int, tuple[int, ...]], Hashable | None] = {}

    def of_rule(self, rule: Rule) -> RuleMemo:
        """Return what is known of a rule."""
        if id(rule) not in self._rules:  # the entry keeps the rule, so its identity stays its own
            self._rules[id(rule)] = RuleMemo(rule)
        return self._rules[id(rule)]

    def run(self, rule: Rule, operators: Sequence[int], profiles: Sequence[int]) -> Template | str:
        """Run a rule on a signature; return its template, or the reason why it refuses."""
        some = [self.profiles.profiles[number] for number in profiles]
        try:
            variables, _, results = targets(rule, self.language, operators, some)
            return template_of(variables, results)
        except Refusal as reason:
            return str(reason)

    def likeness(self, rule: Rule, signature: tuple[int, ...], terms: int) -> Hashable | None:
        """Return what members of a group have in common, or None for a term that can be in none.

        Parameters
        ----------
        signature : tuple of int
            The operators, `terms` of them, and the profiles of the variables.
        """
        key = id(rule), signature
        if key not in self._alike:
            some = [self.profiles.profiles[number] for number in signature[terms:]]
            self._alike[key] = likeness(rule, self.language, signature[:terms], some)
        return self._alike[key]
