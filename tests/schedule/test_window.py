import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from tvm.relax import op

from .kernels import normal, run


def windows(x, size, stride, padding, fill):
    width = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(x, width, constant_values=fill)
    return sliding_window_view(padded, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]


@pytest.mark.parametrize("width", [8, 13, 55, 111])
@pytest.mark.parametrize(("size", "stride", "padding"), [(3, 2, 0), (3, 1, 1), (2, 2, 0)])
def test_max_pooling_takes_the_largest_of_each_window(width, size, stride, padding):
    x = normal(1, 5, 12, width)
    got = run(lambda x: op.nn.max_pool2d(x, (size, size), (stride, stride), padding), [x])
    expected = windows(x, size, stride, padding, -np.inf).max(axis=(-1, -2))
    np.testing.assert_array_equal(got, expected)


def test_average_pooling_with_padding_counts_it_where_asked():
    x = normal(1, 5, 14, 14)

    def build(x):
        return op.nn.avg_pool2d(x, (3, 3), (1, 1), 1, count_include_pad=True)

    expected = windows(x, 3, 1, 1, 0).mean(axis=(-1, -2))
    np.testing.assert_allclose(run(build, [x]), expected, rtol=1e-5, atol=1e-5)


def test_global_average_pooling_is_the_mean():
    x = normal(1, 24, 7, 7)
    got = run(lambda x: op.nn.avg_pool2d(x, (7, 7)), [x])
    np.testing.assert_allclose(got, x.mean((2, 3), keepdims=True), rtol=1e-5, atol=1e-6)
