"""The kernels predicted for a graph are those that TVM makes of it, in number and members."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from tests.fusion.actual import Explored, agree
from tests.relax.programs import PROGRAMS, build_program
from tvm_tensat import zoo
from tvm_tensat.egraph import Limits, explore
from tvm_tensat.relax.fold import fold_weights
from tvm_tensat.rules import all_rules

op = relax.op


@cache
def explored(name: str) -> Explored:
    """Return a zoo model's e-graph, grown by all rules."""
    found = Explored(zoo.load(name))
    explore(found.graph, all_rules("real"), Limits(k_multi=1))
    return found


@pytest.mark.parametrize("name", ["squeezenet", "alexnet", "bert", "nasrnn", "inception_v1"])
def test_the_kernels_of_a_model_are_those_that_tvm_makes(name):
    model = Explored(fold_weights(zoo.load(name)))
    choice = model.choose(np.ones(len(model.graph.node_operator)))
    agree(model.predicted(choice), model.written(choice))


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "bert", "nasrnn"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_kernels_of_a_random_choice_are_those_that_tvm_makes(name, seed):
    model = explored(name)
    costs = np.random.default_rng(seed).random(len(model.graph.node_operator))
    choice = model.choose(costs)
    agree(model.predicted(choice), fold_weights(model.written(choice)))


@given(PROGRAMS, st.lists(st.integers(0, 99), min_size=1, max_size=3))
def test_splits_aliases_views_and_several_outputs_are_predicted(program, outputs):
    # Not fields of a tuple that was just put together (5): TVM sees through those, as our rules do.
    predicts(build_program([step for step in program if step[0] != 5], outputs))


STEPS = (
    lambda x, y: op.exp(x),
    lambda x, y: op.add(x, y),
    lambda x, y: op.multiply(x, op.sum(y, axis=[1], keepdims=True)),
    lambda x, y: op.add(x, op.mean(y, axis=[0], keepdims=True)),
    lambda x, y: op.permute_dims(op.concat([x, y], 1), [1, 0]),
    lambda x, y: op.permute_dims(x, [1, 0]),
    lambda x, y: op.matmul(x, y),
    lambda x, y: op.nn.softmax(x),
    lambda x, y: op.strided_slice(op.concat([x, y], 1), [1], [0], [4]),
    lambda x, y: op.broadcast_to(op.max(x, axis=[0], keepdims=True), (4, 4)),
    lambda x, y: op.where(op.less(x, y), y, x),
    lambda x, y: op.multiply(x, relax.const(2.0)),
)


@given(
    st.lists(
        st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=14,
    ),
    st.lists(st.integers(0, 9), min_size=1, max_size=2),
)
def test_random_graphs_of_all_patterns_are_predicted(program, outputs):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    values = [x]
    with builder.function("main", [x]):
        with builder.dataflow():
            for kind, i, j in program:
                value = STEPS[kind](values[-1 - i % len(values)], values[-1 - j % len(values)])
                value = builder.emit(value)
                square = tuple(map(int, value.ty.shape)) == (4, 4)
                values.append(
                    value if square else builder.emit(op.strided_slice(value, [0], [0], [4]))
                )
            results = [builder.emit_output(values[-1 - k % len(values)]) for k in outputs]
        builder.emit_func_output(relax.Tuple(results))
    predicts(builder.finalize())


def test_chains_longer_than_tvm_fuses_are_predicted():
    builder = relax.BlockBuilder()
    value = x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            for _ in range(300):
                value = builder.emit(op.exp(value))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    predicts(builder.finalize())


def predicts(module) -> None:
    model = Explored(module)
    choice = model.choose(np.ones(len(model.graph.node_operator)))
    agree(model.predicted(choice), model.written(choice))
