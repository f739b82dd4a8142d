"""Where an exploration stops, and what it tells afterwards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

CYCLES = ("efficient", "none")  # see `tvm_tensat.egraph.cycles`


@dataclass(frozen=True)
class Limits:
    """Where exploration stops; the paper's defaults.

    Parameters
    ----------
    iterations : int
    nodes : int
        E-nodes, filtered ones included; never exceeded.
    seconds : float
    k_multi : int
        Iterations, from the first, in which multi-pattern rules take part.
    matches : int
        New matches of one rule in one iteration before it is cut and backs off; doubles each time.
    cycles : str
        ``"efficient"`` filtering, or ``"none"``.
    """

    iterations: int = 15
    nodes: int = 50_000
    seconds: float = 30.0
    k_multi: int = 1
    matches: int = 2_000
    cycles: str = "efficient"

    def __post_init__(self) -> None:
        if self.cycles not in CYCLES:
            raise ValueError(
                f"cycles={self.cycles!r} is no way to filter cycles; choose one of {CYCLES}"
            )


@dataclass
class RuleStatistics:
    """What one rule did.

    Attributes
    ----------
    matches, applied : int
        New matches found, and those that were applied.
    cyclic : int
        Matches discarded because they would close a cycle.
    refused : Counter of str
        Signatures refused, by reason.
    cut : list of str
        What back-off or a join limit took away, a line each.
    banned_until : int
        Iteration before which the rule rests.
    """

    matches: int = 0
    applied: int = 0
    cyclic: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    cut: list[str] = field(default_factory=list)
    banned_until: int = 0


@dataclass(frozen=True)
class Exploration:
    """How an exploration went.

    Attributes
    ----------
    stopped : str
        ``"saturated"``, or the limit that ended it.
    iterations, nodes, classes, filtered : int
    seconds : float
    rules : dict of str to RuleStatistics
    """

    stopped: str
    iterations: int
    nodes: int
    classes: int
    filtered: int
    seconds: float
    rules: dict[str, RuleStatistics]
