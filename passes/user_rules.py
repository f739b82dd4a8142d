"""The rules of a run: the package's, the user's own, and those of a file in TENSAT's format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm_tensat.egraph.rule import EXACT, Rule
from tvm_tensat.passes.phases import Phases
from tvm_tensat.passes.report import Report
from tvm_tensat.rules import all_rules
from tvm_tensat.taso import read_rules, sound_rules


class UserRules:
    """Rules beside the package's own.

    Parameters
    ----------
    extra : sequence of Rule
    path : Path or None
        A file of rules in TENSAT's text format.

    Raises
    ------
    TypeError, ValueError
        When one of `extra` is no rule, or has the name of another.
    RuleFileError
        A ValueError: the file does not parse.
    """

    def __init__(self, extra: Sequence[Rule], path: Path | None) -> None:
        self.extra = tuple(extra)
        _check_names(self.extra)
        self.file = None if path is None else read_rules(path)

    def all(self, numerics: str, report: Report, phases: Phases) -> tuple[Rule, ...]:
        """Return all rules that the numerics admit; the report says which were left out and why."""
        exact = numerics == "exact"
        for each in self.extra:
            if exact and each.keeps != EXACT:
                report.reasons.append(f"rule {each.name} was not used: it is not exact")
        extra = tuple(each for each in self.extra if each.keeps == EXACT or not exact)
        return (*all_rules(numerics), *extra, *self._of_file(exact, report, phases))

    def _of_file(self, exact: bool, report: Report, phases: Phases) -> tuple[Rule, ...]:
        """Return the rules of the file that verification finds nothing wrong with."""
        if self.file is None:
            return ()
        if exact:  # all rules of such files are equal over the reals
            report.reasons.append(f"rules of {self.file.path}: none used, numerics is 'exact'")
            return ()
        count = len(self.file.rules)
        with phases("verify rules"), phases.bar("verifying rules", count) as show:
            sound = sound_rules(self.file, show)
        report.reasons.extend(sound.lines())
        return sound.rules


def _check_names(rules: Sequence[Rule]) -> None:
    """Raise where extra rules are no rules, or could not be told apart in the report."""
    taken = {rule.name for rule in all_rules("real")}
    for each in rules:
        if not isinstance(each, Rule):
            raise TypeError(
                f"extra_rules holds {each!r}; expected rules as @rule, @multi_rule and @group_rule "
                "make them"
            )
        if each.name in taken:
            raise ValueError(
                f"there is a rule {each.name!r} already: give {each.origin} another name"
            )
        taken.add(each.name)
