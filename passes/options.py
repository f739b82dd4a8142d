"""What a user may choose about the pass; the command line offers each field as ``--tensat-...``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tvm_tensat.cost.tracker import Tracker
from tvm_tensat.egraph.report import CYCLES
from tvm_tensat.extraction.solve import METHODS


def _option(
    default: Any, text: str, *, unit: str | None = None, choices: tuple[str, ...] | None = None
) -> Any:
    return field(default=default, metadata={"help": text, "unit": unit, "choices": choices})


@dataclass(frozen=True)
class TensatOptions:
    """Options of the Tensat pass.

    The limits' defaults are the paper's (TENSAT, section 6.1). Every field's meaning is in its
    metadata, where the command line takes its help from.
    """

    numerics: str = _option(
        "real",
        "rules that may be used: 'real' admits those equal over the reals (rounding may differ), "
        "'exact' only those that keep each element's floating-point operations",
        choices=("real", "exact"),
    )
    k_multi: int = _option(1, "iterations in which multi-pattern rules take part")
    iterations: int = _option(15, "most iterations of exploration")
    nodes: int = _option(50_000, "most e-nodes of one e-graph")
    explore_seconds: float = _option(20.0, "most time exploring one e-graph", unit="seconds")
    cycles: str = _option("efficient", "cycle filtering during exploration", choices=CYCLES)
    costs: str = _option(
        "measured",
        "'measured' runs the kernels that matter on this machine, or where rpc_tracker says; "
        "'recorded' takes times from the cost "
        "store only, and no other kernels but the input's; 'estimated' uses a roofline model",
        choices=("measured", "recorded", "estimated"),
    )
    cost_store: Path | None = _option(None, "file of measured costs; by default one for the user")
    tuning_records: Path | None = _option(None, "folder of MetaSchedule records")
    rpc_tracker: str | None = _option(
        None, "host:port of TVM's RPC tracker; kernels and forms run on the devices that it lends"
    )
    rpc_key: str | None = _option(
        None, "key of these devices, which are taken to be equal; several are used at once"
    )
    cross_compiler: str | None = _option(
        None,
        "compiler that links for these devices, such as aarch64-linux-gnu-g++; by default this "
        "machine's, or the device's own where its architecture is another",
    )
    extractor: str = _option("ilp", "how the cheapest graph is chosen", choices=METHODS)
    solver: str = _option("highs", "solver behind python-mip", choices=("highs", "cbc"))
    extract_seconds: float = _option(10.0, "most time of one extraction", unit="seconds")
    candidates: int = _option(
        2,
        "most forms to race against the input: the cheapest, the cheapest with a mistrust of new "
        "kernels, and the next cheapest that differ from it",
    )
    rules: Path | None = _option(
        None,
        "file of further rules in TENSAT's text format; each is verified on some examples before "
        "it is used",
    )
    egraphs: Path | None = _option(
        None,
        "folder for the e-graphs with their costs, a file in egraph-serialize JSON each, which "
        "`tvmc extract` reads",
    )
    check: bool = _option(True, "compare outputs with the input's on random inputs")
    race: bool = _option(True, "measure both and return the input unless the result is faster")
    seed: int = _option(0, "seed of the random inputs")
    strict: bool = _option(False, "raise instead of returning the input when something fails")

    def __post_init__(self) -> None:
        for option in fields(self):
            value, choices = getattr(self, option.name), option.metadata["choices"]
            if choices is not None and value not in choices:
                raise ValueError(
                    f"option {option.name}={value!r}: expected one of {', '.join(choices)}"
                )
        for name in ("iterations", "nodes", "explore_seconds", "extract_seconds", "candidates"):
            if getattr(self, name) <= 0:
                raise ValueError(f"option {name}={getattr(self, name)}: expected more than 0")
        if (self.rpc_tracker is None) != (self.rpc_key is None):
            raise ValueError("options rpc_tracker and rpc_key: expected both or none of them")
        if self.rpc_tracker is not None and self.rpc_key is not None:
            Tracker.at(self.rpc_tracker, self.rpc_key)
        if self.k_multi < 0:
            raise ValueError(f"option k_multi={self.k_multi}: expected 0 or more")
