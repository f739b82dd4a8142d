"""Operators in rational numbers agree with TVM's kernels on small integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvm_tensat.egraph.language import Refusal
from tvm_tensat.egraph.rule import EXACT, REAL, rule
from tvm_tensat.rules import operators as op
from tvm_tensat.rules.common import of_many
from tvm_tensat.rules.operators import add, multiply, operator, relu
from tvm_tensat.verify import Example, apply, constant, tensor
from tvm_tensat.verify.compiled import both_sides, run
from tvm_tensat.verify.rational import draw_rationals, equal, evaluate_sides

POOL = {"pool_size": (2, 2), "strides": (2, 1), "padding": (1, 0, 1, 1)}
IMAGE = tensor(2, 4, 5, 4)
CASES = {
    "matmul": (op.matmul, [tensor(2, 3, 4), tensor(4, 2)], {}),
    "conv2d": (
        op.conv2d,
        [IMAGE, tensor(6, 2, 3, 2)],
        {"groups": 2, "strides": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)},
    ),
    "conv2d in NHWC": (
        op.conv2d,
        [tensor(1, 5, 4, 3), tensor(2, 2, 3, 5)],
        {"data_layout": "NHWC", "kernel_layout": "HWIO"},
    ),
    "max_pool2d": (op.max_pool2d, [IMAGE], POOL),
    "avg_pool2d": (op.avg_pool2d, [IMAGE], POOL),
    "avg_pool2d with padding": (op.avg_pool2d, [IMAGE], POOL | {"count_include_pad": True}),
    "sum": (op.sum_, [IMAGE], {"axis": [1, -1]}),
    "mean": (op.mean, [IMAGE], {"axis": [2], "keepdims": True}),
    "max": (op.max_, [IMAGE], {"axis": [0, 3]}),
    "relu": (relu, [IMAGE], {}),
    "divide": (op.divide, [tensor(3, 4, low=1.0), tensor(4, low=1.0)], {}),
    "maximum": (op.maximum, [IMAGE, tensor(4)], {}),
    "power": (operator("relax.power"), [IMAGE, constant(3.0)], {}),
    "pad": (op.pad, [tensor(2, 3)], {"pad_width": [1, 0, 0, 2], "pad_value": 1.5}),
    "flatten": (operator("relax.flatten"), [IMAGE], {}),
    "strided_slice": (
        op.strided_slice,
        [IMAGE],
        {"axes": [2], "begin": [1], "end": [5], "strides": [2]},
    ),
}


def law_of(apply_operator, count):
    """Return a rule that replaces a term by itself."""

    def body(*terms):
        term = apply_operator(*terms)
        yield term
        yield term

    return of_many(count, keeps=EXACT)(body)


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_tvm(name):
    function, operands, attrs = CASES[name]
    example = Example(law_of(function, len(operands)), tuple(operands), (attrs,))
    applied = apply(example)
    values = draw_rationals(example, seed=3)
    sought, _, certain = evaluate_sides(applied, example, values)
    expected, _ = run(both_sides(applied), [value.astype(np.float32) for value in values])
    assert certain
    np.testing.assert_allclose(sought[0].astype(np.float64), expected[0], rtol=1e-6)


@rule(keeps=REAL)
def exponential_law(x, y):
    """The exponential of a sum is the product of the exponentials."""
    exp = operator("relax.exp")
    yield exp(add(x, y))
    yield multiply(exp(x), exp(y))


@rule(keeps=REAL)
def commuted_exponential(x, y):
    """The exponential of a sum does not depend on the order."""
    exp = operator("relax.exp")
    yield exp(add(x, y))
    yield exp(add(y, x))


def test_functions_that_leave_the_rationals_prove_but_do_not_disprove():
    for law, same in ((exponential_law, False), (commuted_exponential, True)):
        example = Example(law, (tensor(3), tensor(3)))
        sides = evaluate_sides(apply(example), example, draw_rationals(example, seed=0))
        assert (equal(sides[0][0], sides[1][0]), sides[2]) == (same, False)


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_integers_are_refused_for_they_wrap_around(dtype):
    example = Example(law_of(relu, 1), (tensor(3, dtype=dtype),))
    with pytest.raises(Refusal, match="no tensor of real numbers"):
        evaluate_sides(apply(_any_dtype(example)), example, draw_rationals(example, seed=0))


def _any_dtype(example):
    return replace(example, rule=replace(example.rule, dtypes=()))


def test_a_convolution_of_no_pixels_is_empty():
    """TVM gives it a type, but has no kernel for it."""
    example = Example(law_of(op.conv2d, 2), (tensor(1, 2, 0, 4), tensor(3, 2, 1, 1)))
    sought, _, _ = evaluate_sides(apply(example), example, draw_rationals(example, seed=0))
    assert sought[0].shape == (1, 3, 0, 4)


@rule(keeps=REAL)
def third_of_three(x):
    """Three thirds are the whole, although no float is a third."""
    yield add(add(x, x), x)
    yield op.divide(x, op.scalar(1 / 3, x.dtype))


def test_a_constant_stands_for_the_fraction_that_it_rounds():
    example = Example(third_of_three, (tensor(4),))
    sides = evaluate_sides(apply(example), example, draw_rationals(example, seed=0))
    assert equal(sides[0][0], sides[1][0])


def test_a_division_by_zero_is_refused():
    example = Example(law_of(op.divide, 2), (tensor(3), constant(0.0)))
    with pytest.raises(Refusal, match="a divisor is zero"):
        evaluate_sides(apply(example), example, draw_rationals(example, seed=0))
