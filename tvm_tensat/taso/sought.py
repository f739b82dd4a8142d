"""The left side of an equation: terms to search for, and what must hold of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_tensat.egraph.language import Refusal
from tvm_tensat.egraph.rule import Term, refuse
from tvm_tensat.rules.operators import (
    concat,
    conv2d,
    matmul,
    multiply,
    pad,
    permute_dims,
    reshape,
    split,
)
from tvm_tensat.taso.arguments import ELEMENTWISE, POOLS, permutation, shape_of, split_arguments
from tvm_tensat.taso.joints import joint
from tvm_tensat.taso.operators import (
    NCHW,
    activated,
    need_one_dtype,
    need_one_rank,
    need_one_shape,
    need_rank,
    padding,
)
from tvm_tensat.taso.syntax import (
    Apply,
    Expression,
    Variable,
)


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
        numbers, arguments = split_arguments(expression)
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
            return permute_dims(terms[0], axes=permutation(numbers))
        if name == "reshape":
            return reshape(terms[0], shape=shape_of(numbers[0]))
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
