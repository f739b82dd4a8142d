import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from tvm.relax import op

from .kernels import normal, run


def reference(x, w, stride=1, padding=0, dilation=1, groups=1):
    """NCHW convolution in float64, by windows."""
    x, w = x.astype("float64"), w.astype("float64")
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    high, wide = ((k - 1) * dilation + 1 for k in w.shape[2:])
    windows = sliding_window_view(x, (high, wide), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    parts = zip(np.split(windows, groups, axis=1), np.split(w, groups), strict=True)
    return np.concatenate([np.einsum("nchwij,ocij->nohw", a, b) for a, b in parts], axis=1)


# batch, channels, height, width, filters, window, stride, padding, dilation, groups
CASES = {
    "3x3": (1, 16, 14, 14, 32, 3, 1, 1, 1, 1),
    "1x1": (1, 48, 14, 14, 24, 1, 1, 0, 1, 1),
    "1x1 of large planes": (1, 16, 56, 56, 64, 1, 1, 0, 1, 1),
    "1x1, odd pixels": (1, 16, 13, 13, 24, 1, 1, 0, 1, 1),
    "1x1, deep": (1, 300, 7, 7, 24, 1, 1, 0, 1, 1),
    "1x1, deep, cut rows": (1, 260, 11, 11, 40, 1, 1, 0, 1, 1),
    "1x1 grouped": (1, 24, 14, 14, 68, 1, 1, 0, 1, 2),
    "1x1 strided": (1, 16, 14, 14, 32, 1, 2, 0, 1, 1),
    "7x7 strided": (1, 3, 30, 30, 16, 7, 2, 3, 1, 1),
    "5x5 dilated": (1, 8, 17, 17, 8, 5, 1, 4, 2, 1),
    "grouped": (1, 32, 9, 9, 32, 3, 1, 1, 1, 4),
    "grouped, few channels": (1, 12, 9, 9, 12, 3, 1, 1, 1, 4),
    "depthwise": (1, 24, 14, 14, 24, 3, 1, 1, 1, 24),
    "depthwise strided": (1, 24, 15, 15, 24, 3, 2, 1, 1, 24),
    "depthwise of two": (1, 8, 9, 9, 16, 3, 1, 1, 1, 8),
    "batch": (3, 8, 10, 10, 16, 3, 1, 1, 1, 1),
    "prime sizes": (1, 7, 13, 11, 29, 3, 1, 1, 1, 1),
    "one filter": (1, 16, 8, 8, 1, 3, 1, 1, 1, 1),
    "one pixel": (1, 64, 1, 1, 40, 1, 1, 0, 1, 1),
    "no image": (0, 8, 6, 6, 8, 3, 1, 1, 1, 1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("constant", [False, True], ids=["parameter", "constant"])
def test_a_convolution_equals_the_sum_over_its_windows(case, constant):
    batch, channels, height, width, filters, window, stride, padding, dilation, groups = case
    x = normal(batch, channels, height, width)
    w = normal(filters, channels // groups, window, window, seed=1)

    def build(x, w):
        return op.nn.conv2d(x, w, stride, padding, dilation, groups)

    got = run(build, [x], [w]) if constant else run(build, [x, w])
    expected = reference(x, w, stride, padding, dilation, groups)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("window", [1, 3])
def test_an_epilogue_of_scale_bias_residual_and_relu_is_computed(window):
    x, w = normal(1, 16, 14, 14), normal(32, 16, window, window, seed=1)
    s, b, r = normal(1, 32, 1, 1), normal(1, 32, 1, 1, seed=3), normal(1, 32, 14, 14, seed=2)

    def build(x, r, w, s, b):
        y = op.nn.conv2d(x, w, padding=window // 2)
        return op.nn.relu(op.add(op.add(op.multiply(y, s), b), r))

    expected = np.maximum(reference(x, w, padding=window // 2) * s + b + r, 0)
    got = run(build, [x, r], [w, s, b])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_nhwc_is_right():
    x, w = normal(1, 16, 10, 12), normal(24, 16, 3, 3, seed=1)

    def build(x, w):
        return op.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO")

    got = run(build, [x.transpose(0, 2, 3, 1), np.ascontiguousarray(w.transpose(2, 3, 1, 0))])
    expected = reference(x, w, padding=1).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "out", "tolerance"), [("float16", None, 0.1), ("int8", "int32", 0)]
)
def test_other_dtypes_are_right(dtype, out, tolerance):
    x = normal(1, 8, 9, 9, dtype=dtype)
    w = normal(16, 8, 3, 3, dtype=dtype, seed=1)
    got = run(lambda x, w: op.nn.conv2d(x, w, padding=1, out_dtype=out), [x], [w])
    np.testing.assert_allclose(got, reference(x, w, padding=1), rtol=tolerance, atol=tolerance)
