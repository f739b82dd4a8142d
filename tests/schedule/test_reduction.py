import numpy as np
import pytest
from tvm import relax, tirx
from tvm.relax import op

from .kernels import normal, run


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x, scale, shift):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


@pytest.mark.parametrize("shape", [(1, 1000), (16, 64), (3, 5, 33), (7, 1), (0, 8)], ids=str)
def test_softmax_equals_numpys(shape):
    x = normal(*shape)
    got = run(lambda x: op.nn.softmax(x, -1), [x])
    np.testing.assert_allclose(got, softmax(x, -1), rtol=1e-4, atol=1e-6)


def test_softmax_along_a_middle_axis():
    x = normal(2, 9, 5, 8)
    got = run(lambda x: op.nn.softmax(x, 1), [x])
    np.testing.assert_allclose(got, softmax(x, 1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("width", [768, 37])
def test_layer_norm_equals_numpys(width):
    x, scale, shift = normal(12, width), normal(width), normal(width, seed=2)
    got = run(lambda x, s, t: op.nn.layer_norm(x, s, t, [-1]), [x, scale, shift])
    np.testing.assert_allclose(got, layer_norm(x, scale, shift), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("axis", [[0], [1], [2], [1, 2], [0, 2], None], ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "max"])
def test_reductions_along_any_axes(name, axis):
    x = normal(6, 10, 48)
    expected = getattr(np, name)(x.astype("float64"), axis=tuple(axis) if axis else None)
    got = run(lambda x: getattr(op, name)(x, axis), [x])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_variance_and_argmax():
    x = normal(8, 64)
    np.testing.assert_allclose(run(lambda x: op.variance(x, [-1]), [x]), x.var(-1), rtol=1e-4)
    np.testing.assert_array_equal(run(lambda x: op.argmax(x, -1), [x]), x.argmax(-1))


def test_an_integer_sum_is_exact():
    x = normal(5, 100, dtype="int32")
    np.testing.assert_array_equal(run(lambda x: op.sum(x, [1]), [x]), x.sum(1))


@pytest.mark.parametrize("rows", [0, 1, 9])
def test_a_symbolic_number_of_rows(rows):
    n = tirx.Var("n", "int64")
    parameters = [relax.Var("x", relax.TensorType((n, 40), "float32"))]
    x = normal(rows, 40)
    got = run(lambda x: op.nn.softmax(x, -1), [x], parameters=parameters)
    np.testing.assert_allclose(got, softmax(x, -1), rtol=1e-4, atol=1e-6)
