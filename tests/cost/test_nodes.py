"""The costs of e-nodes become true as graphs are measured."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from tests.cost.graphs import ESTIMATING, LINE, LLVM, function, read
from tvm_tensat.cost import CostStore, Measurement, StoreKey, setting_of
from tvm_tensat.cost.device import Device
from tvm_tensat.cost.nodes import NO_RECORD, NOISE, OPTIMISM, NodeCosts
from tvm_tensat.egraph.rule import REAL, rule
from tvm_tensat.rules.operators import matmul

op = relax.op
X = relax.TensorType((64, 64), "float32")


def two_products(builder, x, y, z):
    first = builder.emit(op.nn.relu(builder.emit(op.matmul(x, y))))
    return [op.exp(builder.emit(op.matmul(first, z)))]


@rule(keeps=REAL)
def other_order(x, y):
    """A product is another product; only the names of the operands matter here."""
    yield matmul(x, y)
    yield matmul(y, x)


def costs_of(device: Device = ESTIMATING, rules=()):
    parameters = [relax.Var(name, X) for name in "xyz"]
    reader, kernels = read(function(parameters, two_products), rules, device)
    return NodeCosts(reader.graph, reader.language, device), kernels


def with_times(costs: NodeCosts, kernels, seconds) -> None:
    for kernel, value in zip(kernels, seconds, strict=True):
        costs.measured[kernel.key] = (
            Measurement.failure("broken") if value is None else Measurement(value, 0.0, 9, None)
        )


def test_a_graph_costs_what_its_kernels_take():
    costs, kernels = costs_of()
    first, second = kernels
    with_times(costs, [first, second], [3e-3, 5e-3])
    assert costs.seconds(kernels) == pytest.approx(8e-3)


def test_after_learning_the_costs_of_its_e_nodes_add_up_to_what_the_graph_costs():
    costs, kernels = costs_of()
    with_times(costs, kernels, [3e-3, 5e-3])
    costs.learn(kernels)
    rows = [row for kernel in kernels for row in kernel.rows]
    assert costs.costs()[rows].sum() == pytest.approx(costs.seconds(kernels))


def test_most_of_a_kernel_is_charged_to_its_product():
    costs, kernels = costs_of()
    with_times(costs, kernels, [3e-3, 5e-3])
    costs.learn(kernels)
    product, relu = kernels[0].rows
    assert costs.costs()[product] > 0.9 * 3e-3 > costs.costs()[relu] > 0


def test_what_kernels_around_one_product_differ_by_counts_beyond_noise_only():
    costs, kernels = costs_of()  # two products of one signature
    with_times(costs, kernels, [4.0e-3, 4.2e-3])
    costs.learn(kernels)
    small = [costs.seconds([kernel]) for kernel in kernels]
    assert small == pytest.approx([4.05e-3, 4.05e-3], rel=1e-2)  # a quarter of the way up
    with_times(costs, kernels, [2e-3, 8e-3])
    costs.learn(kernels)
    low, high = (costs.seconds([kernel]) for kernel in kernels)
    assert low == pytest.approx(2e-3 + NOISE * 3.5e-3, rel=2e-2)
    assert high == pytest.approx(8e-3 - NOISE * 3.5e-3, rel=2e-2)


def test_what_one_product_took_scales_the_estimates_of_others():
    device = Device(LLVM, LINE, CostStore(Path(":memory:")))
    costs, kernels = costs_of(device, (other_order,))
    estimate = LINE.seconds(2 * 64**3, 2 * 64 * 64 * 4, 64 * 64 * 4, 0)
    new = np.flatnonzero(costs.graph.node_rule >= 0)
    assert costs.costs()[new] == pytest.approx(OPTIMISM * estimate)
    with_times(costs, kernels, [10 * estimate, 10 * estimate])
    costs.learn(kernels)
    assert costs.costs()[new] == pytest.approx(10 * estimate, rel=0.05)
    assert not costs.guessed()[new].any()


def test_kernels_of_similar_work_count_most_for_an_estimate():
    sizes = (64, 72, 512)
    x = relax.Var("x", relax.TensorType((64, 64), "float32"))
    weights = [relax.const(np.ones((64, size), np.float32)) for size in sizes]
    module = function([x], lambda builder, x: [op.matmul(x, weight) for weight in weights])
    reader, kernels = read(module)
    costs = NodeCosts(reader.graph, reader.language, ESTIMATING)
    rows = [kernel.rows[0] for kernel in kernels]
    small, similar, _large = costs.costs()[rows]
    with_times(costs, [kernels[0], kernels[2]], [10 * small, costs.costs()[rows[2]]])
    costs.learn([kernels[0], kernels[2]])
    assert costs.costs()[rows[1]] == pytest.approx(10 * similar, rel=0.05)


def test_a_kernel_that_fails_is_not_chosen_unless_it_is_the_inputs():
    costs, kernels = costs_of()
    with_times(costs, kernels, [None, 5e-3])
    costs.learn(kernels)
    assert np.isfinite(costs.seconds(kernels)) and np.isfinite(costs.costs()).all()
    costs, kernels = costs_of(rules=(other_order,))
    row = int(np.flatnonzero(costs.graph.node_rule >= 0)[0])
    kernel = replace(kernels[0], rows=(row, kernels[0].rows[1]))
    with_times(costs, [kernel], [None])
    assert costs.seconds([kernel]) == np.inf
    costs.learn([kernel])
    assert costs.costs()[row] == np.inf
    assert np.isfinite(costs.costs()[kernels[0].rows[1]])


def test_recorded_costs_know_the_signatures_in_the_stores_kernels():
    store = CostStore(Path(":memory:"))
    device = Device(LLVM, LINE, store, measures=False)
    costs, kernels = costs_of(device, (other_order,))
    new = np.flatnonzero(costs.graph.node_rule >= 0)
    assert (costs.costs()[new] == np.inf).all()  # nothing is known
    setting = setting_of(LLVM, None, costs.weight_bytes)
    store.put_many({StoreKey(kernels[0].key, setting): Measurement(1e-3, 0.0, 9, None)})
    costs, kernels = costs_of(device, (other_order,))
    assert np.isfinite(costs.costs()[new]).all()
    costs.measure(costs.unmeasured(kernels))
    assert costs.measured[kernels[0].key].seconds == 1e-3
    assert costs.measured[kernels[1].key].error == NO_RECORD


def test_kernels_whose_product_is_known_need_not_be_measured_again():
    costs, kernels = costs_of()
    assert costs.without_anchor(kernels) == list(kernels)
    with_times(costs, kernels[:1], [3e-3])
    costs.learn(kernels[:1])
    assert costs.without_anchor(kernels) == []  # both products have one signature
