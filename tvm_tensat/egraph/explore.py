"""Exploration: TENSAT's Algorithm 1 until saturation or a limit.

Each iteration searches all rules on the e-graph as it stands, then applies the matches together,
restores congruence and, with efficient cycle filtering, hides the e-nodes that close cycles.
Vanilla filtering applies them one by one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from tvm_tensat.egraph.cycles import Dependence, hide, resolve_cycles
from tvm_tensat.egraph.egraph import EGraph
from tvm_tensat.egraph.instantiate import instantiate, portion
from tvm_tensat.egraph.memo import Memo
from tvm_tensat.egraph.projection import project_tuples
from tvm_tensat.egraph.report import Exploration, Iteration, Limits, RuleStatistics
from tvm_tensat.egraph.rule import Rule
from tvm_tensat.egraph.search import Search
from tvm_tensat.egraph.template import Application

JOIN_ROWS_PER_NODE = 20  # a join may have this many rows for each e-node of the limit
# A join is not interrupted, so none is begun that would outlast the time that is left; the rate
# includes the work on its matches, on a slow core.
JOIN_ROWS_PER_SECOND = 1_000_000

Hook = Callable[[EGraph, Iteration], bool | None]


def explore(
    graph: EGraph,
    rules: Sequence[Rule],
    limits: Limits | None = None,
    *,
    memo: Memo | None = None,
    hook: Hook | None = None,
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
    memo : Memo, optional
        Shared with other explorations over the same language, whose rules then need not run again.
    hook : callable, optional
        Called after each iteration with the e-graph, which it must not change, and what the
        iteration did; exploration ends when it returns False.

    Raises
    ------
    ValueError
        When two rules have the same name, by which they are reported, or when the memo is of
        another language.
    """
    if memo is not None and memo.language is not graph.language:
        raise ValueError("a memo serves one language: its numbers mean nothing in another")
    names = Counter(rule.name for rule in rules)
    for name, count in names.items():
        if count > 1:
            raise ValueError(f"two rules named {name!r} cannot be told apart in the report")
    return _Explorer(graph, rules, limits or Limits(), memo or Memo(graph.language)).run(hook)


class _Explorer:
    def __init__(self, graph: EGraph, rules: Sequence[Rule], limits: Limits, memo: Memo) -> None:
        self.graph = graph
        self.limits = limits
        self.began = time.perf_counter()
        self.search = Search(graph, rules, limits, memo)
        self.kinds = [rule.kind for rule in rules]

    def run(self, hook: Hook | None) -> Exploration:
        stopped = "iteration limit"
        done: list[Iteration] = []
        self.graph.rebuild()
        for number in range(self.limits.iterations):
            before = self.state()
            complete, iteration = self.iterate(number)
            done.append(iteration)
            if hook is not None and hook(self.graph, iteration) is False:
                stopped = "hook"
                break
            if not complete:
                stopped = "time limit" if self.out_of_time() else "node limit"
                break
            if before == self.state() and not self.wake(number):
                stopped = "saturated"
                break
        graph = self.graph
        return Exploration(
            stopped=stopped,
            history=tuple(done),
            nodes=graph.node_count,
            classes=graph.class_count,
            filtered=int(np.count_nonzero(graph.node_filtered & graph.node_alive)),
            seconds=time.perf_counter() - self.began,
            rules={known.rule.name: known.statistics for known in self.search.rules},
        )

    def statistics(self, application: Application) -> RuleStatistics:
        return self.search.rules[application.rule].statistics

    def state(self) -> tuple[int, int]:
        """Rows ever made and classes: equal only if nothing was added and nothing merged."""
        return len(self.graph.node_operator), self.graph.class_count

    def out_of_time(self) -> bool:
        return time.perf_counter() - self.began > self.limits.seconds

    def wake(self, iteration: int) -> bool:
        """When nothing changed, end the rest of all banned rules; return whether there were any."""
        banned = [
            known.statistics
            for known in self.search.rules
            if known.statistics.banned_until > iteration
        ]
        for each in banned:
            each.banned_until = iteration + 1
        return bool(banned)

    def iterate(self, number: int) -> tuple[bool, Iteration]:
        """Search all rules and apply their matches; False when a limit was hit."""
        began = time.perf_counter()
        matched = [known.statistics.matches for known in self.search.rules]
        applied = [known.statistics.applied for known in self.search.rules]
        left = max(self.limits.seconds - (began - self.began), 0.0)
        affordable = min(JOIN_ROWS_PER_NODE * self.limits.nodes, int(JOIN_ROWS_PER_SECOND * left))
        found = self.search.find(number, affordable, self.out_of_time)
        searched = time.perf_counter()
        if found is None:
            complete = False
        elif self.limits.cycles == "vanilla":
            complete = self.apply_one_by_one(found, number)
        else:
            if self.limits.cycles == "efficient":
                found = self.discard_cyclic(found, ("multi",), self.search.dependence)
            complete = self.apply(found, number)
        graph = self.graph
        return complete, Iteration(
            number=number,
            nodes=graph.node_count,
            classes=graph.class_count,
            search_seconds=searched - began,
            apply_seconds=time.perf_counter() - searched,
            rules={
                known.rule.name: (known.statistics.matches - had, known.statistics.applied - did)
                for known, had, did in zip(self.search.rules, matched, applied, strict=True)
                if known.statistics.matches > had or known.statistics.applied > did
            },
        )

    def discard_cyclic(
        self,
        found: list[Application],
        kinds: tuple[str, ...],
        dependence: Callable[[], Dependence],
    ) -> list[Application]:
        """Drop matches of rules of these kinds that the e-graph shows to close a cycle.

        A single pattern's variables lie below its root already, and groups are independent by
        construction when they are found: only multi-patterns can then put a root under a variable.
        """
        asked, above, below = [], [], []
        for at, application in enumerate(found):
            if self.kinds[application.rule] not in kinds:
                continue
            for k, used in enumerate(application.wiring.uses):
                for variable in used:
                    asked.append((at, len(application)))
                    above.append(application.roots[:, k])
                    below.append(application.variables[:, variable])
        if not asked:
            return found
        closes = dependence().closes_cycle(np.concatenate(above), np.concatenate(below))
        bad = [np.zeros(len(application), np.bool_) for application in found]
        begin = 0
        for at, count in asked:
            bad[at] |= closes[begin : begin + count]
            begin += count
        kept = []
        for application, cyclic in zip(found, bad, strict=True):
            self.statistics(application).cyclic += int(np.count_nonzero(cyclic))
            if not cyclic.all():
                kept.append(application.take(np.flatnonzero(~cyclic)))
        return kept

    def apply(self, found: list[Application], iteration: int) -> bool:
        """Instantiate in portions that cannot exceed the node limit, then merge and rebuild."""
        before = self.state()
        pending = list(found)
        merges = []
        applied: list[Application] = []
        complete = True
        while pending:
            room = self.limits.nodes - self.graph.node_count
            fitting, pending = portion(self.graph, pending, room)
            if not fitting:
                complete = False
                break
            made = instantiate(self.graph, fitting, iteration, lambda: not self.out_of_time())
            if self.out_of_time():
                complete = False
                break
            merges.append(made)
            applied += fitting
            for application in fitting:
                self.statistics(application).applied += len(application)
        if merges:
            self.graph.union(*(np.concatenate(column) for column in zip(*merges, strict=True)))
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
            for at in range(len(application)):
                if self.out_of_time():
                    return False
                match = application.take(np.array([at])).on(self.graph.sets.parent)
                kept = self.discard_cyclic(
                    [match], ("multi", "group"), lambda: Dependence(self.graph)
                )
                if kept and not self.apply(kept, iteration):
                    return False
        return True


__all__ = ["Exploration", "Hook", "Iteration", "Limits", "Memo", "RuleStatistics", "explore"]
