import numpy as np
import pytest
from tvm import relax, tirx
from tvm.relax import op

from .kernels import normal, run


@pytest.mark.parametrize("shape", [(4, 64), (1, 7, 9), (100000,), (3,), (), (0, 5)], ids=str)
def test_a_chain_of_elementwise_operators(shape):
    x, y = normal(*shape), normal(*shape, seed=1)
    got = run(lambda x, y: op.nn.relu(op.multiply(op.add(x, y), x)), [x, y])
    np.testing.assert_allclose(got, np.maximum((x + y) * x, 0), rtol=1e-6)


def test_a_bias_is_broadcast_over_pixels():
    x, b = normal(1, 24, 14, 14), normal(1, 24, 1, 1)
    np.testing.assert_allclose(run(op.add, [x, b]), x + b, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "axes"), [((130, 150), (1, 0)), ((5, 7), (1, 0)), ((8, 6, 5, 40), (0, 2, 1, 3))]
)
def test_a_transpose_moves_every_element(shape, axes):
    x = normal(*shape)
    got = run(lambda x: op.permute_dims(x, axes), [x])
    np.testing.assert_array_equal(got, x.transpose(axes))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_concat_of_unequal_parts(axis):
    shapes = [[4, 6, 10] for _ in range(3)]
    for part, shape in enumerate(shapes):
        shape[axis] += part
    parts = [normal(*shape) for shape in shapes]
    got = run(lambda *p: op.concat(p, axis), parts)
    np.testing.assert_array_equal(got, np.concatenate(parts, axis))


def test_a_pad_fills_the_border():
    x = normal(2, 5, 9)
    got = run(lambda x: op.nn.pad(x, [0, 0, 1, 2, 3, 1]), [x])
    np.testing.assert_array_equal(got, np.pad(x, ((0, 0), (1, 2), (3, 1))))


@pytest.mark.parametrize("dtype", ["int8", "int32", "float16", "float64", "bool"])
def test_other_dtypes_are_right(dtype):
    x = normal(4, 33, dtype="int32").astype(dtype)
    got = run(lambda x: op.where(op.equal(x, x), x, x), [x])
    np.testing.assert_array_equal(got, x)


def test_a_symbolic_shape():
    n = tirx.Var("n", "int64")
    parameters = [relax.Var("x", relax.TensorType((n, 9), "float32"))]
    x = normal(11, 9)
    got = run(lambda x: op.exp(op.add(x, x)), [x], parameters=parameters)
    np.testing.assert_allclose(got, np.exp(x + x), rtol=1e-5)
