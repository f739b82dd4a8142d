"""The report: every decision of a run, as data and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tvm_tensat.egraph import Exploration
from tvm_tensat.passes.race import Race


@dataclass(frozen=True)
class BlockReport:
    """What happened to one segment of a dataflow block.

    Attributes
    ----------
    function, block : str
        Where it is.
    operators : int
        E-nodes of the input.
    exploration : Exploration
    cost_before, cost_after : float
        Seconds that the cost model predicts: the sum of the kernels' times.
    launches_before, launches_after : int
        Kernels that TVM will run.
    bound, gap : float
        What no graph undercuts as long as each e-node costs what it is known or estimated to cost,
        in seconds, and the relative distance to it.
    status : str
        How extraction ended.
    rounds : int
        Extractions until every chosen kernel had been measured.
    kernels_measured, kernels_recorded, kernels_failed : int
        Kernels measured now, found in the store, and not measurable.
    failures : tuple of str
        Kernels that failed, with the reasons.
    rules_used : dict of str to int
        E-nodes chosen, by the rule that made them.
    rewrites : tuple of str
        The rewrites that lead from the input to the chosen graph, one after another; one line that
        says so where they are too many.
    remarks : tuple of str
        What else the user should know.
    """

    function: str
    block: str
    operators: int
    exploration: Exploration
    cost_before: float
    cost_after: float
    launches_before: int
    launches_after: int
    bound: float
    gap: float
    status: str
    rounds: int
    kernels_measured: int
    kernels_recorded: int
    kernels_failed: int
    failures: tuple[str, ...]
    rules_used: dict[str, int]
    rewrites: tuple[str, ...]
    remarks: tuple[str, ...] = ()


@dataclass
class Report:
    """What the pass did, decided and measured.

    Attributes
    ----------
    verdict : str
        What was returned: ``"unchanged"``, or the name of a form; see `Search.candidates` in
        `tvm_tensat.passes.search`.
    reasons : list of str
        Why, and everything else the user should know.
    blocks : list of BlockReport
    races : list of Race
        Of each function the first race of all candidates, then the winner's against the input.
    seconds : dict of str to float
        Time by phase.
    kept : list of str
        Blocks or parts of blocks left as they were, with the reasons.
    target : str
    options : dict
    machine : dict
    """

    verdict: str = "unchanged"
    reasons: list[str] = field(default_factory=list)
    blocks: list[BlockReport] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    target: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON-like data."""
        return _plain(asdict(self))

    def __str__(self) -> str:
        lines = [f"Tensat: {self.verdict}"]
        lines += [f"  {reason}" for reason in self.reasons]
        for block in self.blocks:
            lines += _block_lines(block)
        lines += [f"  left as it was: {kept}" for kept in self.kept]
        for race in self.races:
            lines += _race_lines(race)
        if self.seconds:
            phases = ", ".join(f"{name} {value:.1f}" for name, value in self.seconds.items())
            lines.append(f"  time by phase, s: {phases}; in all {sum(self.seconds.values()):.1f}")
        return "\n".join(lines)


def _block_lines(block: BlockReport) -> list[str]:
    explored = block.exploration
    lines = [
        f"  {block.function}/{block.block}: {block.operators} operators",
        f"    e-graph: {explored.nodes:,} e-nodes ({explored.filtered:,} filtered), "
        f"{explored.classes:,} e-classes, {explored.iterations} iterations "
        f"in {explored.seconds:.2f} s, {explored.stopped}",
        f"    predicted: {_ms(block.cost_before)} -> {_ms(block.cost_after)} ms, "
        f"{block.launches_before} -> {block.launches_after} kernels; "
        f"extraction {block.status}, gap {block.gap:.2%}, {block.rounds} rounds",
        f"    kernels: {block.kernels_measured} measured, {block.kernels_recorded} from the store, "
        f"{block.kernels_failed} failed",
    ]
    lines += [f"      failed: {failure}" for failure in block.failures]
    lines += [f"    {remark}" for remark in block.remarks]
    if block.rules_used:
        used = sorted(block.rules_used.items(), key=lambda item: -item[1])
        lines.append("    chosen: " + ", ".join(f"{name} {count}" for name, count in used))
    lines.append(f"    reached from the input by {len(block.rewrites)} rewrites")
    for done in explored.history:
        most = sorted(done.rules.items(), key=lambda item: -item[1][1])[:3]
        lines.append(
            f"    iteration {done.number}: {done.nodes:,} e-nodes, {done.classes:,} e-classes, "
            f"search {_ms(done.search_seconds)} ms, apply {_ms(done.apply_seconds)} ms; "
            + (", ".join(f"{name} {applied}" for name, (_, applied) in most) or "nothing new")
        )
    fired = {n: s for n, s in explored.rules.items() if s.matches or s.refused}
    for name, statistics in sorted(fired.items(), key=lambda item: -item[1].applied):
        notes = [f"{reason} x{count}" for reason, count in statistics.refused.most_common(3)]
        if statistics.cyclic:
            notes.append(f"{statistics.cyclic} would close a cycle")
        notes += statistics.cut
        text = (
            f"      {name}: {statistics.applied}/{statistics.matches} matches applied, "
            f"{_ms(statistics.seconds)} ms"
        )
        lines.append(text + (f"; refused: {'; '.join(notes)}" if notes else ""))
    return lines


def _race_lines(race: Race) -> list[str]:
    return [
        f"  measured, {race.function}, {name}: {_ms(seconds)} ms "
        f"(spread {spread:.1%}), {ratio:.3f} times as fast as the input"
        for name, seconds, spread, ratio in zip(
            race.modules, race.seconds, race.spread, race.ratios, strict=True
        )
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
