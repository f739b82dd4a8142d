import subprocess
import sys

import numpy as np
import pytest
import tvm
from tvm import relax, s_tir, tirx
from tvm.relax import op
from tvm.s_tir import meta_schedule as ms

from tvm_tensat.schedule import build_pipeline, cpu_rules, fingerprint
from tvm_tensat.schedule.constants import PackConstantWeights
from tvm_tensat.schedule.rule import CpuRule

from .kernels import HOST, model, normal, run, variables


class Broken(CpuRule):
    def schedule(self, sch, unit):
        sch.get_sblock("no such block")


def legalized(build, inputs, constants=()):
    from tvm.relax.backend.cpu_generic import pipeline

    mod = model(build, variables(inputs), constants)
    with HOST:
        return tvm.transform.Sequential(pipeline.legalize_passes(HOST))(mod)


def test_a_rule_that_fails_passes_the_kernel_on_unchanged():
    mod = legalized(op.nn.relu, [normal(4, 8)])
    with HOST:
        after = tvm.s_tir.dlight.ApplyDefaultSchedule(Broken())(mod)
    tvm.ir.assert_structural_equal(after, mod)


def test_packing_changes_only_constants_and_the_kernels_that_read_them():
    x, w, b = normal(16, 32), normal(32, 48, seed=1), normal(48)
    build = lambda x, w, b: op.add(op.matmul(x, w), b)  # noqa: E731
    with_constants = PackConstantWeights(HOST)(legalized(build, [x], [w, b]))
    names = {str(var.name_hint) for var in with_constants.get_global_vars()}
    assert any(name.endswith("_packed") for name in names)
    without = legalized(build, [x, w, b])
    tvm.ir.assert_structural_equal(PackConstantWeights(HOST)(without), without)


def test_one_kernel_serves_constant_and_computed_weights():
    x, w, v = normal(16, 32), normal(32, 32, seed=1), normal(32, 32, seed=2)
    got = run(lambda x, w, v: op.matmul(op.matmul(x, w), v), [x, w], [v])
    np.testing.assert_allclose(got, x @ w @ v, rtol=1e-4, atol=1e-3)


def test_a_model_of_several_kernels_equals_the_default_pipelines():
    x, w1, w2 = normal(1, 3, 20, 20), normal(16, 3, 3, 3), normal(16, 10)

    def build(x, w1, w2):
        y = op.nn.relu(op.nn.conv2d(x, w1, 2, 1))
        y = op.nn.max_pool2d(y, (3, 3), (2, 2), 1)
        return op.nn.softmax(op.matmul(op.mean(y, [2, 3]), w2), -1)

    mod = model(build, variables([x]), [w1, w2])
    default = tvm.compile(mod, HOST, relax_pipeline=relax.get_default_pipeline(HOST))
    expected = relax.VirtualMachine(default, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
    got = run(build, [x], [w1, w2])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_tuning_records_take_precedence(tmp_path):
    x = normal(8, 24)
    mod = legalized(op.nn.relu, [x])
    (kernel,) = [f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    tuned = s_tir.Schedule(kernel)
    (block,) = tuned.get_child_blocks(tuned.get_sblock("root"))
    tuned.annotate(tuned.get_loops(block)[0], "from_the_record", 1)
    normalized = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    tuned = s_tir.Schedule(normalized)
    (block,) = tuned.get_child_blocks(tuned.get_sblock("root"))
    tuned.annotate(tuned.get_loops(block)[0], "from_the_record", 1)
    workload = database.commit_workload(normalized)
    record = ms.database.TuningRecord(tuned.trace, workload, [1.0], HOST)
    database.commit_tuning_record(record)

    seen = []

    @tvm.transform.module_pass(opt_level=0)
    def spy(module, _context):
        seen.append(module.script())
        return module

    executable = tvm.compile(
        model(op.nn.relu, variables([x])),
        HOST,
        relax_pipeline=tvm.transform.Sequential([build_pipeline(HOST, tmp_path), spy]),
    )
    assert "from_the_record" in seen[0]
    got = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_array_equal(got, np.maximum(x, 0))


def test_a_gpu_target_is_scheduled_by_tvms_own_rules():
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
    mod = model(op.matmul, variables([normal(64, 64), normal(64, 64)]))
    with target:
        after = build_pipeline(target)(mod)
    assert "threadIdx.x" in after.script()


def test_the_c_target_gets_no_vectors():
    target = tvm.target.Target("c")
    mod = model(op.matmul, variables([normal(16, 32), normal(32, 24)]))
    with target:
        after = build_pipeline(target)(mod)
    assert "T.vectorized" not in after.script()
    assert "tvm_tensat.scheduled_by" in after.script()


def test_the_fingerprint_is_a_digest_and_the_same_in_every_process():
    code = "from tvm_tensat.schedule import fingerprint; print(fingerprint())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == fingerprint()
    assert len(fingerprint()) == 64


@pytest.mark.parametrize("rule", cpu_rules(), ids=lambda rule: type(rule).__name__)
def test_no_rule_takes_kernels_of_other_targets(rule):
    mod = legalized(op.nn.relu, [normal(4, 8)])
    (kernel,) = [f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
    assert rule.apply(kernel, tvm.target.Target({"kind": "cuda", "arch": "sm_90"}), False) is None
