"""Soundness of rules: examples drawn from their patterns, both sides compared.

`verify`
    Look for an example on which a rule is wrong; the `Verdict` has a runnable counterexample.
`Example`, `apply`, `refusal`
    One example, by hand.
"""

from __future__ import annotations

from tvm_tensat.verify.check import verify
from tvm_tensat.verify.example import Example, Operand, apply, constant, refusal, tensor, weight
from tvm_tensat.verify.verdict import FAILS, HOLDS, NOT_EXERCISED, Counterexample, Verdict, summary

__all__ = [
    "FAILS",
    "HOLDS",
    "NOT_EXERCISED",
    "Counterexample",
    "Example",
    "Operand",
    "Verdict",
    "apply",
    "constant",
    "refusal",
    "summary",
    "tensor",
    "verify",
    "weight",
]
