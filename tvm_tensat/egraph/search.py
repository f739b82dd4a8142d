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

from tvm_tensat.egraph.columns import Bools, Hashes, HashTable, Ints, extended, mixed
from tvm_tensat.egraph.cycles import Dependence
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.group import groups
from tvm_tensat.egraph.memo import REFUSED, UNKNOWN, Memo
from tvm_tensat.egraph.multi import Combined, combine, sources_of
from tvm_tensat.egraph.pattern import JoinTooLarge, Matcher
from tvm_tensat.egraph.prefilter import Changes, Prefilter
from tvm_tensat.egraph.report import Limits, RuleStatistics
from tvm_tensat.egraph.rule import Rule
from tvm_tensat.egraph.template import Application


class RuleSearch:
    """A rule with what is remembered of it between iterations."""

    def __init__(self, rule: Rule, number: int, memo: Memo) -> None:
        self.rule = rule
        self.number = number
        self.sources = sources_of(rule)
        self.memo = memo.of_rule(rule)
        self.statistics = RuleStatistics()
        self.seen_groups: set[bytes] = set()
        self.refused: set[tuple[int, ...]] = set()  # signatures that are in the statistics
        self.heads = tuple(source.head for source in self.sources)
        self.searched = -1  # the last iteration whose matches it has all seen
        self.waiting: Combined | None = None  # matches that were cut

    def ban(self, iteration: int, why: str) -> None:
        """Back off as egg does: each time twice as long."""
        rest = 5 << len(self.statistics.cut)
        self.statistics.cut.append(f"iteration {iteration}: {why}; rests {rest} iterations")
        self.statistics.banned_until = iteration + 1 + rest


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
        self.changed_at: Ints = np.empty(0, np.int64)  # iteration, by e-node
        self.signature_of: Ints = np.empty(0, np.int64)  # by e-node
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
        new_rows = len(graph.node_operator) - len(self.changed_at)
        self.changed_at = extended(self.changed_at, np.full(new_rows, iteration))
        self.changed_at[changed] = iteration
        possible, fresh = self.prefilter.possible(graph, changed)
        self.dependence = functools.cache(lambda: Dependence(graph))
        self.signature_of = extended(self.signature_of, np.zeros(new_rows, np.int64))
        rows = np.flatnonzero(changed)
        self.signature_of[rows] = self.memo.signatures.of_rows(graph, rows, profile)
        candidates: list[tuple[RuleSearch, Combined]] = []
        found: list[Application] = []
        for known in self.rules:
            if out_of_time():
                return None
            resting = known.statistics.banned_until > iteration
            if resting or iteration >= self.limits.last_iteration(known.rule.kind):
                continue
            up_to_date = known.searched == iteration - 1
            began = time.perf_counter()
            try:
                if not (fresh if up_to_date else possible)[known.number]:
                    if known.waiting is not None:
                        candidates.append((known, known.waiting.take(np.empty(0, np.int64))))
                elif known.rule.kind == "group":
                    found += self.search_groups(known, matcher, profile)
                else:
                    since = changed if up_to_date else self.changed_at > known.searched
                    matches = self.search(known, matcher, since)
                    matches = matches.take(self.accepted(known, matches, profile))
                    if len(matches) or known.waiting is not None:
                        candidates.append((known, matches))
                known.searched = iteration
            except JoinTooLarge as error:
                known.ban(iteration, f"a join of {error.rows:,} rows not expanded")
            known.statistics.seconds += time.perf_counter() - began
        found += self.new_matches(candidates, profile, iteration)
        return sorted(found, key=lambda application: application.rule)

    def search(self, known: RuleSearch, matcher: Matcher, changed: Bools) -> Combined:
        """Find the matches of a single- or multi-pattern rule with an e-node that changed."""
        matches = combine(matcher, known.rule, known.sources, matcher.join_limit)
        if known.searched >= 0 and len(matches):
            matches = matches.take(np.flatnonzero(changed[matches.rows].any(axis=1)))
        if known.rule.kind == "multi":  # weights cost nothing, merged or not
            heavy = ~self.graph.class_weight[matches.roots].all(axis=1)
            matches = matches.take(np.flatnonzero(heavy))
        return matches

    def accepted(self, known: RuleSearch, matches: Combined, profile: Ints) -> Ints:
        """Run the rule on signatures that are new; return the matches that it does not refuse."""
        signatures = self.signature_of[matches.rows]
        template, some = known.memo.find(signatures)
        unknown = False
        for at in some.tolist():
            signature = tuple(signatures[at].tolist())
            if signature not in known.memo.reasons:
                unknown = True
                operators = self.graph.node_operator[matches.rows[at]].tolist()
                profiles = profile[matches.variables[at]].tolist()
                known.memo.learn(signature, self.memo.run(known.rule, operators, profiles))
            self.count_refusal(known, signature)
        if unknown:
            template, _ = known.memo.find(signatures)
        return np.flatnonzero(template >= 0)

    def count_refusal(self, known: RuleSearch, signature: tuple[int, ...]) -> None:
        """Note the reason, the first time that a signature is refused."""
        reason = known.memo.reasons.get(signature)
        if reason is not None and signature not in known.refused:
            known.refused.add(signature)
            known.statistics.refused[reason] += 1

    def new_matches(
        self, candidates: Sequence[tuple[RuleSearch, Combined]], profile: Ints, iteration: int
    ) -> list[Application]:
        """Keep what was not seen and what waited, no more of a rule than it may have."""
        if not candidates:
            return []
        identities = self.identities(candidates, profile)
        unseen = self.seen.find(identities) < 0
        self.seen.put(identities[unseen], np.zeros(np.count_nonzero(unseen), np.int64))
        found: list[Application] = []
        begin = 0
        for known, matches in candidates:
            began = time.perf_counter()
            new = matches.take(np.flatnonzero(unseen[begin : begin + len(matches)]))
            begin += len(matches)
            known.statistics.matches += len(new)
            if known.waiting is not None:
                held = known.waiting.on(self.graph)
                new = held.take(self.accepted(known, held, profile)).and_then(new)
                known.waiting = None
            allowed = self.limits.matches << len(known.statistics.cut)
            if len(new) > allowed:
                more = len(new) - allowed
                known.ban(iteration, f"{more:,} of {len(new):,} matches cut")
                known.waiting = new.take(np.arange(allowed, len(new)))
                new = new.take(np.arange(allowed))
            if len(new):
                found += self.applications(known, new)
            known.statistics.seconds += time.perf_counter() - began
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

    def applications(self, known: RuleSearch, matches: Combined) -> list[Application]:
        """Put the matches whose templates are wired alike together."""
        template, _ = known.memo.find(self.signature_of[matches.rows])
        group = known.memo.group_of[template]
        found = []
        for number in np.flatnonzero(np.bincount(group)).tolist():
            some = np.flatnonzero(group == number)
            part = matches if len(some) == len(matches) else matches.take(some)
            wiring, operators, types = known.memo.tables(number)
            found.append(
                Application(
                    known.number,
                    wiring,
                    operators,
                    types,
                    known.memo.place_of[template[some]],
                    part.variables,
                    part.roots,
                    part.rows,
                    known.heads,
                )
            )
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
            known.statistics.matches += 1
            signature = tuple(self.signature_of[group.rows].tolist())
            template = known.memo.get(signature)
            if template == UNKNOWN:
                operators = self.graph.node_operator[group.rows].tolist()
                profiles = profile[group.variables].tolist()
                given = self.memo.run(known.rule, operators, profiles)
                template = known.memo.learn(signature, given)
            self.count_refusal(known, signature)
            if template == REFUSED:
                continue
            wiring, operators, types = known.memo.tables(int(known.memo.group_of[template]))
            found.append(
                Application(
                    known.number,
                    wiring,
                    operators,
                    types,
                    known.memo.place_of[[template]],
                    group.variables[None, :],
                    group.roots[None, :],
                    group.rows[None, :],
                    tuple(range(0, len(group.rows), len(group.rows) // len(group.roots))),
                )
            )
        return found


_SALTS = mixed(np.arange(64), 4) | np.uint64(1)
