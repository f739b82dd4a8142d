import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op

from .kernels import normal, run

SHAPES = [
    ((64, 96), (96, 128)),
    ((197, 33), (33, 80)),
    ((37, 53), (53, 41)),
    ((1, 512), (512, 100)),
    ((1, 70), (70, 1)),
    ((3, 16, 24), (3, 24, 17)),
    ((2, 5, 8, 12), (12, 32)),
    ((40,), (40, 24)),
    ((24, 40), (40,)),
    ((1, 1), (1, 1)),
    ((0, 8), (8, 16)),
    ((4, 8), (8, 0)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
@pytest.mark.parametrize("constant", [False, True], ids=["parameter", "constant"])
def test_a_product_equals_numpys(left, right, constant):
    x, w = normal(*left), normal(*right, seed=1)
    got = run(op.matmul, [x], [w]) if constant else run(op.matmul, [x, w])
    np.testing.assert_allclose(got, x @ w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_a_transposed_weight_is_copied_or_summed_along(far):
    x, w = normal(64 if far else 2, 48), normal(96, 48, seed=1)
    got = run(lambda x, w: op.matmul(x, op.permute_dims(w)), [x, w])
    np.testing.assert_allclose(got, x @ w.T, rtol=1e-4, atol=1e-4)


def test_a_wide_weight_is_copied_block_by_block():
    x, w = normal(48, 32), normal(32, 1024, seed=1)
    np.testing.assert_allclose(run(op.matmul, [x, w]), x @ w, rtol=1e-4, atol=1e-4)


def test_an_epilogue_of_bias_residual_and_relu_is_computed():
    x, w, b, r = normal(33, 64), normal(64, 48, seed=1), normal(48), normal(33, 48, seed=2)
    got = run(lambda x, b, r, w: op.nn.relu(op.add(op.add(op.matmul(x, w), b), r)), [x, b, r], [w])
    np.testing.assert_allclose(got, np.maximum(x @ w + b + r, 0), rtol=1e-4, atol=1e-4)


def test_a_second_result_beside_the_epilogue():
    x, w = normal(1, 64), normal(64, 48, seed=1)

    def build(x, w):
        return relax.TupleGetItem(op.nn.dropout(op.nn.relu(op.matmul(x, w))), 0)

    np.testing.assert_allclose(run(build, [x], [w]), np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "out", "tolerance"),
    [("float16", "", 5e-2), ("float64", "", 1e-10), ("int32", "", 0), ("int8", "int32", 0)],
)
def test_other_dtypes_are_right(dtype, out, tolerance):
    x, w = normal(16, 24, dtype=dtype), normal(24, 33, dtype=dtype, seed=1)
    expected = x.astype("float64") @ w.astype("float64")
    got = run(lambda x, w: op.matmul(x, w, out or None), [x, w])
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rows", [0, 1, 7, 64])
def test_a_symbolic_number_of_rows_compiles_and_runs(rows):
    n = tirx.Var("n", "int64")
    x, w = normal(rows, 32), normal(32, 48, seed=1)
    parameters = [relax.Var("x", relax.TensorType((n, 32), "float32"))]
    got = run(lambda x, w: op.nn.relu(op.matmul(x, w)), [x], [w], parameters=parameters)
    np.testing.assert_allclose(got, np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "target", [{"kind": "llvm"}, {"kind": "llvm", "mcpu": "x86-64-v2"}], ids=str
)
def test_narrow_vectors_are_right_too(target):
    x, w = normal(20, 30), normal(30, 28, seed=1)
    got = run(op.matmul, [x, w], target=tvm.target.Target(target))
    np.testing.assert_allclose(got, x @ w, rtol=1e-4, atol=1e-4)
