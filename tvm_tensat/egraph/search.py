"""Searching all rules on one state of the e-graph for matches that are new.

A match is known by the e-nodes that it matched and by the profiles of its variables: it is handled
once, however often its classes are merged with others.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np

from tvm_tensat.egraph.columns import Bools, Hashes, HashTable, Ints, mixed
from tvm_tensat.egraph.cycles import Dependence
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.group import groups
from tvm_tensat.egraph.multi import Combined, combine, sources_of
from tvm_tensat.egraph.pattern import JoinTooLarge, Matcher
from tvm_tensat.egraph.prefilter import Changes, Prefilter
from tvm_tensat.egraph.report import Limits, RuleStatistics
from tvm_tensat.egraph.rule import Rule
from tvm_tensat.egraph.template import (
    Application,
    Memo,
    Template,
    Wiring,
    group_rows,
)


class RuleSearch:
    """A rule with what is remembered of it between iterations."""

    def __init__(self, rule: Rule, number: int, memo: Memo) -> None:
        self.rule = rule
        self.number = number
        self.sources = sources_of(rule)
        self.templates = memo.of_rule(rule)
        self.statistics = RuleStatistics()
        self.seen_groups: set[bytes] = set()
        self.complete = False  # whether the last search left no match for later

    def ban(self, iteration: int, why: str) -> None:
        """Back off as egg does: each time twice as long."""
        rest = 5 << len(self.statistics.cut)
        self.statistics.cut.append(f"iteration {iteration}: {why}; rests {rest} iterations")
        self.statistics.banned_until = iteration + 1 + rest
        self.complete = False


class Search:
    """Finds, iteration by iteration, the matches that were not found before."""

    def __init__(self, graph: EGraph, rules: Sequence[Rule], limits: Limits, memo: Memo) -> None:
        self.graph = graph
        self.limits = limits
        self.memo = memo
        self.rules = [RuleSearch(rule, number, memo) for number, rule in enumerate(rules)]
        self.merging = {known.number for known in self.rules if known.rule.kind != "single"}
        self.seen = HashTable()  # of the matches handled
        self.changes = Changes()
        self.prefilter = Prefilter(
            [[source.pattern for source in known.sources] for known in self.rules]
        )
        self.dependence = functools.cache(lambda: Dependence(graph))

    def find(
        self, iteration: int, join_limit: int, out_of_time: Callable[[], bool]
    ) -> list[Application] | None:
        """Return the new matches in order of their rules; None when time ran out."""
        graph = self.graph
        matcher = Matcher(graph, join_limit)
        profile = self.memo.profiles.of_classes(graph)
        changed = self.changes.since_last(graph, profile)
        possible, fresh = self.prefilter.possible(graph, changed)
        self.dependence = functools.cache(lambda: Dependence(graph))
        candidates: list[tuple[RuleSearch, Combined]] = []
        found: list[Application] = []
        for known in self.rules:
            if out_of_time():
                return None
            due = fresh[known.number] if known.complete else possible[known.number]
            resting = known.statistics.banned_until > iteration
            if not due or resting or iteration >= self.limits.last_iteration(known.rule.kind):
                continue
            began = time.perf_counter()
            try:
                if known.rule.kind == "group":
                    found += self.search_groups(known, matcher, profile)
                else:
                    matches = self.search(known, matcher, changed)
                    if len(matches):
                        candidates.append((known, matches))
                known.complete = True
            except JoinTooLarge as error:
                known.ban(iteration, f"a join of {error.rows:,} rows not expanded")
            known.statistics.seconds += time.perf_counter() - began
        found += self.new_matches(candidates, profile, iteration)
        return sorted(found, key=lambda application: application.rule)

    def search(self, known: RuleSearch, matcher: Matcher, changed: Bools) -> Combined:
        """Find the matches of a single- or multi-pattern rule that may be new."""
        matches = combine(matcher, known.rule, known.sources, matcher.join_limit)
        if known.complete and len(matches):
            matches = matches.take(np.flatnonzero(changed[matches.rows].any(axis=1)))
        if known.rule.kind == "multi":  # weights cost nothing, merged or not
            heavy = ~self.graph.class_weight[matches.roots].all(axis=1)
            matches = matches.take(np.flatnonzero(heavy))
        return matches

    def new_matches(
        self, candidates: Sequence[tuple[RuleSearch, Combined]], profile: Ints, iteration: int
    ) -> list[Application]:
        """Keep the matches that were not seen, no more of a rule than it may have."""
        if not candidates:
            return []
        identities = self.identities(candidates, profile)
        unseen = self.seen.find(identities) < 0
        taken: list[Ints] = []
        found: list[Application] = []
        begin = 0
        for known, matches in candidates:
            new = np.flatnonzero(unseen[begin : begin + len(matches)])
            if len(new):
                began = time.perf_counter()
                statistics = known.statistics
                allowed = self.limits.matches << len(statistics.cut)
                if len(new) > allowed:
                    more = len(new) - allowed
                    known.ban(iteration, f"{more:,} of {len(new):,} matches cut")
                    new = new[:allowed]
                statistics.matches += len(new)
                taken.append(begin + new)
                found += self.applications(known, matches.take(new), profile)
                statistics.seconds += time.perf_counter() - began
            begin += len(matches)
        if taken:
            handled = identities[np.concatenate(taken)]
            self.seen.put(handled, np.zeros(len(handled), np.int64))
        return found

    def identities(
        self, candidates: Sequence[tuple[RuleSearch, Combined]], profile: Ints
    ) -> Hashes:
        """Hash what makes a match a new one: its rule, its e-nodes, what is known of its variables.

        A collision hides a match, one in about 2^64 pairs.
        """
        of_row = mixed(np.arange(len(self.graph.node_operator)), 1)
        of_class = mixed(profile, 2)
        of_rule = mixed(np.arange(len(self.rules)), 3).tolist()
        found = []
        for known, matches in candidates:
            total = np.full(len(matches), of_rule[known.number], np.uint64)
            for column, salt in zip(matches.rows.T, itertools.cycle(_SALTS), strict=False):
                total += of_row[column] * salt
            for column, salt in zip(matches.variables.T, itertools.cycle(_SALTS), strict=False):
                total += of_class[column] * salt
            found.append(total)
        return np.concatenate(found)

    def applications(
        self, known: RuleSearch, matches: Combined, profile: Ints
    ) -> list[Application]:
        """Look up the templates of matches; those that the rule refuses are counted only."""
        operators = self.graph.node_operator[matches.rows]
        signatures = np.hstack([operators, profile[matches.variables]])
        first, group = group_rows(signatures)
        by_wiring: dict[Wiring, list[tuple[int, Template]]] = {}
        for at, signature in enumerate(signatures[first].tolist()):
            template = self.template(known, tuple(signature), operators.shape[1])
            if isinstance(template, str):
                known.statistics.refused[template] += 1
            else:
                by_wiring.setdefault(template.wiring, []).append((at, template))
        found = []
        for wiring, templates in by_wiring.items():
            position = np.full(len(first), -1)
            position[[at for at, _ in templates]] = np.arange(len(templates))
            template_of = position[group]
            if len(templates) < len(first):
                some = np.flatnonzero(template_of >= 0)
                part, template_of = matches.take(some), template_of[some]
            else:
                part = matches
            found.append(
                Application(
                    known.number,
                    wiring,
                    np.array([each.operators for _, each in templates], np.int64),
                    np.array([each.types for _, each in templates], np.int64),
                    template_of,
                    part.variables,
                    part.roots,
                    part.rows,
                    tuple(source.head for source in known.sources),
                )
            )
        return found

    def template(self, known: RuleSearch, signature: tuple[int, ...], terms: int) -> Template | str:
        """Return the template of a signature, whose first `terms` numbers are operators."""
        found = known.templates.get(signature)
        if found is None:
            found = self.memo.run(known.rule, self.graph, signature[:terms], signature[terms:])
            known.templates[signature] = found
        return found

    def search_groups(
        self, known: RuleSearch, matcher: Matcher, profile: Ints
    ) -> list[Application]:
        """Find the new groups of a group rule."""
        found = []
        [source] = known.sources
        for group in groups(
            matcher,
            known.rule,
            source,
            self.merging,
            profile,
            self.memo,
            self.dependence,
            known.seen_groups,
        ):
            operators = self.graph.node_operator[group.rows]
            signature = np.concatenate([operators, profile[group.variables]])
            known.statistics.matches += 1
            template = self.template(known, tuple(signature.tolist()), len(operators))
            if isinstance(template, str):
                known.statistics.refused[template] += 1
                continue
            found.append(
                Application(
                    known.number,
                    template.wiring,
                    np.array([template.operators], np.int64),
                    np.array([template.types], np.int64),
                    np.zeros(1, np.int64),
                    group.variables[None, :],
                    group.roots[None, :],
                    group.rows[None, :],
                    tuple(range(0, len(group.rows), len(group.rows) // len(group.roots))),
                )
            )
        return found


_SALTS = mixed(np.arange(64), 4) | np.uint64(1)
