"""Activation functions, recognized from the arithmetic that exporters write for them.

    x·(erf(x/√2) + 1)·½                        =  gelu(x)         gelu_written_out
    x·(tanh(√(2/π)·(x + 0.044715·x³)) + 1)·½   =  gelu_tanh(x)    gelu_tanh_written_out, fast_...
    x³                                         =  (x·x)·x         power_of_three
    1/(1 + exp(-x))                            =  sigmoid(x)      sigmoid_written_out
    x/(1 + exp(-x))                            =  silu(x)         silu_written_out
    max(x, 0)                                  =  relu(x)         relu_written_out
    max(x, a·x), 0 < a ≤ 1                     =  leakyrelu(x)    leakyrelu_as_maximum
    x where x > 0, else a·x                    =  leakyrelu(x)    leakyrelu_as_choice

The ½ stands first, last, or beside the sum; √2 divides or its reciprocal multiplies; the cube is
scaled with x or by itself (ONNX's FastGelu). Weights stand on the right, where `elementwise` puts
them. A constant counts as one of these numbers when it is what its dtype makes of it.

Good for: one operator that moves past concatenations, splits and changes of shape as relu does,
where eight would have to move one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

from tvm_tensat.egraph.rule import EXACT, REAL, Rule, Term, refuse, rule
from tvm_tensat.rules.operators import (
    add,
    divide,
    erf,
    exp,
    gelu,
    gelu_tanh,
    greater,
    leakyrelu,
    maximum,
    multiply,
    negative,
    power,
    relu,
    sigmoid,
    silu,
    tanh,
    where,
)

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def need_about(c: Term, number: float) -> None:
    """Refuse unless a constant is this number, up to rounding to its dtype."""
    if c.value is None or abs(c.value - number) > EPSILON.get(c.dtype, 0.0) * abs(number):
        refuse(f"not {number:g}")


# -- gelu --------------------------------------------------------------------------------------

Gate = Callable[[Term, Term, Term], Term]


def _half_first(x: Term, one_more: Term, half: Term) -> Term:
    return multiply(multiply(x, half), one_more)


def _half_last(x: Term, one_more: Term, half: Term) -> Term:
    return multiply(multiply(x, one_more), half)


def _half_inside(x: Term, one_more: Term, half: Term) -> Term:
    return multiply(x, multiply(one_more, half))


GATES: tuple[Gate, ...] = (_half_first, _half_last, _half_inside)


def _gelu_written_out(gate: Gate, scale: Callable[..., Term]) -> Rule:
    @rule(keeps=REAL)
    def gelu_written_out(x, c, one, half):
        """Half of x times one more than erf of x over the root of two is gelu."""
        yield gate(x, add(erf(scale(x, c)), one), half)
        need_about(c, math.sqrt(0.5) if scale is multiply else math.sqrt(2.0))
        need_about(one, 1.0)
        need_about(half, 0.5)
        yield gelu(x)

    name = f"gelu_written_out[{gate.__name__[1:]},{scale.__name__}]"
    return replace(gelu_written_out, name=name)


def _gelu_tanh_written_out(gate: Gate) -> Rule:
    @rule(keeps=REAL)
    def gelu_tanh_written_out(x, inner, outer, one, half):
        """Half of x times one more than tanh of a scaled cubic polynomial is gelu by tanh."""
        cubic = add(x, multiply(multiply(multiply(x, x), x), inner))
        yield gate(x, add(tanh(multiply(cubic, outer)), one), half)
        need_about(inner, 0.044715)
        need_about(outer, math.sqrt(2 / math.pi))
        need_about(one, 1.0)
        need_about(half, 0.5)
        yield gelu_tanh(x)

    return replace(gelu_tanh_written_out, name=f"gelu_tanh_written_out[{gate.__name__[1:]}]")


@rule(keeps=REAL)
def fast_gelu_written_out(x, linear, cubic, one, half):
    """Half of x times one more than tanh of an odd cubic polynomial is gelu by tanh."""
    polynomial = add(multiply(x, linear), multiply(multiply(multiply(x, x), x), cubic))
    yield _half_first(x, add(tanh(polynomial), one), half)
    need_about(linear, math.sqrt(2 / math.pi))
    need_about(cubic, 0.044715 * math.sqrt(2 / math.pi))
    need_about(one, 1.0)
    need_about(half, 0.5)
    yield gelu_tanh(x)


gelu_written_out = tuple(
    _gelu_written_out(gate, scale) for gate, scale in product(GATES, (multiply, divide))
)
gelu_tanh_written_out = tuple(map(_gelu_tanh_written_out, GATES))


@rule(keeps=REAL)
def power_of_three(x, c):
    """A third power is a product."""
    yield power(x, c)
    if c.value != 3:
        refuse("another power")
    yield multiply(multiply(x, x), x)


# -- sigmoid, silu, relu -----------------------------------------------------------------------


@rule(keeps=REAL)
def sigmoid_written_out(x, one, other):
    """One over one more than the exponential of the negative is the sigmoid."""
    yield divide(other, add(exp(negative(x)), one))
    need_about(one, 1.0)
    need_about(other, 1.0)
    yield sigmoid(x)


@rule(keeps=REAL)
def silu_written_out(x, one):
    """A number over one more than the exponential of its negative is its silu."""
    yield divide(x, add(exp(negative(x)), one))
    need_about(one, 1.0)
    yield silu(x)


@rule(keeps=EXACT)
def relu_written_out(x, zero):
    """The maximum with zero is relu."""
    yield maximum(x, zero)
    if zero.value != 0 or math.copysign(1.0, zero.value) < 0:
        refuse("not +0")
    yield relu(x)


@rule(keeps=EXACT)
def leakyrelu_as_maximum(x, a):
    """The maximum of a number and a fraction of it is its leaky relu."""
    yield maximum(x, multiply(x, a))
    if a.value is None or not 0 < a.value <= 1:
        refuse("not a fraction")
    yield leakyrelu(x, alpha=float(a.value))


@rule(keeps=EXACT)
def leakyrelu_as_choice(x, a, zero):
    """A number where it is positive, and a multiple of it elsewhere, is its leaky relu."""
    yield where(greater(x, zero), x, multiply(x, a))
    if a.value is None or zero.value != 0:
        refuse("no constant slope, or another threshold than zero")
    yield leakyrelu(x, alpha=float(a.value))
