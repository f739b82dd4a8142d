"""Rewrite rules, one family a file.

Every module of this folder that declares rules is a family. It declares each rule at its top level,
alone or in a tuple of rules that one function makes.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from tvm_tensat.egraph.rule import EXACT, Rule

__all__ = ["all_rules", "families", "rules_of"]

NUMERICS = ("real", "exact")


@cache
def families() -> dict[str, tuple[Rule, ...]]:
    """Return the rules by family, families in alphabetical order, rules in order of definition."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    found = {n: rules_of(importlib.import_module(f"{__name__}.{n}")) for n in names}
    return {name: rules for name, rules in found.items() if rules}


def rules_of(module: ModuleType) -> tuple[Rule, ...]:
    """Return the rules that a module has at its top level, alone or in tuples."""
    found: list[Rule] = []
    for name, value in vars(module).items():
        if isinstance(value, Rule) and not name.startswith("_"):
            found.append(value)
        elif isinstance(value, tuple) and value and all(isinstance(v, Rule) for v in value):
            found += [rule for rule in value if rule not in found]
    return tuple(found)


def all_rules(numerics: str = "real") -> tuple[Rule, ...]:
    """Return every rule, in an order that does not change from run to run.

    Parameters
    ----------
    numerics : str
        ``"real"`` for all rules; ``"exact"`` for those that keep the floating-point operations
        behind each output element.
    """
    if numerics not in NUMERICS:
        raise ValueError(f"numerics is {numerics!r}; it must be one of {', '.join(NUMERICS)}")
    rules = tuple(rule for family in families().values() for rule in family)
    return rules if numerics == "real" else tuple(r for r in rules if r.keeps == EXACT)
