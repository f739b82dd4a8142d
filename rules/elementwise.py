"""Sums, products and their scale and shift.

Below, s and t are weights (known before run time); x and y may be anything, and a·b is a product
or a convolution.

    x + y                      =   y + x                       sum_commutes
    x · y                      =   y · x                       product_commutes
    (x + s) + t                =   x + (s + t)                 weights_join[add]
    (x · s) · t                =   x · (s · t)                 weights_join[multiply]
    (a·b + t) + y              =   (a·b + y) + t               shift_moves_outward
    (x + t) · s                =   x·s + t·s                   scale_before_shift
    x·s + y·s                  =   (x + y)·s                   common_factor, scale_of_sum
    x - t                      =   x + (-t)                    minus_weight
    x / s                      =   x · (1/s)                   quotient_by_weight
    x / √y                     =   x · (1/√y)                  quotient_by_root
    x²                         =   x · x                       square_as_product, power_of_two
    x · sigmoid(x)             =   silu(x)                     sigmoid_times_itself

    sum of [x0, ..., xn]       =   x0 + ... + xn               sum_of_stack
    mean of [x0, ..., xn-1]    =   (x0 + ... + xn-1)·(1/n)     mean_of_stack
    sum over axes of extent 1  =   x reshaped                  reduction_of_one

What is left out, and why:

- free associativity: a chain of n sums has exponentially many forms; only weights move, which is
  where constant folding and convolutions gain;
- max_pool(relu(x)) = relu(max_pool(x)): TVM's relu and max_pool both drop some NaN, in different
  places, so that finite results would change (max_pool of [1, 3, NaN] is NaN, its relu 0).

A law that keeps `REAL` may overflow where the other side does not: x·s can be infinite where
(x + t)·s is not. For operands whose products and sums stay finite, finite results stay finite.
"""

from __future__ import annotations

from tvm_tensat.egraph.rule import EXACT, FLOAT, INT, REAL, Rule, Term, refuse, rule
from tvm_tensat.rules.common import Apply, for_each, need_an_input, need_inputs, need_weights
from tvm_tensat.rules.operators import (
    add,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    divide,
    expand_dims,
    matmul,
    mean,
    multiply,
    negative,
    power,
    reshape,
    rsqrt,
    scalar,
    sigmoid,
    silu,
    sqrt,
    square,
    subtract,
    sum_,
)

# -- order and grouping ------------------------------------------------------------------------


@rule(keeps=EXACT, dtypes=FLOAT + INT)
def sum_commutes(x, y):
    """The operands of a sum can be exchanged, a weight only from left to right."""
    yield add(x, y)
    need_inputs(y)
    yield add(y, x)


@rule(keeps=EXACT, dtypes=FLOAT + INT)
def product_commutes(x, y):
    """The operands of a product can be exchanged, a weight only from left to right."""
    yield multiply(x, y)
    need_inputs(y)
    yield multiply(y, x)


# Not for integers: LLVM may assume that TVM's signed sums do not overflow, and s + t might.
def _weights_join(apply: Apply) -> Rule:
    @rule(keeps=REAL)
    def weights_join(x, s, t):
        """Two weights that are added (or multiplied) one after the other are one weight."""
        yield apply(apply(x, s), t)
        need_weights(s, t)
        need_inputs(x)
        yield apply(x, apply(s, t))

    return weights_join


weights_join = for_each((add, multiply), _weights_join)


# Only from a product or convolution, and so over one sum: in a chain of n residual sums, weights
# that travel freely meet in 2^n combinations.
def _shift_moves_outward(apply: Apply) -> Rule:
    @rule(keeps=REAL)
    def shift_moves_outward(a, b, t, y):
        """A weight that shifts a product can be added last, so that the other terms meet."""
        product = apply(a, b)
        yield add(add(product, t), y)
        need_weights(t)
        need_inputs(y)
        need_an_input(a, b)
        yield add(add(product, y), t)

    return shift_moves_outward


shift_moves_outward = for_each(
    (matmul, conv2d, conv1d, conv3d, conv2d_transpose), _shift_moves_outward
)


@rule(keeps=REAL)
def scale_before_shift(x, t, s):
    """A shift by a weight can come after the scale."""
    yield multiply(add(x, t), s)
    need_weights(s, t)
    need_inputs(x)
    yield add(multiply(x, s), multiply(t, s))


@rule(keeps=REAL)
def common_factor(x, y, s):
    """A factor of both terms of a sum is a factor of the sum."""
    yield add(multiply(x, s), multiply(y, s))
    need_inputs(x, y)
    yield multiply(add(x, y), s)


# Only weights are distributed: there the scale can go on into the products that gave x and y.
@rule(keeps=REAL)
def scale_of_sum(x, y, s):
    """A weight that scales a sum scales its terms."""
    yield multiply(add(x, y), s)
    need_weights(s)
    need_inputs(x, y)
    yield add(multiply(x, s), multiply(y, s))


# -- other operators as sums and products -------------------------------------------------------


@rule(keeps=EXACT)
def minus_weight(x, t):
    """A weight is subtracted by adding its negative."""
    yield subtract(x, t)
    need_weights(t)
    need_inputs(x)
    yield add(x, negative(t))


# 1/s overflows where s is denormal, and float16 has so few exponents that it happens in practice.
@rule(keeps=REAL, dtypes=("bfloat16", "float32", "float64"))
def quotient_by_weight(x, s):
    """A quotient by a weight is a product with its reciprocal."""
    yield divide(x, s)
    need_weights(s)
    need_inputs(x)
    yield multiply(x, divide(scalar(1.0, s.dtype), s))


@rule(keeps=REAL, dtypes=("bfloat16", "float32", "float64"))
def quotient_by_root(x, y):
    """A quotient by a square root is a product with the reciprocal root."""
    yield divide(x, sqrt(y))
    need_inputs(x)
    yield multiply(x, rsqrt(y))


@rule(keeps=EXACT, dtypes=FLOAT + INT)
def square_as_product(x):
    """A square is a product."""
    yield square(x)
    yield multiply(x, x)


@rule(keeps=REAL)
def power_of_two(x, c):
    """A second power is a product."""
    yield power(x, c)
    if c.value != 2:
        refuse("another power")
    yield multiply(x, x)


# Not for bfloat16, in which TVM's silu rounds once less.
@rule(keeps=EXACT, dtypes=("float16", "float32", "float64"))
def sigmoid_times_itself(x):
    """A number times its sigmoid is its silu."""
    yield multiply(x, sigmoid(x))
    yield silu(x)


# -- sums of several tensors -------------------------------------------------------------------

_MOST_TERMS = 16  # a longer chain of sums would not be one kernel's worth of operands


def _chain(stacked: Term, reduced: Term) -> Term:
    """Add the fields that are stacked along the one axis that is reduced."""
    fields = stacked.operands[0]
    if reduced.axis != (stacked.axis,):
        refuse("another axis is reduced")
    if fields.fields > _MOST_TERMS:
        refuse(f"more than {_MOST_TERMS} terms")
    total = fields[0]
    for index in range(1, fields.fields):
        total = add(total, fields[index])
    return total


# TVM adds to an initial +0: a sum of nothing but -0 is +0, and a chain of sums says -0.
@rule(keeps=REAL)
def sum_of_stack(terms):
    """The sum over the axis of a stack is a chain of sums."""
    stacked = Term("relax.stack", (terms,))
    reduced = sum_(stacked)
    yield reduced
    total = _chain(stacked, reduced)
    yield expand_dims(total, axis=[stacked.axis]) if reduced.keepdims else total


@rule(keeps=REAL)
def mean_of_stack(terms):
    """The mean over the axis of a stack is a scaled chain of sums."""
    stacked = Term("relax.stack", (terms,))
    reduced = mean(stacked)
    yield reduced
    share = scalar(1.0 / terms.fields, reduced.dtype)
    total = multiply(_chain(stacked, reduced), share)
    yield expand_dims(total, axis=[stacked.axis]) if reduced.keepdims else total


# REAL because TVM adds to an initial +0, which turns -0 into +0.
def _reduction_of_one(reduce: Apply) -> Rule:
    @rule(keeps=REAL)
    def reduction_of_one(x):
        """A sum or mean over axes of extent one only reshapes."""
        reduced = reduce(x)
        yield reduced
        if any(x.shape[axis] != 1 for axis in reduced.axis):
            refuse("an axis of more than one")
        yield reshape(x, shape=reduced.shape)

    return reduction_of_one


reduction_of_one = for_each((sum_, mean), _reduction_of_one)
