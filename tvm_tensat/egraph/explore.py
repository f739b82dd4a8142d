"""Exploration: TENSAT's Algorithm 1 until saturation or a limit.

Each iteration searches all rules on the e-graph as it stands, then applies the matches together,
restores congruence and, with efficient cycle filtering, hides the e-nodes that close cycles.
Vanilla filtering applies them one by one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tvm_tensat.egraph.columns import Bools, Hashes, Ints
from tvm_tensat.egraph.cycles import closes_cycle, hide, resolve_cycles
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.group import groups
from tvm_tensat.egraph.instantiate import instantiate, portion
from tvm_tensat.egraph.multi import Combined, Source, combine, sources_of
from tvm_tensat.egraph.pattern import JoinTooLarge, Matcher
from tvm_tensat.egraph.projection import project_tuples
from tvm_tensat.egraph.report import Exploration, Limits, RuleStatistics
from tvm_tensat.egraph.rule import Rule
from tvm_tensat.egraph.template import (
    Application,
    Profiles,
    Templates,
    signature_hashes,
    split_by_signature,
)

JOIN_ROWS_PER_NODE = 20  # a join may have this many rows for each e-node of the limit
# A join is not interrupted, so none is begun that would outlast the time that is left; the rate
# includes the work on its matches, on a slow core.
JOIN_ROWS_PER_SECOND = 1_000_000


@dataclass
class _Known:
    """What is remembered of a rule between iterations."""

    rule: Rule
    number: int
    sources: tuple[Source, ...]
    templates: Templates
    statistics: RuleStatistics
    seen: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))  # matches handled, sorted
    seen_groups: set[bytes] = field(default_factory=set)


def explore(
    graph: EGraph,
    rules: Sequence[Rule],
    limits: Limits | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Exploration:
    """Rewrite an e-graph until saturation or a limit.

    Whatever a rule raises other than `Refusal` is a bug in the rule and is not caught.

    Parameters
    ----------
    graph : EGraph
        Changed in place.
    rules : sequence of Rule
        ``node_rule`` of a new e-node is its rule's position here.
    limits : Limits, optional
    progress : callable, optional
        Called with (iteration, e-nodes) after each iteration.

    Raises
    ------
    ValueError
        When two rules have the same name, by which they are reported.
    """
    names = Counter(rule.name for rule in rules)
    for name, count in names.items():
        if count > 1:
            raise ValueError(f"two rules named {name!r} cannot be told apart in the report")
    return _Explorer(graph, rules, limits or Limits()).run(progress)


class _Explorer:
    def __init__(self, graph: EGraph, rules: Sequence[Rule], limits: Limits) -> None:
        self.graph = graph
        self.limits = limits
        self.began = time.perf_counter()
        self.profiles = Profiles()
        self.known = [
            _Known(rule, number, sources_of(rule), Templates(rule), RuleStatistics())
            for number, rule in enumerate(rules)
        ]
        self.merging = {known.number for known in self.known if known.rule.kind != "single"}

    def run(self, progress: Callable[[int, int], None] | None) -> Exploration:
        stopped = "iteration limit"
        done = 0
        self.graph.rebuild()
        for iteration in range(self.limits.iterations):
            before = self.state()
            complete = self.iterate(iteration)
            done = iteration + 1
            if progress is not None:
                progress(done, self.graph.node_count)
            if not complete:
                stopped = "time limit" if self.out_of_time() else "node limit"
                break
            if before == self.state() and not self.wake(iteration):
                stopped = "saturated"
                break
        graph = self.graph
        return Exploration(
            stopped=stopped,
            iterations=done,
            nodes=graph.node_count,
            classes=graph.class_count,
            filtered=int(np.count_nonzero(graph.node_filtered & graph.node_alive)),
            seconds=time.perf_counter() - self.began,
            rules={known.rule.name: known.statistics for known in self.known},
        )

    def state(self) -> tuple[int, int]:
        """Rows ever made and classes: equal only if nothing was added and nothing merged."""
        return len(self.graph.node_operator), self.graph.class_count

    def out_of_time(self) -> bool:
        return time.perf_counter() - self.began > self.limits.seconds

    def wake(self, iteration: int) -> bool:
        """When nothing changed, end the rest of all banned rules; return whether there were any."""
        statistics = [known.statistics for known in self.known]
        banned = [each for each in statistics if each.banned_until > iteration]
        for each in banned:
            each.banned_until = iteration + 1
        return bool(banned)

    def iterate(self, iteration: int) -> bool:
        """Search all rules and apply their matches; False when a limit was hit."""
        left = max(self.limits.seconds - (time.perf_counter() - self.began), 0.0)
        affordable = min(JOIN_ROWS_PER_NODE * self.limits.nodes, int(JOIN_ROWS_PER_SECOND * left))
        matcher = Matcher(self.graph, affordable)
        profile = self.profiles.of_classes(self.graph)
        found: list[Application] = []
        for known in self.known:
            if self.out_of_time():
                return False
            resting = known.statistics.banned_until > iteration
            too_late = iteration >= self.limits.last_iteration(known.rule.kind)
            if resting or too_late or not all(matcher.has(s.pattern) for s in known.sources):
                continue
            try:
                if known.rule.kind == "group":
                    found += self.search_groups(known, matcher, profile)
                else:
                    found += self.search(known, matcher, profile, iteration)
            except JoinTooLarge as error:
                self.ban(known.statistics, iteration, f"a join of {error.rows:,} rows not expanded")
        if self.limits.cycles == "vanilla":
            return self.apply_one_by_one(found, iteration)
        if self.limits.cycles == "efficient":
            found = self.discard_cyclic(found, ("multi",))
        return self.apply(found, iteration)

    # -- searching ---------------------------------------------------------------------------

    def search(
        self, known: _Known, matcher: Matcher, profile: Ints, iteration: int
    ) -> list[Application]:
        """Find the new matches of a single- or multi-pattern rule, grouped by template."""
        matches = combine(matcher, known.rule, known.sources, matcher.join_limit)
        if known.rule.kind == "multi":  # weights cost nothing, merged or not
            heavy = ~self.graph.class_weight[matches.roots].all(axis=1)
            matches = matches.take(np.flatnonzero(heavy))
        if not len(matches):
            return []
        columns = np.hstack([matches.operators, profile[matches.variables]])
        identity = signature_hashes(np.hstack([columns, matches.variables]))
        new = np.flatnonzero(~contains(known.seen, identity))
        statistics = known.statistics
        allowed = self.limits.matches << len(statistics.cut)
        if len(new) > allowed:
            self.ban(statistics, iteration, f"{len(new) - allowed:,} of {len(new):,} matches cut")
            new = new[:allowed]
        statistics.matches += len(new)
        if not len(new):
            return []
        known.seen = np.sort(np.concatenate([known.seen, identity[new]]))
        return self.with_templates(known, matches.take(new), columns[new])

    def with_templates(self, known: _Known, matches: Combined, columns: Ints) -> list[Application]:
        found = []
        width = matches.operators.shape[1]
        for first, members in zip(*split_by_signature(columns), strict=True):
            signature = columns[first].tolist()
            template = known.templates.get(
                self.graph, self.profiles, signature[:width], signature[width:]
            )
            if isinstance(template, str):
                known.statistics.refused[template] += 1
                continue
            found.append(
                Application(
                    known.number,
                    template,
                    matches.variables[members],
                    matches.roots[members],
                    matches.rows[members],
                )
            )
        return found

    def search_groups(self, known: _Known, matcher: Matcher, profile: Ints) -> list[Application]:
        """Find the new groups of a group rule."""
        found = []
        for group in groups(matcher, known.rule, known.sources[0], self.merging, profile):
            identity = group.variables.tobytes() + bytes(str(group.operators), "ascii")
            if identity in known.seen_groups:
                continue
            known.seen_groups.add(identity)
            known.statistics.matches += 1
            template = known.templates.get(
                self.graph, self.profiles, group.operators, profile[group.variables].tolist()
            )
            if isinstance(template, str):
                known.statistics.refused[template] += 1
                continue
            found.append(
                Application(
                    known.number,
                    template,
                    group.variables[None, :],
                    group.roots[None, :],
                    group.rows[None, :],
                )
            )
        return found

    def ban(self, statistics: RuleStatistics, iteration: int, why: str) -> None:
        """Back off as egg does: each time twice as long."""
        rest = 5 << len(statistics.cut)
        statistics.cut.append(f"iteration {iteration}: {why}; rests {rest} iterations")
        statistics.banned_until = iteration + 1 + rest

    # -- applying ----------------------------------------------------------------------------

    def discard_cyclic(self, found: list[Application], kinds: tuple[str, ...]) -> list[Application]:
        """Drop matches of rules of these kinds that the e-graph shows to close a cycle.

        A single pattern's variables lie below its root already, and groups are independent by
        construction when they are found: only multi-patterns can then put a root under a variable.
        """
        asked, above, below = [], [], []
        for at, application in enumerate(found):
            if self.known[application.rule].rule.kind not in kinds:
                continue
            for k, used in enumerate(application.template.uses):
                for variable in used:
                    asked.append((at, len(application.roots)))
                    above.append(application.roots[:, k])
                    below.append(application.variables[:, variable])
        if not asked:
            return found
        closes = closes_cycle(self.graph, np.concatenate(above), np.concatenate(below))
        bad = [np.zeros(len(application.roots), np.bool_) for application in found]
        begin = 0
        for at, count in asked:
            bad[at] |= closes[begin : begin + count]
            begin += count
        kept = []
        for application, cyclic in zip(found, bad, strict=True):
            self.known[application.rule].statistics.cyclic += int(np.count_nonzero(cyclic))
            if not cyclic.all():
                kept.append(application.take(np.flatnonzero(~cyclic)))
        return kept

    def apply(self, found: list[Application], iteration: int) -> bool:
        """Instantiate in portions that cannot exceed the node limit, then merge and rebuild."""
        before = self.state()
        pending = list(found)
        roots, ends = [], []
        applied: list[Application] = []
        complete = True
        while pending:
            room = self.limits.nodes - self.graph.node_count
            fitting, pending = portion(self.graph, pending, room)
            if not fitting:
                complete = False
                break
            merged = instantiate(self.graph, fitting, iteration, lambda: not self.out_of_time())
            if self.out_of_time():
                complete = False
                break
            roots.append(merged[0])
            ends.append(merged[1])
            applied += fitting
            for application in fitting:
                statistics = self.known[application.rule].statistics
                statistics.applied += len(application.roots)
        if roots:
            self.graph.union(np.concatenate(roots), np.concatenate(ends))
        self.graph.rebuild()
        projected = project_tuples(self.graph)
        if self.limits.cycles != "none" and before != self.state():
            # Hidden first: the newest e-node of a large component could be a useful one.
            collapsed = [application.collapsed() for application in applied]
            hide(self.graph, np.concatenate([projected, *collapsed]))
            resolve_cycles(self.graph)
        return complete

    def apply_one_by_one(self, found: list[Application], iteration: int) -> bool:
        """Apply matches one at a time, each checked on the e-graph that those before it left.

        This is TENSAT's vanilla filtering: a pass over the whole e-graph for each match. Here too
        cycles remain that only congruence closes, and `apply` resolves them.
        """
        for application in found:
            for at in range(len(application.roots)):
                if self.out_of_time():
                    return False
                match = application.take(np.array([at])).on(self.graph.sets.parent)
                kept = self.discard_cyclic([match], ("multi", "group"))
                if kept and not self.apply(kept, iteration):
                    return False
        return True


def contains(known: Hashes, asked: Hashes) -> Bools:
    """Whether each hash is among the sorted ones."""
    if not len(known):
        return np.zeros(len(asked), np.bool_)
    order = np.argsort(asked)  # sorted needles are found several times faster
    slot = np.searchsorted(known, asked[order])
    inside = np.empty(len(asked), np.bool_)
    inside[order] = known[np.minimum(slot, len(known) - 1)] == asked[order]
    return inside


__all__ = ["Exploration", "Limits", "RuleStatistics", "explore"]
