"""Which rule takes which kernel, so that a kernel that silently falls through is noticed."""

import pytest
from tvm import relax
from tvm.relax import op

from .kernels import normal, rules_of

CONVOLUTION = normal(16, 8, 3, 3)
IMAGE = normal(1, 8, 14, 14)

KERNELS = {
    "matmul": (op.matmul, [normal(64, 32), normal(32, 48)], "Matmul"),
    "batched matmul": (op.matmul, [normal(4, 16, 32), normal(4, 32, 16)], "Matmul"),
    "vector by matrix": (op.matmul, [normal(1, 64), normal(64, 64)], "Matmul"),
    "matrix by vector": (op.matmul, [normal(64, 64), normal(64)], "Reduction"),
    "matmul of odd sizes": (op.matmul, [normal(7, 13), normal(13, 11)], "Matmul"),
    "matmul with epilogue": (
        lambda x, w, b: op.nn.gelu(op.add(op.matmul(x, w), b)),
        [normal(16, 32), normal(32, 24), normal(24)],
        "Matmul",
    ),
    "matmul with two results": (
        lambda x, w: relax.TupleGetItem(op.nn.dropout(op.nn.relu(op.matmul(x, w))), 0),
        [normal(1, 64), normal(64, 48)],
        "Matmul",
    ),
    "pool with two results": (
        lambda x: relax.TupleGetItem(op.nn.dropout(op.nn.avg_pool2d(x, (14, 14))), 0),
        [IMAGE],
        "Reduction",
    ),
    "shallow conv2d 1x1": (
        lambda x, w: op.nn.relu(op.nn.conv2d(x, w)),
        [normal(1, 16, 28, 28), normal(32, 16, 1, 1)],
        "Conv2d",
    ),
    "conv2d": (lambda x, w: op.nn.conv2d(x, w, padding=1), [IMAGE, CONVOLUTION], "Conv2d"),
    "conv2d strided": (lambda x, w: op.nn.conv2d(x, w, 2), [IMAGE, CONVOLUTION], "Conv2d"),
    "conv2d 1x1": (op.nn.conv2d, [IMAGE, normal(16, 8, 1, 1)], "Conv2d"),
    "conv2d grouped": (
        lambda x, w: op.nn.conv2d(x, w, groups=2),
        [normal(1, 16, 9, 9), normal(32, 8, 3, 3)],
        "Conv2d",
    ),
    "conv2d with epilogue": (
        lambda x, w, r: op.nn.relu(op.add(op.nn.conv2d(x, w, padding=1), r)),
        [IMAGE, CONVOLUTION, normal(1, 16, 14, 14)],
        "Conv2d",
    ),
    "depthwise": (
        lambda x, w: op.nn.conv2d(x, w, groups=8, padding=1),
        [IMAGE, normal(8, 1, 3, 3)],
        "Window",
    ),
    "max pool": (lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2)), [IMAGE], "Window"),
    "global pool": (lambda x: op.mean(x, [2, 3]), [IMAGE], "Reduction"),
    "softmax": (op.nn.softmax, [normal(8, 64)], "Reduction"),
    "layer norm": (
        lambda x, s, t: op.nn.layer_norm(x, s, t, [-1]),
        [normal(8, 64), normal(64), normal(64)],
        "Reduction",
    ),
    "sum": (lambda x: op.sum(x, [0]), [normal(8, 64)], "Reduction"),
    "relu": (op.nn.relu, [IMAGE], "Elementwise"),
    "transpose": (op.permute_dims, [normal(64, 32)], "Elementwise"),
    "concat": (lambda x, y: op.concat([x, y], 1), [IMAGE, IMAGE], "Elementwise"),
    "pad": (lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]), [IMAGE], "Elementwise"),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_each_kind_of_kernel_is_taken_by_its_rule(kernel):
    build, inputs, rule = kernel
    assert rules_of(build, inputs) == [rule]
