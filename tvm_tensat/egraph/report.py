"""Where an exploration stops, and what it tells afterwards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

# Group rules take part so much longer than multi-pattern rules: they add few e-nodes, and siblings
# become alike only after single rules have brought them to the same form (batch norms folded, say).
GROUP_ITERATIONS_MORE = 3

CYCLES = ("efficient", "vanilla", "none")  # see `tvm_tensat.egraph.cycles`


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
        Iterations, from the first, in which multi-pattern rules take part; group rules take part in
        `GROUP_ITERATIONS_MORE` more, and neither when it is 0.
    matches : int
        New matches of one rule in one iteration before it is cut and backs off; doubles each time.
    cycles : str
        ``"efficient"`` filtering, TENSAT's ``"vanilla"`` (slow, for comparison), or ``"none"``.
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

    def last_iteration(self, kind: str) -> int:
        """Return the iteration from which rules of this kind take no more part."""
        if kind == "single":
            return self.iterations
        more = GROUP_ITERATIONS_MORE if kind == "group" and self.k_multi else 0
        return self.k_multi + more


@dataclass
class RuleStatistics:
    """What one rule did.

    Attributes
    ----------
    matches, applied : int
        New matches found whose signature the rule does not refuse, and those that were applied.
    cyclic : int
        Matches discarded because they would close a cycle.
    refused : Counter of str
        Signatures refused, each counted once, by reason.
    cut : list of str
        What back-off or a join limit took away, a line each.
    banned_until : int
        Iteration before which the rule rests.
    seconds : float
        Spent in searching it and in running it on new signatures.
    """

    matches: int = 0
    applied: int = 0
    cyclic: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    cut: list[str] = field(default_factory=list)
    banned_until: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Iteration:
    """What one iteration did.

    Attributes
    ----------
    number : int
        From 0.
    nodes, classes : int
        After it.
    search_seconds, apply_seconds : float
        Applying includes congruence and cycle filtering.
    rules : dict of str to (int, int)
        New matches and applied matches, of the rules that had any.
    """

    number: int
    nodes: int
    classes: int
    search_seconds: float
    apply_seconds: float
    rules: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Exploration:
    """How an exploration went.

    Attributes
    ----------
    stopped : str
        ``"saturated"``, ``"hook"``, or the limit that ended it.
    history : tuple of Iteration
    nodes, classes, filtered : int
    seconds : float
    rules : dict of str to RuleStatistics
    """

    stopped: str
    history: tuple[Iteration, ...]
    nodes: int
    classes: int
    filtered: int
    seconds: float
    rules: dict[str, RuleStatistics]

    @property
    def iterations(self) -> int:
        """How many iterations were made."""
        return len(self.history)
