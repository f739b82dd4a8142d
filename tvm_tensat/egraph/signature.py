"""Running a rule on one signature: the operators matched and the profiles of the variables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tvm_tensat.egraph.language import Language, Refusal, TensorInfo
from tvm_tensat.egraph.rule import VARIABLE, Profile, Rule, Term, building, preorder, refuse


def bind_sources(
    language: Language, sources: Sequence[Term], operators: Sequence[int], dtypes: tuple[str, ...]
) -> None:
    """Give the sought terms, whose variables are bound, the operators that were matched."""
    at = 0
    for source in sources:
        terms = preorder(source)
        for term, operator in zip(terms, operators[at : at + len(terms)], strict=True):
            term.operator, term.language = operator, language
        at += len(terms)
        for term in reversed(terms):
            types = tuple(operand.type for operand in term.operands)
            term.type = language.result_type(term.operator, types)
        info = language.info(source.type)
        if dtypes and isinstance(info, TensorInfo) and info.dtype not in dtypes:
            refuse(f"dtype {info.dtype}")


def targets(
    rule: Rule, language: Language, operators: Sequence[int], profiles: Sequence[Profile]
) -> tuple[list[Term], list[Term], list[Term]]:
    """Run a rule on one signature.

    Parameters
    ----------
    rule : Rule
    language : Language
    operators : sequence of int
        Of the operator terms of each source, in `preorder`; for a group, source after source.
    profiles : sequence of Profile
        Of the variables; for a group, of the shared one and then of each member's others.

    Returns
    -------
    variables, sources, targets : list of Term
        ``targets[i]`` replaces ``sources[i]``; both are made of `variables`.

    Raises
    ------
    Refusal
    """
    first = [Term(VARIABLE) for _ in rule.variables]
    run = rule.body(*first)
    sought = next(run)
    if rule.kind == "group":
        count = len(operators) // len(preorder(sought))
        variables, sources = _members(first, sought, count)
    else:
        variables = first
        sources = list(sought) if isinstance(sought, (tuple, list)) else [sought]
    for variable, profile in zip(variables, profiles, strict=True):
        variable.bind(language, -1, profile.type)
        variable.profile = profile
    bind_sources(language, sources, operators, rule.dtypes)
    building.append(language)
    try:
        made = run.send(sources if rule.kind == "group" else None)
    except StopIteration:
        raise TypeError(f"rule {rule.name} ({rule.origin}) ends without a second yield") from None
    finally:
        building.pop()
        run.close()
    results = list(made) if isinstance(made, (tuple, list)) else [made]
    if len(results) != len(sources):
        raise TypeError(
            f"rule {rule.name} ({rule.origin}) seeks {len(sources)} terms and gives {len(results)}"
        )
    for source, target in zip(sources, results, strict=True):
        if source.type != target.type:
            refuse(
                f"type {language.info(target.type)} where {language.info(source.type)} is needed"
            )
    return list(variables), list(sources), results


def likeness(
    rule: Rule, language: Language, operators: Sequence[int], profiles: Sequence[Profile]
) -> Hashable | None:
    """Return what one member of a group has in common with others, or None if it can be in none."""
    assert rule.alike is not None, "only group rules form groups"
    first = [Term(VARIABLE) for _ in rule.variables]
    sought: Term = next(rule.body(*first))
    for variable, profile in zip(first, profiles, strict=True):
        variable.bind(language, -1, profile.type)
        variable.profile = profile
    try:
        bind_sources(language, [sought], operators, rule.dtypes)
        return operators[0], rule.alike(sought)
    except Refusal:
        return None


def _members(first: list[Term], sought: Term, count: int) -> tuple[list[Term], list[Term]]:
    """Copy the sought term for each member of a group, sharing only the first variable."""
    variables, members = [first[0]], []
    for _ in range(count):
        fresh = {id(first[0]): first[0]}
        for variable in first[1:]:
            fresh[id(variable)] = Term(VARIABLE)
            variables.append(fresh[id(variable)])
        members.append(_copy(sought, fresh))
    return variables, members


def _copy(term: Term, variables: dict[int, Term]) -> Term:
    if term.is_variable:
        return variables[id(term)]
    return Term(term.name, [_copy(operand, variables) for operand in term.operands], term.given)
