"""Equations over TASO's operators as rules over Relax.

There are two walks over an expression: `Sought` makes the terms to search for and notes what must
hold of them once types are known, `Built` makes the targets. All rules are `REAL`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

from tvm_tensat.egraph.rule import REAL, Rule, Term, multi_rule, rule
from tvm_tensat.taso.built import Built
from tvm_tensat.taso.operators import (
    NoMeaning,
)
from tvm_tensat.taso.signature import check_equation
from tvm_tensat.taso.sought import Sought
from tvm_tensat.taso.syntax import (
    Apply,
    Equation,
    Expression,
    closed,
    grouped,
    read_equations,
    variables,
)
from tvm_tensat.verify import HOLDS, verify

# Of each rule of a file before it is used; simple ones take 0.2 s, convolutions up to the limit.
EXAMPLES, SECONDS = 40, 1.0


@dataclass(frozen=True)
class RuleFile:
    """Rules read from a file.

    Attributes
    ----------
    path : Path
    rules : tuple of Rule
        Named ``FILE:LINE``.
    refused : tuple of (int, str)
        Lines that are no rules here, with the reasons.
    """

    path: Path
    rules: tuple[Rule, ...]
    refused: tuple[tuple[int, str], ...]

    def lines(self) -> list[str]:
        """Return what became of the file, in lines for a report."""
        read = f"rules of {self.path}: {len(self.rules)} used, {len(self.refused)} refused"
        return [read, *(f"{self.path}:{line}: {reason}" for line, reason in self.refused)]


def read_rules(path: Path) -> RuleFile:
    """Read rules in TENSAT's text format.

    Raises
    ------
    RuleFileError
        When the file does not parse: path, line, column and reason.
    """
    rules, refused = [], []
    for equations in grouped(read_equations(path)):
        made = _rule_or_reason(path, equations)
        if isinstance(made, Rule):
            rules.append(made)
        else:
            refused.append((equations[0].line, made))
    return RuleFile(path, tuple(rules), tuple(refused))


def sound_rules(file: RuleFile, progress: Callable[[int], None] = lambda done: None) -> RuleFile:
    """Verify each rule on some examples in rational numbers; refuse those that do not hold.

    Parameters
    ----------
    file : RuleFile
    progress : callable
        Told after each rule how many are done.
    """
    rules, refused = [], list(file.refused)
    for done, law in enumerate(file.rules, start=1):
        verdict = verify(law, EXAMPLES, compiled=0, seconds=SECONDS)
        if verdict.status == HOLDS:
            rules.append(law)
        else:
            line = int(law.origin.rpartition(":")[2])
            found = verdict.counterexample
            reason = "no example was found" if found is None else f"wrong: {found.reason}"
            refused.append((line, f"{reason}; `tvmc rules verify {file.path}` says more"))
        progress(done)
    return RuleFile(file.path, tuple(rules), tuple(sorted(refused)))


def _rule_or_reason(path: Path, equations: Sequence[Equation]) -> Rule | str:
    try:
        return _rule(path, equations)
    except NoMeaning as reason:
        return str(reason)


def _rule(path: Path, equations: Sequence[Equation]) -> Rule:
    for equation in equations:
        check_equation(equation)
    if not closed(list(equations)):
        known = {v for equation in equations for v in variables(equation.left)}
        free = [v for equation in equations for v in variables(equation.right) if v not in known]
        raise NoMeaning(f"?{free[0]} stands on the right side only")
    declare = (rule if len(equations) == 1 else multi_rule)(keeps=REAL)
    name = f"{path.name}:{equations[0].line}"
    law = "; ".join(equation.text for equation in equations)
    origin = f"{path}:{equations[0].line}"
    return replace(declare(_body(equations)), name=name, law=law, origin=origin)


def _body(equations: Sequence[Equation]) -> Callable[..., Generator[Any, Any, None]]:
    names = list(dict.fromkeys(v for e in equations for v in variables(e.left)))
    constants = [c for e in equations for c in _constants(e.left)]
    grouped_sources = any(_mentions(e.right, "merge") for e in equations)

    def body(*terms: Term) -> Generator[Any, Any, None]:
        bound = dict(zip(names, terms, strict=False))
        sought = Sought(bound, list(terms[len(names) :]), grouped_sources)
        sources = [sought.term(equation.left) for equation in equations]
        yield sources if len(sources) > 1 else sources[0]
        for check in sought.checks:
            check()
        built = Built(bound, sought.joints)
        targets = [built.term(equation.right) for equation in equations]
        yield targets if len(targets) > 1 else targets[0]

    count = len(names) + len(constants)
    parameters = [Parameter(f"x{k}", Parameter.POSITIONAL_ONLY) for k in range(count)]
    body.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return body


def _constants(expression: Expression) -> list[Expression]:
    """Return the constants of a left side, each of which is a variable with a known value."""
    if not isinstance(expression, Apply):
        return [expression] if expression == "Iewmul" else []
    if expression.name == "Cpool":
        return [expression]
    return [c for argument in expression.arguments for c in _constants(argument)]


def _mentions(expression: Expression, name: str) -> bool:
    if not isinstance(expression, Apply):
        return False
    return expression.name == name or any(_mentions(a, name) for a in expression.arguments)
