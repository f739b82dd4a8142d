"""Copies of a kernel stay apart: each has weights of its own, and each is run."""

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.cost.kernels import TARGET, matmul, relu
from tvm_tensat.cost import Kernel
from tvm_tensat.cost.rotation import FEWEST_COPIES, MAX_COPIES, rotate
from tvm_tensat.schedule import build_pipeline

KIB = 1 << 10


@pytest.mark.parametrize(
    ("rotation_bytes", "copies"), [(0, 1), (16 * KIB, 1), (60 * KIB, 4), (1 << 30, MAX_COPIES)]
)
def test_the_weights_of_all_copies_fill_the_rotation(rotation_bytes: int, copies: int) -> None:
    """The weights of one copy are 64 x 64 floats: 16 KiB."""
    kernel = matmul(1, 64, 64)
    assert rotate(kernel.module, kernel.weights, rotation_bytes).copies == copies


def test_each_copy_has_its_own_weights_and_all_have_the_same_activations() -> None:
    kernel = matmul(1, 64, 64)
    rotation = rotate(kernel.module, kernel.weights, 64 * KIB)
    constants: list[np.ndarray] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GenericConst):
            constants.append(expr.value.numpy())

    relax.analysis.post_order_visit(rotation.module["main"], visit)
    assert len({value.tobytes() for value in constants}) == rotation.copies == 4
    assert len(rotation.activations) == len(rotation.module["main"].params) == 1


def test_a_kernel_without_weights_has_activations_for_each_copy() -> None:
    kernel = relu(8)
    rotation = rotate(kernel.module, kernel.weights, 64 * KIB)
    assert rotation.copies == len(rotation.activations) == FEWEST_COPIES


@pytest.mark.parametrize("kernel", [matmul(1, 64, 64), relu(8)], ids=lambda k: k.key)
def test_the_build_keeps_every_copy(kernel: Kernel) -> None:
    rotation = rotate(kernel.module, kernel.weights, 64 * KIB)
    relax.analysis.well_formed(rotation.module)
    with TARGET:
        built = tvm.compile(rotation.module, TARGET, relax_pipeline=build_pipeline(TARGET))
    main = built.as_text().split("@main:")[1].split("ret ")[0]
    called = [line.split()[1] for line in main.splitlines() if line.split()[:1] == ["call"]]
    name = kernel.key.split()[0]
    assert sum(function.startswith(name) for function in called) == rotation.copies
