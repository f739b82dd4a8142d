"""The right side of an equation: the terms that replace what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_tensat.egraph.rule import Term
from tvm_tensat.rules.operators import (
    concat,
    matmul,
    multiply,
    permute_dims,
    reshape,
    scalar,
    split,
)
from tvm_tensat.taso.arguments import ELEMENTWISE, POOLS, permutation, shape_of, split_arguments
from tvm_tensat.taso.joints import joint
from tvm_tensat.taso.operators import (
    activated,
    averaging_kernel,
    convolve,
    enlarged,
    identity_kernel,
    merged,
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
        numbers, arguments = split_arguments(expression)
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
            return permute_dims(terms[0], axes=permutation(numbers))
        if name == "reshape":
            return reshape(terms[0], shape=shape_of(numbers[0]))
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
        numbers, arguments = split_arguments(expression)
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
