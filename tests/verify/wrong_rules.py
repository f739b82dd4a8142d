"""One wrong rule of each kind, which verification must catch, and right ones beside them."""

from __future__ import annotations

from tvm_tensat.egraph.rule import ANY, EXACT, FLOAT, INT, REAL, group_rule, multi_rule, rule
from tvm_tensat.rules.operators import (
    add,
    astype,
    concat,
    cut,
    divide,
    matmul,
    multiply,
    negative,
    operator,
    permute_dims,
    relu,
    reshape,
    softmax,
    split,
    subtract,
)


@rule(keeps=EXACT, dtypes=ANY)
def wrong_axis(a, b, w):
    """Wrong: matrices joined by columns are no product of what is joined by rows."""
    joined = concat(matmul(a, w), matmul(b, w))
    yield joined
    yield matmul(concat(b, a, axis=joined.axis), w)


@rule(keeps=EXACT, dtypes=ANY)
def wrong_permutation(x):
    """Wrong: two permutations compose in one order only."""
    inner = permute_dims(x)
    outer = permute_dims(inner)
    yield outer
    yield permute_dims(x, axes=[outer.axes[axis] for axis in inner.axes])


@multi_rule(keeps=EXACT, dtypes=ANY)
def wrong_split_point(x, a, b):
    """Wrong: the wide product is cut by the columns of the other factor."""
    p, q = matmul(x, a), matmul(x, b)
    yield p, q
    wide = matmul(x, concat(a, b, axis=-1))
    yield cut(wide, [a.shape[-1], b.shape[-1]], axis=-1)[::-1]


@rule(keeps=EXACT, dtypes=ANY)
def missing_condition(x):
    """Wrong: a reshape undoes a permutation only where elements keep their order."""
    permuted = permute_dims(x)
    yield permuted
    yield reshape(x, shape=permuted.shape)


@rule(keeps=REAL)
def missing_condition_on_the_axis(x, c):
    """Wrong: a shift that varies along the axis of softmax changes it."""
    normalized = softmax(add(x, c))
    yield normalized
    yield normalized.on(x)


@rule(keeps=REAL, dtypes=FLOAT + INT)
def dtype_unsafe(x, y):
    """Wrong for integers: a quotient times its divisor is the dividend."""
    yield multiply(divide(x, y), y)
    yield x


@rule(keeps=REAL, dtypes=ANY)
def cast_forgotten(x):
    """Wrong: a cast to less and back loses something."""
    back = astype(astype(x))
    yield back
    yield x


@rule(keeps=EXACT)
def order_changing(x, y, z):
    """Wrong bit for bit: sums of floats depend on their order."""
    yield add(add(x, y), z)
    yield add(x, add(y, z))


@rule(keeps=EXACT)
def sign_of_zero(x):
    """Wrong bit for bit: the negative of a difference with zero has another zero."""
    yield negative(subtract(x, x))
    yield subtract(x, x)


@rule(keeps=EXACT)
def nan_forgotten(x):
    """Wrong for NaN, which relu turns into zero."""
    yield relu(multiply(x, x))
    yield multiply(x, x)


@group_rule(keeps=EXACT, dtypes=ANY, alike=lambda product: product.shape)
def wrong_order_of_a_group(x, a):
    """Wrong: the parts come back in another order."""
    products = yield matmul(x, a)
    wide = products[0].on(x, concat(*(p.operands[1] for p in products), axis=-1))
    parts = split(wide, indices_or_sections=len(products), axis=-1)
    yield [parts[k] for k in reversed(range(len(products)))]


@rule(keeps=REAL)
def raises(x):
    """Wrong: reads an attribute that the operator does not have."""
    value = relu(x)
    yield value
    yield value.on(x, alpha=value.alpha)


shape_of = operator("relax.shape_of")


@rule(keeps=REAL)
def never_met(x):
    """Not exercised: no relu of a shape has a type."""
    yield relu(shape_of(x))
    yield x


@rule(keeps=REAL)
def never_applied(x, y):
    """Not exercised: it always refuses."""
    total = add(x, y)
    yield total
    yield matmul(total, total, out_dtype="int8")


@rule(keeps=EXACT, dtypes=FLOAT + INT)
def right(x, y):
    """The operands of a sum can be exchanged."""
    yield add(x, y)
    yield add(y, x)


@rule(keeps=REAL)
def right_over_the_reals(x, y, z):
    """A sum can be grouped otherwise."""
    yield add(add(x, y), z)
    yield add(x, add(y, z))
