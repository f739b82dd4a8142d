"""The text format of TENSAT's rules: lines ``(op ...)=>(op ...)``.

An expression is a variable (``?x``), a number, a word, or an operator with its arguments in
brackets. Empty lines and lines that begin with ``#`` mean nothing.

Equations of a multi-pattern rule stand on consecutive lines, one for each output. They are told
from single rules by their variables: of ``(matmul 0 ?x ?a)=>(split_0 (split 1 (matmul 0 ?x (concat
1 2 ?a ?b))))`` the variable ``?b`` stands on the right only, so the line needs the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias


class RuleFileError(ValueError):
    """A file is no list of rules: where, and what was expected there."""


@dataclass(frozen=True)
class Apply:
    """An operator and its arguments; `column` counts from 1."""

    name: str
    arguments: tuple[Expression, ...]
    column: int

    def __str__(self) -> str:
        return f"({' '.join([self.name, *map(str, self.arguments)])})"


@dataclass(frozen=True)
class Variable:
    """Any tensor."""

    name: str

    def __str__(self) -> str:
        return f"?{self.name}"


Expression: TypeAlias = "Apply | Variable | int | str"


@dataclass(frozen=True)
class Equation:
    """One line: what is sought and what replaces it."""

    line: int
    text: str
    left: Expression
    right: Expression


def read_equations(path: Path) -> list[Equation]:
    """Read the lines of a file.

    Raises
    ------
    RuleFileError
        With line, column and reason; also when the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuleFileError(f"{path}: cannot be read as text: {error}") from error
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            parser = _Parser(f"{path}:{number}", line)
            left = parser.expression()
            parser.take("=>")
            right = parser.expression()
            parser.take("end")
            found.append(Equation(number, line.strip(), left, right))
    return found


def grouped(equations: list[Equation]) -> list[list[Equation]]:
    """Put the equations of each rule together: one, or the two of a multi-pattern."""
    found = []
    waiting = list(reversed(equations))
    while waiting:
        group = [waiting.pop()]
        if waiting and not closed(group) and closed([group[0], waiting[-1]]):
            group.append(waiting.pop())
        found.append(group)
    return found


def closed(equations: list[Equation]) -> bool:
    """Whether every variable on the right is found on the left."""
    left = {v for equation in equations for v in variables(equation.left)}
    return all(v in left for equation in equations for v in variables(equation.right))


def variables(expression: Expression) -> list[str]:
    """Return the names of variables, in order of first occurrence."""
    if isinstance(expression, Variable):
        return [expression.name]
    if not isinstance(expression, Apply):
        return []
    inner = [name for argument in expression.arguments for name in variables(argument)]
    return list(dict.fromkeys(inner))


_TOKENS = re.compile(r"\s*(?:(=>)|([()])|\?([A-Za-z_]\w*)|(-?\d+)(?![\w])|(\w+))")


class _Parser:
    """Reads one line from left to right."""

    def __init__(self, where: str, line: str) -> None:
        self.where = where
        self.line = line
        self.tokens = list(self._split())
        self.at = 0

    def _split(self) -> Iterator[tuple[str, str, int]]:
        """Yield kind, text and column of each token, "end" at last."""
        place = 0
        while self.line[place:].strip():
            match = _TOKENS.match(self.line, place)
            if match is None:
                column = place + len(self.line[place:]) - len(self.line[place:].lstrip()) + 1
                raise self._error(column, f"unexpected {self.line[column - 1]!r}")
            arrow, bracket, variable, number, word = match.groups()
            kind = arrow or bracket or ("variable" if variable else "number" if number else "word")
            text = arrow or bracket or variable or number or word
            yield kind, text, match.end() - len(match.group().lstrip()) + 1
            place = match.end()
        yield "end", "the end of the line", len(self.line.rstrip()) + 1

    def _error(self, column: int, reason: str) -> RuleFileError:
        return RuleFileError(f"{self.where}:{column}: {reason}")

    def take(self, kind: str) -> str:
        """Take the next token, which must be of this kind."""
        found, text, column = self.tokens[self.at]
        if found != kind:
            wanted = {"end": "the end of the line", "word": "an operator"}.get(kind, repr(kind))
            raise self._error(column, f"expected {wanted}, found {text}")
        self.at += 1
        return text

    def expression(self) -> Expression:
        """Take an expression."""
        kind, text, column = self.tokens[self.at]
        if kind == "(":
            self.at += 1
            name = self.take("word")
            arguments = []
            while self.tokens[self.at][0] not in (")", "=>", "end"):
                arguments.append(self.expression())
            self.take(")")
            return Apply(name, tuple(arguments), column)
        self.at += 1
        if kind == "variable":
            return Variable(text)
        if kind == "number":
            return int(text)
        if kind != "word":
            raise self._error(column, f"expected an expression, found {text}")
        return text
