"""Operands that make no difference, and constants in their smallest form.

Below, c is a constant of equal elements, and ∘ an elementwise operator.

    x · 1                      =   x                           product_with_one
    x / 1                      =   x                           quotient_by_one
    x + 0                      =   x                           sum_with_zero, sum_with_exact_zero
    x - 0                      =   x                           difference_with_zero
    -(-x)                      =   x                           double_negation
    x + (-y)                   =   x - y                       plus_negative
    relu(relu(x))              =   relu(x)                     relu_of_relu

    x ∘ broadcast(y)           =   x ∘ y                       broadcast_left, broadcast_right
    x ∘ [c c ... c]            =   x ∘ c                       uniform_operand
    full(c)                    =   broadcast(c)                filled, filled_with_number

Left out: x · 0 = 0 and x - x = 0, which lose NaN and infinities.
"""

from __future__ import annotations

import math

from tvm_tensat.egraph.rule import ANY, EXACT, FLOAT, INT, REAL, Rule, Term, refuse, rule
from tvm_tensat.rules.common import Apply, for_each, need_inputs
from tvm_tensat.rules.operators import (
    add,
    broadcast_to,
    divide,
    maximum,
    minimum,
    multiply,
    negative,
    operator,
    relu,
    scalar,
    subtract,
)

full = operator("relax.full")
ones = operator("relax.ones")
zeros = operator("relax.zeros")

SIGNED = ("int8", "int16", "int32", "int64")

# -- neutral elements and signs ----------------------------------------------------------------


@rule(keeps=EXACT, dtypes=FLOAT + INT)
def product_with_one(x, c):
    """A product with one is the other operand."""
    yield multiply(x, c)
    _need_value(c, 1)
    yield x


@rule(keeps=EXACT)
def quotient_by_one(x, c):
    """A quotient by one is the dividend."""
    yield divide(x, c)
    _need_value(c, 1)
    yield x


# Adding +0 turns -0 into +0, so it is no identity bit for bit.
@rule(keeps=REAL)
def sum_with_zero(x, c):
    """A sum with zero is the other operand."""
    yield add(x, c)
    _need_value(c, 0)
    yield x


@rule(keeps=EXACT, dtypes=FLOAT + INT)
def sum_with_exact_zero(x, c):
    """A sum with an integer zero or a negative zero is the other operand."""
    yield add(x, c)
    _need_value(c, 0)
    if x.dtype in FLOAT and math.copysign(1.0, c.value) > 0:
        refuse("x + (+0) turns -0 into +0")
    yield x


@rule(keeps=EXACT, dtypes=FLOAT + INT)
def difference_with_zero(x, c):
    """A difference with positive zero is the first operand."""
    yield subtract(x, c)
    _need_value(c, 0)
    if x.dtype in FLOAT and math.copysign(1.0, c.value) < 0:
        refuse("x - (-0) turns -0 into +0")
    yield x


@rule(keeps=EXACT, dtypes=FLOAT + SIGNED)
def double_negation(x):
    """The negative of the negative is the number itself."""
    yield negative(negative(x))
    yield x


@rule(keeps=EXACT)
def plus_negative(x, y):
    """To add the negative is to subtract."""
    yield add(x, negative(y))
    need_inputs(y)
    yield subtract(x, y)


@rule(keeps=EXACT, dtypes=ANY)
def relu_of_relu(x):
    """A second relu changes nothing."""
    inner = relu(x)
    yield relu(inner)
    yield inner


def _need_value(c: Term, number: int) -> None:
    if c.value != number:
        refuse(f"not {number} everywhere")


# -- broadcasting and constants ----------------------------------------------------------------

BROADCASTING = (add, subtract, multiply, divide, maximum, minimum)


def _broadcast_left(apply: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def broadcast_left(x, y):
        """An elementwise operator broadcasts its left operand by itself."""
        yield apply(broadcast_to(x), y)
        yield apply(x, y)

    return broadcast_left


def _broadcast_right(apply: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def broadcast_right(x, y):
        """An elementwise operator broadcasts its right operand by itself."""
        yield apply(x, broadcast_to(y))
        yield apply(x, y)

    return broadcast_right


def _uniform_operand(apply: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def uniform_operand(x, c):
        """A tensor of equal elements can be replaced by one element."""
        yield apply(x, c)
        if c.value is None or c.ndim == 0:
            refuse("no tensor of equal elements")
        yield apply(x, scalar(c.value, c.dtype))

    return uniform_operand


broadcast_left = for_each(BROADCASTING, _broadcast_left)
broadcast_right = for_each(BROADCASTING, _broadcast_right)
uniform_operand = for_each((add, multiply), _uniform_operand)


@rule(keeps=EXACT, dtypes=ANY)
def filled(c):
    """A tensor filled with a value is that value broadcast."""
    whole = full(c)
    yield whole
    yield broadcast_to(c, shape=whole.shape)


def _filled_with_number(fill: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def filled_with_number():
        """A tensor of zeros or ones is that number broadcast."""
        whole = fill()
        yield whole
        number = scalar(1 if fill is ones else 0, whole.dtype)
        yield broadcast_to(number, shape=whole.shape)

    return filled_with_number


filled_with_number = for_each((zeros, ones), _filled_with_number)
