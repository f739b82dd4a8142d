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

from tvm_tensat.egraph.language import Refusal
from tvm_tensat.egraph.rule import REAL, Rule, Term, multi_rule, refuse, rule
from tvm_tensat.rules.operators import (
    add,
    avg_pool2d,
    concat,
    conv2d,
    matmul,
    max_pool2d,
    multiply,
    pad,
    permute_dims,
    relu,
    reshape,
    scalar,
    sigmoid,
    split,
    tanh,
)
from tvm_tensat.taso.joints import joint
from tvm_tensat.taso.operators import (
    NCHW,
    NoMeaning,
    activated,
    averaging_kernel,
    convolve,
    enlarged,
    identity_kernel,
    merged,
    need_one_dtype,
    need_one_rank,
    need_one_shape,
    need_rank,
    padding,
)
from tvm_tensat.taso.signature import check_equation, signature_of
from tvm_tensat.taso.syntax import (
    Apply,
    Equation,
    Expression,
    Variable,
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


def _split_arguments(expression: Apply) -> tuple[list[Any], list[Expression]]:
    """Return the numbers and words of an operator, and its tensors."""
    letters = signature_of(expression)
    pairs = list(zip(letters, expression.arguments, strict=True))
    return (
        [argument for letter, argument in pairs if letter not in "ts"],
        [argument for letter, argument in pairs if letter in "ts"],
    )


def _permutation(numbers: Sequence[Any]) -> tuple[int, ...]:
    return _shape(numbers[0]) if numbers else (1, 0)


def _shape(word: object) -> tuple[int, ...]:
    return tuple(int(part) for part in str(word).split("_"))


ELEMENTWISE = {"ewadd": add, "ewmul": multiply, "relu": relu, "tanh": tanh, "sigmoid": sigmoid}
POOLS = {"poolmax": max_pool2d, "poolavg": avg_pool2d}


class Sought:
    """Makes the terms to search for.

    Attributes
    ----------
    checks : list of callable
        To be called when types are known; they refuse what is not as TASO has it.
    grouped : bool
        Whether convolutions may have several groups: where the rule merges groups.
    joints : dict of (int, int) to int
        Where terms are split along an axis, by identity and axis; filled by the checks.
    """

    def __init__(self, bound: dict[str, Term], constants: list[Term], grouped: bool) -> None:
        self.bound = bound
        self.constants = constants
        self.grouped = grouped
        self.checks: list[Callable[[], None]] = []
        self.joints: dict[tuple[int, int], int] = {}

    def term(self, expression: Expression) -> Term:
        """Return the term that stands for an expression."""
        if isinstance(expression, Variable):
            return self.bound[expression.name]
        if not isinstance(expression, Apply):
            return self._constant(lambda value, shape: value == 1)
        name = expression.name
        if name == "Cpool":
            rows, columns = (int(str(argument)) for argument in expression.arguments)
            return self._constant(
                lambda value, shape: (
                    shape[1:] == (1, rows, columns)
                    and value is not None
                    and abs(value * rows * columns - 1) < 1e-6
                )
            )
        numbers, arguments = _split_arguments(expression)
        return self._operator(name, numbers, [self.term(argument) for argument in arguments])

    def _constant(self, is_meant: Callable[[Any, tuple[Any, ...]], bool]) -> Term:
        term = self.constants.pop(0)

        def check() -> None:
            if not is_meant(term.value, term.shape):
                refuse("another constant")

        self.checks.append(check)
        return term

    def _operator(self, name: str, numbers: list[Any], terms: list[Term]) -> Term:
        if name in ELEMENTWISE:
            self.checks.append(lambda: need_one_shape(*terms))
            return ELEMENTWISE[name](*terms)
        if name == "smul":
            self.checks.append(lambda: need_rank(terms[1], 0))
            return multiply(*terms)
        if name == "matmul":
            product = matmul(*terms)
            self.checks.append(lambda: need_one_rank(product))
            return activated(numbers[0], product)
        if name == "conv2d":
            return self._conv2d(numbers, *terms)
        if name in POOLS:
            return self._pool(POOLS[name], numbers, *terms)
        if name.startswith("concat"):
            joined = concat(*terms, axis=numbers[0])
            self.checks.append(lambda: need_rank(joined, numbers[1]))
            return joined
        if name == "split":
            return self._split(numbers[0], terms[0])
        if name in ("split_0", "split_1"):
            return terms[0][int(name[-1])]
        if name == "transpose":
            return permute_dims(terms[0], axes=_permutation(numbers))
        if name == "reshape":
            return reshape(terms[0], shape=_shape(numbers[0]))
        assert name == "enlarge", name
        return self._enlarge(numbers, terms)

    def _conv2d(self, numbers: list[int], image: Term, kernel: Term) -> Term:
        rows, columns, mode, act = numbers
        conv = conv2d(image, kernel, strides=(rows, columns), **NCHW)

        def check() -> None:
            need_one_dtype(conv)
            if conv.groups > 1 and not self.grouped and not conv.operands[1].value:
                refuse("grouped convolution")  # TASO's laws were verified for one group
            window = kernel.sizes[2], kernel.sizes[3]
            if conv.padding != padding(mode, image, window, (rows, columns)):
                refuse("another padding")

        self.checks.append(check)
        return activated(act, conv)

    def _pool(self, apply: Callable[..., Term], numbers: list[int], image: Term) -> Term:
        window, strides, mode = (numbers[0], numbers[1]), (numbers[2], numbers[3]), numbers[4]
        pool = apply(image, pool_size=window, strides=strides, layout="NCHW", out_layout="NCHW")

        def check() -> None:
            if pool.padding != padding(mode, image, window, strides):
                refuse("another padding")
            if pool.dilation != (1, 1) or pool.ceil_mode or pool.count_include_pad:
                refuse("dilated, rounded up, or padding is counted")

        self.checks.append(check)
        return activated(numbers[5] if len(numbers) > 5 else 0, pool)

    def _split(self, axis: int, whole: Term) -> Term:
        parts = split(whole, axis=axis)

        def check() -> None:
            if parts.fields != 2:
                refuse("not split in two")
            (place,) = parts.indices_or_sections
            try:
                expected = joint(whole, axis, self.joints)
            except Refusal:
                self.joints[id(whole), axis] = place
                return
            if place != expected:
                refuse("split elsewhere than where the parts meet")

        self.checks.append(check)
        return parts

    def _enlarge(self, numbers: list[int], terms: list[Term]) -> Term:
        padded = pad(terms[0], pad_mode="constant", pad_value=0.0)

        def check() -> None:
            window = numbers or terms[1].sizes[2:]
            need_rank(padded, 4)
            sizes = terms[0].sizes
            widths = [0, 0, 0, 0]
            for size, wanted in zip(sizes[2:], window, strict=True):
                widths += [(wanted - size) // 2] * 2
            if padded.sizes[2:] != tuple(window) or list(padded.pad_width) != widths:
                refuse("not padded evenly to that window")

        self.checks.append(check)
        return padded


class Built:
    """Makes the targets; each expression once."""

    def __init__(self, bound: dict[str, Term], joints: dict[tuple[int, int], int]) -> None:
        self.bound = bound
        self.joints = joints
        self.made: dict[str, Term] = {}

    def term(self, expression: Expression) -> Term:
        """Return the term that stands for an expression."""
        if isinstance(expression, Variable):
            return self.bound[expression.name]
        key = str(expression)
        if key not in self.made:
            assert isinstance(expression, Apply), "constants are made where they are used"
            self.made[key] = self._apply(expression)
        return self.made[key]

    def _apply(self, expression: Apply) -> Term:
        name = expression.name
        numbers, arguments = _split_arguments(expression)
        if name == "ewmul" and "Iewmul" in arguments:
            return self._times_one(arguments)
        if name == "conv2d":
            return self._conv2d(numbers, *arguments)
        terms = [self.term(argument) for argument in arguments]
        if name in ELEMENTWISE:
            need_one_shape(*terms)
            return ELEMENTWISE[name](*terms)
        if name == "smul":
            need_rank(terms[1], 0)
            return multiply(*terms)
        if name == "matmul":
            product = matmul(*terms)
            need_one_rank(product)
            return activated(numbers[0], product)
        if name in POOLS:
            return self._pool(POOLS[name], numbers, terms[0])
        if name.startswith("concat"):
            joined = concat(*terms, axis=numbers[0])
            need_rank(joined, numbers[1])
            return joined
        if name == "split":
            place = joint(terms[0], numbers[0], self.joints)
            return split(terms[0], indices_or_sections=[place], axis=numbers[0])
        if name in ("split_0", "split_1"):
            return terms[0][int(name[-1])]
        if name == "transpose":
            return permute_dims(terms[0], axes=_permutation(numbers))
        if name == "reshape":
            return reshape(terms[0], shape=_shape(numbers[0]))
        assert name == "enlarge", name
        return enlarged(terms[0], numbers or terms[1].sizes[2:])

    def _times_one(self, arguments: Sequence[Expression]) -> Term:
        (other,) = [argument for argument in arguments if argument != "Iewmul"]
        term = self.term(other)
        return multiply(term, scalar(1.0, term.dtype))

    def _conv2d(self, numbers: list[int], *arguments: Expression) -> Term:
        rows, columns, mode, act = numbers
        image = self.term(arguments[0])
        need_rank(image, 4)
        kernel = self._kernel(image, arguments[1])
        return activated(act, convolve((rows, columns), mode, image, kernel))

    def _kernel(self, image: Term, expression: Expression) -> Term:
        if not isinstance(expression, Apply) or expression.name not in ("merge", "Cpool", "Iconv"):
            return self.term(expression)
        numbers, arguments = _split_arguments(expression)
        if expression.name == "merge":
            kernel = self.term(arguments[0])
            return merged(kernel, numbers[0], image.sizes[1] // kernel.sizes[1])
        make = averaging_kernel if expression.name == "Cpool" else identity_kernel
        return make(image, (numbers[0], numbers[1]))

    def _pool(self, apply: Callable[..., Term], numbers: list[int], image: Term) -> Term:
        need_rank(image, 4)
        window, strides = (numbers[0], numbers[1]), (numbers[2], numbers[3])
        pads = padding(numbers[4], image, window, strides)
        pool = apply(image, pool_size=window, strides=strides, padding=pads, layout="NCHW")
        return activated(numbers[5] if len(numbers) > 5 else 0, pool)
