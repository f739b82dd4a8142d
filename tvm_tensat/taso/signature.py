"""Which arguments TASO's operators take, checked before a rule is made of an equation."""

from __future__ import annotations

from tvm_tensat.taso.operators import ACTIVATIONS, SAME, VALID, NoMeaning
from tvm_tensat.taso.syntax import Apply, Equation, Expression, Variable

SIGNATURES: dict[str, tuple[str, ...]] = {
    "ewadd": ("tt",),
    "ewmul": ("tt",),
    "smul": ("tt",),
    "relu": ("t",),
    "tanh": ("t",),
    "sigmoid": ("t",),
    "matmul": ("att",),
    "conv2d": ("kkpatt",),
    "poolmax": ("tkkkkpa", "kkkkpt"),
    "poolavg": ("tkkkkpa", "kkkkpt"),
    "concat": ("nktt",),
    "concat3": ("nkttt",),
    "concat4": ("nktttt",),
    "concat5": ("nkttttt",),
    "split": ("nt",),
    "split_0": ("s",),
    "split_1": ("s",),
    "transpose": ("t", "twn"),
    "reshape": ("tw",),
    "enlarge": ("tt", "kkt"),
    "merge": ("tk",),
    "Cpool": ("kk",),
    "Iconv": ("kk",),
}
"""For each operator what arguments it takes, a letter each; see `_LETTERS`."""

_LETTERS = {
    "t": "a tensor",
    "s": "a split",
    "n": "a number from 0",
    "k": "a number from 1",
    "p": "a padding mode",
    "a": "an activation mode",
    "w": "a word",
}

LEAVES = ("Iewmul",)
KERNELS = ("merge", "Cpool", "Iconv")  # mean something only as the kernel of a convolution
NOT_SOUGHT = {
    "merge": "a kernel merged is several operators in Relax",
    "Iconv": "whether a constant is an identity kernel cannot be asked",
}


def check_equation(equation: Equation) -> None:
    """Check both sides of an equation.

    Raises
    ------
    NoMeaning
    """
    if not isinstance(equation.left, Apply):
        raise NoMeaning(f"the left side, {equation.left}, would match everything")
    if equation.left.name == "split":
        raise NoMeaning("a split is no tensor")
    for side, sought in ((equation.left, True), (equation.right, False)):
        _check(side, "t", sought, parent="")


def _check(expression: Expression, letter: str, sought: bool, parent: str) -> None:
    """Check that an expression is what its place, a letter of `_LETTERS`, asks for."""
    if not _fits(expression, letter):
        raise NoMeaning(f"{parent or 'the equation'}: {expression} is not {_LETTERS[letter]}")
    if not isinstance(expression, Apply):
        return
    name, arguments = expression.name, expression.arguments
    if name in KERNELS and parent != "conv2d":
        raise NoMeaning(f"{name} has a meaning only as the kernel of a conv2d")
    if sought and name in NOT_SOUGHT:
        raise NoMeaning(f"{name} on the left side: {NOT_SOUGHT[name]}")
    signature = signature_of(expression)
    for argument, wanted in zip(arguments, signature, strict=True):
        _check(argument, wanted, sought, name)
    if name.startswith("concat") and not _number(arguments[0]) < _number(arguments[1]):
        raise NoMeaning(f"{name}: there is no axis {arguments[0]} in {arguments[1]} dimensions")


def signature_of(expression: Apply) -> str:
    """Return what arguments an operator takes when it takes so many.

    Raises
    ------
    NoMeaning
    """
    name, count = expression.name, len(expression.arguments)
    if name not in SIGNATURES:
        raise NoMeaning(f"operator {name} has no meaning in Relax here")
    for signature in SIGNATURES[name]:
        if len(signature) == count:
            return signature
    ways = " or ".join(
        ", ".join(_LETTERS[letter] for letter in signature) for signature in SIGNATURES[name]
    )
    raise NoMeaning(f"{name} takes {ways}, not {count} arguments")


def _fits(expression: Expression, letter: str) -> bool:
    if letter in "nkpa":
        values = {"p": (SAME, VALID), "a": tuple(ACTIVATIONS)}
        least = 1 if letter == "k" else 0
        number = expression if isinstance(expression, int) else -1
        return number in values[letter] if letter in values else number >= least
    if letter == "w":
        return all(part.isdecimal() for part in str(expression).split("_"))
    if letter == "s":
        return isinstance(expression, Apply) and expression.name == "split"
    if isinstance(expression, Apply):
        return expression.name != "split"
    return isinstance(expression, Variable) or expression in LEAVES


def _number(expression: Expression) -> int:
    return expression if isinstance(expression, int) else 0
