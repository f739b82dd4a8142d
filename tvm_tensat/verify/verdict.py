"""What was found out about a rule, as data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray

from tvm_tensat.egraph.rule import Rule
from tvm_tensat.verify.compiled import TARGET
from tvm_tensat.verify.example import Example

Array = NDArray[Any]

HOLDS, FAILS, NOT_EXERCISED = "holds", "fails", "not exercised"


@dataclass(frozen=True)
class Counterexample:
    """Where a rule is wrong.

    Attributes
    ----------
    example : Example
    reason : str
        What is different, or what the rule raised.
    module : tvm.IRModule or None
        ``main`` computes what was sought and what replaces it; None when the rule gave nothing.
    inputs : tuple of array
        Of ``main``.
    sought, made : tuple of array
    """

    example: Example
    reason: str
    module: tvm.IRModule | None = None
    inputs: tuple[Array, ...] = ()
    sought: tuple[Array, ...] = ()
    made: tuple[Array, ...] = ()

    def snippet(self) -> str:
        """Return a Python program that computes both sides and prints them."""
        rule = self.example.rule
        head = [
            f"# Counterexample to {rule.name} ({rule.origin}), which claims to be {rule.keeps}:",
            f"# {rule.law}",
            f"# {self.reason}",
        ]
        if self.module is None:
            return "\n".join([*head, f"# on {self.example.operands}, {self.example.attrs}"]) + "\n"
        imports = ["import ml_dtypes", "import numpy as np", "import tvm", "from tvm import relax"]
        script = "\n".join(
            line.removeprefix("# ") if line.startswith("# from ") else line
            for line in _text(self.module).splitlines()
        )
        arrays = ",\n".join("    " + _array(value) for value in self.inputs)
        program = [
            f"inputs = [\n{arrays},\n]" if self.inputs else "inputs = []",
            f"executable = tvm.compile(Module, tvm.target.Target({TARGET}))",
            "machine = relax.VirtualMachine(executable, tvm.cpu())",
            'sought, made = machine["main"](*map(tvm.runtime.tensor, inputs))',
            "",
            "",
            "def shown(value):",
            "    if isinstance(value, tvm.runtime.Tensor):",
            "        return value.numpy()",
            "    return [shown(field) for field in value]",
            "",
            "",
            'print("sought:", shown(sought))',
            'print("made:", shown(made))',
        ]
        results = [
            f"# {name}: "
            + "\n#   ".join(text for value in side for text in str(value).splitlines())
            for name, side in (("sought", self.sought), ("made", self.made))
        ]
        return "\n".join([*head, *imports, script, "", *program, *results]) + "\n"


def _text(module: tvm.IRModule) -> str:
    """Return a module as text, constants that TVMScript cannot write in front."""
    text: str = module.script()
    return module.script(show_meta=True) if "metadata[" in text else text


def _array(value: Array) -> str:
    """Return an array as an expression; numbers are written so that they come back exactly."""
    numbers = value if value.dtype.kind in "biuf" else value.astype(np.float32)
    text = repr(numbers.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    source = "np" if value.dtype.kind in "biuf" else "ml_dtypes"
    dtype = "bool" if value.dtype.kind == "b" else f"{source}.{value.dtype.name}"
    return f"np.array({text}, {dtype}).reshape({value.shape})"


@dataclass(frozen=True)
class Verdict:
    """What was found out about a rule.

    Attributes
    ----------
    rule : Rule
    status : str
        `HOLDS`: on all examples; `FAILS`; `NOT_EXERCISED`: it was never applied.
    tried, well_typed, applied : int
        Examples drawn, those whose sought terms have a type, those checked.
    exact, compiled : int
        Of those checked, how many in rational numbers or integers, and how many as TVM computes
        them.
    kinds : tuple of str
        What was met: dtypes, ranks, symbolic and empty tensors, extents of one.
    refusals : tuple of (str, int)
        Why the rule did not apply, most often first.
    counterexample : Counterexample or None
    """

    rule: Rule
    status: str
    tried: int
    well_typed: int
    applied: int
    exact: int
    compiled: int
    kinds: tuple[str, ...]
    refusals: tuple[tuple[str, int], ...]
    counterexample: Counterexample | None = None

    def __str__(self) -> str:
        if self.counterexample is not None:
            return f"{self.rule.name}: fails ({self.rule.origin}): {self.counterexample.reason}"
        if self.status == NOT_EXERCISED:
            reasons = "; ".join(f"{reason} x{count}" for reason, count in self.refusals[:2])
            return (
                f"{self.rule.name}: not exercised ({self.rule.origin}): {self.tried} tries, "
                f"{self.well_typed} well-typed; {reasons or 'nothing refused'}"
            )
        return (
            f"{self.rule.name}: holds on {self.applied} examples ({self.exact} computed exactly, "
            f"{self.compiled} by TVM): {', '.join(self.kinds)}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON-like data."""
        found = self.counterexample
        return {
            "rule": self.rule.name,
            "origin": self.rule.origin,
            "status": self.status,
            "tried": self.tried,
            "well_typed": self.well_typed,
            "applied": self.applied,
            "exact": self.exact,
            "compiled": self.compiled,
            "kinds": list(self.kinds),
            "refusals": dict(self.refusals),
            "reason": None if found is None else found.reason,
            "counterexample": None if found is None else found.snippet(),
        }


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return how many rules hold, fail and were not exercised."""
    count = dict.fromkeys((HOLDS, FAILS, NOT_EXERCISED), 0)
    for verdict in verdicts:
        count[verdict.status] += 1
    return f"{len(verdicts)} rules: " + ", ".join(f"{n} {status}" for status, n in count.items())
