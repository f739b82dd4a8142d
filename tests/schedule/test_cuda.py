"""Models are built for NVIDIA GPUs where nvcc is there, also on machines without one."""

import shutil

import pytest
import tvm
from tvm.relax import op

from tvm_tensat.schedule import build_pipeline

from .kernels import model, normal, variables

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_small_model_is_built_for_a_gpu(arch, tmp_path):
    target = tvm.target.Target({"kind": "cuda", "arch": arch}, host="llvm")

    def build(x, w, v):
        y = op.nn.relu(op.nn.conv2d(x, w, 1, 1))
        return op.nn.softmax(op.matmul(op.mean(y, [2, 3]), v))

    constants = [normal(16, 3, 3, 3), normal(16, 10)]
    module = model(build, variables([normal(1, 3, 16, 16)]), constants)
    with target:
        executable = tvm.compile(module, target, relax_pipeline=build_pipeline(target))
    executable.export_library(str(tmp_path / "model.so"))
    [host] = executable.mod.imports
    [code] = host.imports
    assert code.kind == "cuda"
    assert code.inspect_source().count("__global__") >= 3  # convolution, mean, product, softmax
