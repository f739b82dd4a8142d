"""What is computed together becomes one kernel to measure, with a key that says what it is."""

import numpy as np
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from tests.conftest import run
from tests.cost.graphs import LLVM, function, read
from tests.relax.programs import PROGRAMS, build_program
from tvm_tensat.cost import CostStore, measure
from tvm_tensat.cost.fused import as_kernel, is_measurable, signatures_in

op = relax.op
X = relax.TensorType((4, 6), "float32")
WEIGHT = relax.const(np.ones((6, 6), np.float32))
ROW = relax.const(np.arange(6, dtype=np.float32))


def kernels(module):
    reader, found = read(module)
    return [(kernel, as_kernel(kernel, reader.language)) for kernel in found]


def test_a_product_and_the_elementwise_work_behind_it_are_one_kernel():
    x = relax.Var("x", X)

    def build(builder, x):
        product = builder.emit(op.matmul(x, WEIGHT))
        return [op.nn.relu(builder.emit(op.multiply(product, relax.const(2.0, "float32"))))]

    [(kernel, made)] = kernels(function([x], build))
    assert kernel.key.split("\n") == [
        "matmul[out_dtype=float32](float32[4x6], float32[6x6]!) <- x0 x1",
        "relax.multiply(float32[4x6], float32[]!) <- %0 2.0",
        "relax.nn.relu(float32[4x6]) <- %1",
    ]
    assert made.weights == (False, True)
    assert [tuple(map(int, p.ty.shape)) for p in made.module["main"].params] == [(4, 6), (6, 6)]
    values = [np.arange(-12, 12, dtype=np.float32).reshape(4, 6), np.eye(6, dtype=np.float32)]
    expected = np.maximum(values[0] * 2, 0)
    np.testing.assert_array_equal(run(made.module, values)[0], expected)


def test_equal_kernels_have_equal_keys_and_others_do_not():
    x, y = relax.Var("x", X), relax.Var("y", X)

    def build(builder, x, y):
        one = builder.emit(op.matmul(x, WEIGHT))
        two = builder.emit(op.matmul(y, relax.const(np.full((6, 6), 3, np.float32))))
        three = builder.emit(op.matmul(x, op.reshape(y, (6, 4))))
        return [op.add(one, x), op.add(two, y), op.exp(three)]

    keys = [kernel.key for kernel, _ in kernels(function([x, y], build))]
    assert len(keys) == 3 and keys[0] != keys[2]
    assert keys[0].replace(" x0 x1", "") == keys[1].replace(" x0 x1", "")
    # x is read twice by the first, so it is one parameter there.
    assert keys[0].split("\n")[1].endswith("<- %0 x0")
    assert keys[0] == keys[1]


def test_scalars_are_part_of_the_kernel_and_of_its_key():
    x = relax.Var("x", X)
    build = lambda value: lambda b, x: [op.power(x, relax.const(value, "float32"))]  # noqa: E731
    [(two, made)] = kernels(function([x], build(2.0)))
    [(half, _)] = kernels(function([x], build(0.5)))
    assert two.key != half.key and signatures_in(two.key) == signatures_in(half.key)
    assert len(made.module["main"].params) == 1


def test_what_weights_alone_give_is_an_operand_that_is_known():
    x = relax.Var("x", X)

    def build(builder, x):
        return [op.add(x, builder.emit(op.multiply(ROW, ROW)))]

    [(kernel, made)] = kernels(function([x], build))
    assert kernel.key == "relax.add(float32[4x6], float32[6]!) <- x0 x1"
    assert made.weights == (False, True)


def test_values_that_others_use_too_are_results_of_the_kernel():
    x = relax.Var("x", X)

    def build(builder, x):
        halves = builder.emit(op.split(x, 2, axis=1))
        first = builder.emit(relax.TupleGetItem(halves, 0))
        second = builder.emit(relax.TupleGetItem(halves, 1))
        return [op.exp(first), op.nn.softmax(second)]

    made = [m for _, m in kernels(function([x], build))]
    value = np.arange(24, dtype=np.float32).reshape(4, 6)
    split = next(m for m in made if "split" in m.key)
    results = run(split.module, [value])
    np.testing.assert_array_equal(results[0], value[:, :3])


def test_symbolic_shapes_are_not_measured():
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 6), "float32"))
    reader, [kernel] = read(function([x], lambda b, x: [op.exp(x)]))
    assert not is_measurable(kernel, reader.language)


@given(PROGRAMS, st.lists(st.integers(0, 99), min_size=1, max_size=3))
def test_the_kernels_of_random_programs_are_well_formed(program, outputs):
    module = build_program([step for step in program if step[0] != 5], outputs)
    keys = {}
    for kernel, made in kernels(module):
        relax.analysis.well_formed(made.module)
        assert made.key == kernel.key and len(made.weights) == len(made.module["main"].params)
        same = keys.setdefault(kernel.key, made.module)
        tvm.ir.assert_structural_equal(same, made.module)


def test_a_fused_kernel_is_measured_as_one(tmp_path):
    x = relax.Var("x", X)
    build = lambda b, x: [op.nn.relu(b.emit(op.add(b.emit(op.matmul(x, WEIGHT)), ROW)))]  # noqa: E731
    made = [m for _, m in kernels(function([x], build))]
    store = CostStore(tmp_path / "costs.sqlite")
    times = measure(made, LLVM, store=store, workers=1)
    assert all(time.error is None and time.seconds > 0 for time in times)
    assert len(store) == len(made) == 1
