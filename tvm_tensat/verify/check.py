"""Is a rule sound? `verify` draws examples, runs the rule on each and compares both sides.

Both sides are compared three times where that is possible: their types, as the rule sees them and
as TVM infers them for the whole module; their values in rational numbers, where equal over the
reals means equal; and their values as TVM computes them, bit for bit with NaN, infinities, signed
zeros and denormals among the inputs where the rule keeps `EXACT`, up to rounding otherwise.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import tvm

from tvm_tensat.egraph.language import Refusal, TensorInfo, TupleInfo
from tvm_tensat.egraph.rule import EXACT, FLOAT, Rule
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.types import numpy_dtype
from tvm_tensat.verify.compiled import Array, both_sides, inputs, run
from tvm_tensat.verify.example import Applied, Example, apply, tensors
from tvm_tensat.verify.instances import draw_examples
from tvm_tensat.verify.rational import draw_rationals, equal, evaluate_sides
from tvm_tensat.verify.values import SYMBOLS, differing_bits, differing_numbers
from tvm_tensat.verify.verdict import FAILS, HOLDS, NOT_EXERCISED, Counterexample, Verdict
from tvm_tensat.verify.walk import run_by_numpy, terms_of

MOST_TRIES = 1500  # of rules that refuse almost everything, all built-in ones are met by then
MOST_TRIES_FOR_A_SMALLER = 100  # counterexample, once there is one


def verify(
    rule: Rule, examples: int = 100, compiled: int = 12, *, seconds: float = 10.0, seed: int = 0
) -> Verdict:
    """Look for an example on which a rule is wrong.

    Parameters
    ----------
    rule : Rule
    examples : int
        To check, unless the tries or the time run out.
    compiled : int
        How many of them TVM computes too, a tenth of a second each.
    seconds : float
        After which no further example is drawn.
    seed : int
        The same seed draws the same examples.
    """
    checks = _Checks(rule, compiled)
    end = time.monotonic() + seconds
    last = MOST_TRIES
    found: Counterexample | None = None
    for number, drawn in enumerate(draw_examples(rule, seed, checks.language)):
        if number >= last or checks.applied >= examples or time.monotonic() > end:
            break
        checks.tried += 1
        if drawn.example is None:
            checks.refusals[drawn.reason[:120]] += not checks.well_typed
            continue
        checks.well_typed += 1
        if found is not None and drawn.example.elements >= found.example.elements:
            continue
        other = checks.check(drawn.example, number)
        if found is None and other is not None:
            last, checks.most_compiled = number + MOST_TRIES_FOR_A_SMALLER, checks.compiled + 5
        found = other or found
    status = FAILS if found else HOLDS if checks.applied else NOT_EXERCISED
    return checks.verdict(status, found)


@dataclass
class _Checks:
    """The verification of one rule under way."""

    rule: Rule
    most_compiled: int
    language: RelaxLanguage = field(default_factory=RelaxLanguage)
    tried: int = 0
    well_typed: int = 0
    applied: int = 0
    exact: int = 0
    compiled: int = 0
    met: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)

    def check(self, example: Example, number: int) -> Counterexample | None:
        """Run the rule on an example and compare; None where nothing is wrong."""
        try:
            applied = apply(example, self.language)
        except Refusal as refusal:
            self.refusals[str(refusal)[:120]] += 1
            return None
        except Exception as error:  # the rule's own code failed: so it would inside the pass
            return Counterexample(example, f"the rule raised {type(error).__name__}: {error}")
        kind = _kind(example)
        if self.met[kind] > self.tried // 20:  # rather wait for an example of another kind
            return None
        self.met[kind] += 1
        self.applied += 1
        try:
            module = both_sides(applied)
        except Exception as error:  # several kinds, all of them TVM's word against the rule's
            text = " ".join(str(error).split())[:200]
            return Counterexample(example, f"TVM finds other types than the rule: {text}")
        return self.differs_exactly(example, module, number) or self.differs_computed(
            example, applied, module, number
        )

    def differs_exactly(
        self, example: Example, module: tvm.IRModule, seed: int
    ) -> Counterexample | None:
        """Compare both sides in rational numbers."""
        static = example.with_symbols(SYMBOLS)
        values = draw_rationals(static, seed)
        try:
            sought, made, certain = evaluate_sides(apply(static, self.language), static, values)
        except Refusal:  # no rational meaning, or refused for these numbers: TVM decides alone
            return None
        if all(map(equal, sought, made)):
            self.exact += 1
            return None
        if not certain:
            return None
        arrays = [
            value.astype(np.float64).astype(numpy_dtype(operand.dtype))
            for value, operand in zip(values, tensors(static.operands), strict=True)
        ]
        return _shown(example, "the sides differ over the rational numbers", module, arrays)

    def differs_computed(
        self, example: Example, applied: Applied, module: tvm.IRModule, seed: int
    ) -> Counterexample | None:
        """Compare both sides as TVM computes them.

        Numpy computes integers in its place when the kernels allowed are built, and where there is
        a division: by zero, that would end the process in TVM's kernels, and numpy's refuse it.
        """
        exact = example.rule.keeps == EXACT
        values = inputs(example, exact and self.applied % 4 > 0, seed)
        try:
            if self.compiled < self.most_compiled and not _divides_integers(applied):
                sought, made = run(module, values)
                self.compiled += 1
            elif any(value.dtype.kind in "biu" for value in values):
                sought, made = run_by_numpy(applied, example, values)
                self.exact += 1
            else:
                return None
        except Exception:  # a kernel that TVM cannot build, or a result that it leaves open
            return None
        if not _typed_as_inferred(applied, sought):
            return None
        differ = differing_bits if exact else differing_numbers
        for left, right in zip(sought, made, strict=True):
            difference = differ(left, right)
            if difference is not None:
                return Counterexample(
                    example, difference, module, tuple(values), tuple(sought), tuple(made)
                )
        return None

    def verdict(self, status: str, found: Counterexample | None) -> Verdict:
        """Return what was found out."""
        return Verdict(
            self.rule,
            status,
            self.tried,
            self.well_typed,
            self.applied,
            self.exact,
            self.compiled,
            tuple(sorted({word for kind in self.met for word in kind.split()})),
            tuple(self.refusals.most_common()),
            found,
        )


def _kind(example: Example) -> str:
    """Return what is special about an example, in words."""
    operands = tensors(example.operands)
    words = {operand.dtype for operand in operands}
    words |= {f"rank-{max((len(operand.shape) for operand in operands), default=0)}"}
    extents = [extent for operand in operands for extent in operand.shape]
    words |= {"symbolic" for extent in extents if isinstance(extent, str)}
    words |= {"empty" for extent in extents if extent == 0}
    words |= {"unit" for extent in extents if extent == 1}
    return " ".join(sorted(words))


def _typed_as_inferred(applied: Applied, sought: list[Array]) -> bool:
    """Whether TVM's kernels gave the dtypes that it infers: of bfloat16, batch_norm is float32."""
    pending, dtypes = [applied.language.info(term.type) for term in applied.sources], []
    while pending:
        info = pending.pop(0)
        if isinstance(info, TupleInfo):
            pending = [*info.fields, *pending]
        elif isinstance(info, TensorInfo):
            dtypes.append(info.dtype)
    return dtypes == [array.dtype.name for array in sought]


def _divides_integers(applied: Applied) -> bool:
    infos = [applied.language.info(t.type) for t in terms_of(applied) if t.name in _DIVISIONS]
    return any(getattr(info, "dtype", "") not in FLOAT for info in infos)


_DIVISIONS = frozenset(
    f"relax.{n}" for n in ("divide", "floor_divide", "mod", "floor_mod", "power")
)


def _shown(
    example: Example, reason: str, module: tvm.IRModule, values: list[Array]
) -> Counterexample:
    """Return a counterexample with what TVM computes for these inputs."""
    try:
        sought, made = run(module, values)
    except Exception:  # a kernel that TVM cannot build; the rational numbers stand
        sought, made = [], []
    return Counterexample(example, reason, module, tuple(values), tuple(sought), tuple(made))
