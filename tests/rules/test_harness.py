"""The harness catches wrong rules; otherwise its silence would prove nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rules.harness import (
    apply,
    check_law,
    constant,
    refusal,
    tensor,
    weight,
)
from tests.rules.strategies import example
from tvm_tensat.egraph.rule import ANY, EXACT, REAL, group_rule, multi_rule, refuse, rule
from tvm_tensat.rules.operators import add, concat, matmul, multiply, permute_dims, scalar, split
from tvm_tensat.verify.values import differing_bits, differing_numbers


@rule(keeps=EXACT, dtypes=ANY)
def commuted(x, y):
    """A sum does not depend on the order."""
    yield add(x, y)
    yield add(y, x)


@rule(keeps=EXACT)
def reassociated(x, y, z):
    """Wrong: sums of floats depend on the order."""
    yield add(add(x, y), z)
    yield add(x, add(y, z))


@rule(keeps=REAL)
def doubled(x):
    """Wrong: x + x is not x."""
    yield add(x, x)
    yield multiply(x, scalar(1.0, x.dtype))


@rule(keeps=EXACT, dtypes=ANY)
def untransposed(x):
    """Wrong types, unless x is square."""
    yield permute_dims(x)
    yield x


@rule(keeps=EXACT)
def only_weights(x, y):
    """Refuses what is no weight, or not 2."""
    s = multiply(x, y)
    yield s
    if not x.is_weight or y.value != 2:
        refuse("not a weight times 2")
    yield add(x, x)


@group_rule(keeps=EXACT, alike=lambda p: p.shape[:-1])
def siblings(x, a):
    """Products of one matrix are one product."""
    products = yield matmul(x, a)
    weights = [p.operands[1] for p in products]
    cuts = [sum(w.sizes[-1] for w in weights[:k]) for k in range(1, len(weights))]
    parts = split(matmul(x, concat(*weights, axis=-1)), indices_or_sections=cuts, axis=-1)
    yield [parts[k] for k in range(len(weights))]


@multi_rule(keeps=REAL)
def exchanged(x, a, b):
    """Wrong: gives each product the value of the other."""
    yield matmul(x, a), matmul(x, b)
    yield matmul(x, b), matmul(x, a)


def test_a_law_passes_with_special_values_symbolic_dims_and_integers():
    check_law(example(commuted, tensor("n", 4), tensor(4)), special=True)
    check_law(example(commuted, tensor(2, 0), tensor(1, dtype="float32")))
    check_law(example(commuted, tensor(3, dtype="int8"), tensor(3, dtype="int8")))


def test_rounding_is_seen_where_exactness_is_claimed():
    with pytest.raises(AssertionError, match="bits differ"):
        check_law(example(reassociated, *(tensor(50),) * 3))


def test_a_wrong_law_is_seen():
    with pytest.raises(AssertionError, match="relative error"):
        check_law(example(doubled, tensor(3)))
    with pytest.raises(AssertionError, match="relative error"):
        check_law(example(exchanged, tensor(2, 3), tensor(3, 4), tensor(3, 4)))


def test_a_wrong_type_is_refused():
    assert "is needed" in str(refusal(example(untransposed, tensor(2, 3))))
    with pytest.raises(AssertionError, match="bits differ"):
        check_law(example(untransposed, tensor(3, 3)))


def test_profiles_reach_the_rule():
    check_law(example(only_weights, weight(3), constant(2.0)))
    check_law(example(only_weights, weight(3), constant(2.0, 3)))
    assert refusal(example(only_weights, tensor(3), constant(2.0))) == "not a weight times 2"
    assert refusal(example(only_weights, weight(3), weight(3))) == "not a weight times 2"


def test_groups_take_the_operands_of_each_member():
    trial = example(siblings, tensor(2, 3), weight(3, 4), weight(3, 1), tensor(3, 2))
    assert len(apply(trial).targets) == 3
    check_law(trial, special=True)


def test_comparisons_tell_zeros_nan_and_infinities_apart():
    one = np.array([0.0, np.nan, np.inf], np.float32)
    assert differing_bits(one, one.copy()) is None
    for other in ([-0.0, np.nan, np.inf], [0.0, 1.0, np.inf], [0.0, np.nan, -np.inf]):
        assert differing_bits(one, np.array(other, np.float32)) is not None
    assert differing_numbers(one, np.array([1e-7, np.nan, np.inf], np.float32)) is None
    for other in ([1e-3, np.nan, np.inf], [0.0, 1.0, np.inf], [0.0, np.nan, -np.inf]):
        assert differing_numbers(one, np.array(other, np.float32)) is not None
