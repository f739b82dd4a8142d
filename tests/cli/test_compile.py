"""``tvmc compile`` as a process: what it accepts, writes and refuses."""

import json
import sys

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from tests.cli.conftest import WEIGHT, write_onnx
from tvm_tensat.cli.main import main
from tvm_tensat.files import replacing

RELU = helper.make_node("Relu", ["x"], ["y"], name="rectify")


def _relu_module():
    x = relax.Var("x", relax.TensorType((2, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            shift = relax.const(np.full((4,), 0.5, np.float32))
            output = builder.emit_output(relax.op.nn.relu(relax.op.add(x, shift)))
        builder.emit_func_output(output)
    return builder.get()


def _outputs(tvmc, folder, library, name, x):
    np.savez(folder / f"{name}_in.npz", x=x)
    done = tvmc("run", library, "-i", f"{name}_in.npz", "-o", f"{name}_out.npz")
    assert done.returncode == 0, done.stderr
    with np.load(folder / f"{name}_out.npz") as outputs:
        return outputs["output_0"]


def test_squeezenet_compiles_and_runs(tvmc, folder):
    done = tvmc("compile", "zoo:squeezenet", "--target", "llvm", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["output"] == "squeezenet.so"
    assert summary["target"]["mcpu"]  # a bare llvm means this machine's CPU, by name
    (image,) = summary["signature"]["inputs"]
    assert (image["name"], image["shape"]) == ("data_0", [1, 3, 224, 224])

    done = tvmc("run", "squeezenet.so", "--print-time", "--repeat", 2, "-o", "probabilities.npz")
    assert done.returncode == 0, done.stderr
    names, values = done.stdout.splitlines()
    assert names.split()[::2] == ["mean", "median", "std", "min", "max"]
    mean, median, std, low, high = map(float, values.split())
    assert 0 < low <= median <= high
    assert low <= mean <= high
    assert std == pytest.approx((high - low) / 2, abs=2e-4)  # of two measurements
    with np.load(folder / "probabilities.npz") as outputs:
        assert outputs["output_0"].sum() == pytest.approx(1, abs=1e-3)


def test_relax_as_text_and_as_json_give_the_same_library(tvmc, folder):
    module = _relu_module()
    imports = "import tvm\nfrom tvm.script import ir as I\nfrom tvm.script import relax as R\n"
    (folder / "text.py").write_text(imports + module.script(show_meta=True), encoding="utf-8")
    (folder / "data.json").write_text(tvm.ir.save_json(module), encoding="utf-8")
    x = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
    for model in ("text.py", "data.json"):
        done = tvmc("compile", model, "--target", '{"kind": "llvm"}')
        assert done.returncode == 0, done.stderr
        output = _outputs(tvmc, folder, model.partition(".")[0] + ".so", "relu", x)
        np.testing.assert_allclose(output, np.maximum(x + 0.5, 0), rtol=1e-6)


def test_input_shapes_replace_symbolic_dimensions(tvmc, folder):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    write_onnx(
        folder / "symbolic.onnx",
        node,
        inputs={"x": ["n", 4]},
        outputs={"y": ["n", 3]},
        weights={"w": WEIGHT},
    )
    done = tvmc("compile", "symbolic.onnx", "--target", "llvm", "--input-shapes", "x:[5,4]")
    assert done.returncode == 0, done.stderr
    x = np.ones((5, 4), np.float32)
    output = _outputs(tvmc, folder, "symbolic.so", "fixed", x)
    np.testing.assert_allclose(output, x @ WEIGHT, rtol=1e-6)


def test_symbolic_dimensions_may_stay(tvmc, fails, folder):
    write_onnx(folder / "any.onnx", RELU, inputs={"x": ["n", 4]}, outputs={"y": ["n", 4]})
    assert tvmc("compile", "any.onnx", "--target", "llvm").returncode == 0
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(_outputs(tvmc, folder, "any.so", "any", x), np.maximum(x, 0))
    assert "float32 [n, 4]: has no fixed shape" in fails("run", "any.so")


def test_verbose_says_the_target_and_adds_the_traceback(tvmc, product_onnx):
    done = tvmc("compile", product_onnx, "--target", "llvm", "-v", "-o", "verbose.so")
    assert done.returncode == 0
    assert f'"mcpu": "{tvm.target.codegen.llvm_get_system_cpu()}"' in done.stderr
    done = tvmc("compile", "absent.onnx", "--target", "llvm", "-v")
    assert done.returncode == 4
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("tvmc: error: absent.onnx: no such file")


def test_a_file_that_is_no_onnx_model_is_refused(fails, folder, product_onnx):
    (folder / "text.onnx").write_text("this is no model", encoding="utf-8")
    assert "text.onnx: not an ONNX model" in fails("compile", "text.onnx", "--target", "llvm")
    (folder / "cut.onnx").write_bytes(product_onnx.read_bytes()[:-20])
    assert "a truncated one" in fails("compile", "cut.onnx", "--target", "llvm")
    (folder / "empty.onnx").write_bytes(b"")
    assert "holds no ONNX graph" in fails("compile", "empty.onnx", "--target", "llvm")


def test_an_unsupported_operator_is_named_with_its_node(fails, folder):
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="node_7")
    write_onnx(folder / "unknown.onnx", node, inputs={"x": [2]}, outputs={"y": [2]})
    line = fails("compile", "unknown.onnx", "--target", "llvm")
    assert "operator Frobnicate (node 'node_7') is not supported" in line


def test_an_unsupported_form_is_named_with_its_node(fails, folder):
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], name="best")
    write_onnx(folder / "form.onnx", node, inputs={"x": [2, 4], "k": [1]}, outputs={"y": [2, 2]})
    line = fails("compile", "form.onnx", "--target", "llvm")
    assert "operator TopK (node 'best') cannot be imported" in line


def test_an_unsupported_opset_is_refused(fails, folder):
    write_onnx(folder / "new.onnx", RELU, inputs={"x": [2]}, outputs={"y": [2]}, opset=999)
    line = fails("compile", "new.onnx", "--target", "llvm")
    assert "opset 999 is unsupported" in line


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("frobnicator", 'Target kind "frobnicator" is not defined; expected a kind'),
        ("llvm -mcpu=znver3", '--target \'{"kind": "llvm", "mcpu": "znver3"}\''),
        ('{"kind": "llvm", "mcpu": "mos6502"}', "LLVM knows no CPU 'mos6502'"),
        ('{"kind": "llvm"', "not JSON"),
    ],
)
def test_an_unknown_target_is_refused(fails, product_onnx, target, reason):
    assert reason in fails("compile", product_onnx, "--target", target)


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ("x:[2,many]", "expected positive integers"),
        ("z:[2,4]", "has no input 'z'; it has x"),
        ("x:[2,4,1]", "x has 2 dimensions"),
    ],
)
def test_bad_input_shapes_are_refused(fails, product_onnx, shapes, reason):
    line = fails("compile", product_onnx, "--target", "llvm", "--input-shapes", shapes)
    assert reason in line


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--frobnicate"], "unknown argument --frobnicate"),
        (["--tensat-iteration", "3"], "is it --tensat-iterations?"),
        (["--tensat-iterations", "3"], "needs --tensat"),
        (["--tensat", "--tensat-iterations", "few"], "invalid int value: 'few'"),
        (["-o", "absent/product.so"], "the folder absent does not exist"),
        (["-o", "product.dll"], "expected a name that ends in .so"),
        (["--tuning-records", "absent"], "no such folder"),
        (["--rpc-key", "board"], "--rpc-key: needs --tensat"),
        (["--tensat", "--rpc-key", "board"], "expected both or none"),
        (
            ["--tensat", "--tensat-strict", "on", "--rpc-key", "board", "--rpc-tracker", "::1:1"],
            "no RPC tracker answers at ::1:1",
        ),
        (["--cross-compiler", "no-such-compiler"], "linking needs a C++ compiler"),
    ],
)
def test_bad_options_are_refused(fails, product_onnx, arguments, reason):
    assert reason in fails("compile", product_onnx, "--target", "llvm", *arguments)


def test_without_onnx_the_exit_code_is_5(product_onnx, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "onnx", None)  # any import of it fails now
    assert main(["compile", str(product_onnx), "--target", "llvm"]) == 5
    assert "pip install 'tvm-tensat[onnx]'" in capfd.readouterr().err


def test_a_failed_export_leaves_the_old_library(folder):
    path = folder / "kept.so"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(OSError, match="disk full"), replacing(path) as file:
        file.write_text("half of the n", encoding="utf-8")
        raise OSError("disk full")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(folder.glob(".kept*")) == []


def test_tensat_optimizes_and_the_outputs_stay(tvmc, folder):
    generator = np.random.default_rng(0)
    weights = {n: generator.standard_normal((64, 64)).astype(np.float32) for n in "ab"}
    nodes = [helper.make_node("MatMul", ["x", n], [f"out_{n}"], name=n) for n in "ab"]
    outputs = {f"out_{n}": [16, 64] for n in "ab"}
    write_onnx(
        folder / "two.onnx", *nodes, inputs={"x": [16, 64]}, outputs=outputs, weights=weights
    )
    options = ["--tensat", "--tensat-costs", "estimated", "--tensat-race", "false"]
    done = tvmc(
        "compile", "two.onnx", "--target", "llvm", "--json", *options, "--tensat-report", "two.json"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((folder / "two.json").read_text(encoding="utf-8"))
    assert json.loads(done.stdout)["tensat"] == report
    assert report["options"]["costs"] == "estimated"
    assert report["options"]["race"] is False

    x = generator.standard_normal((16, 64)).astype(np.float32)
    np.savez(folder / "two_in.npz", x=x)
    assert tvmc("run", "two.so", "-i", "two_in.npz", "-o", "two_out.npz").returncode == 0
    with np.load(folder / "two_out.npz") as results:
        for place, n in enumerate("ab"):
            np.testing.assert_allclose(
                results[f"output_{place}"], x @ weights[n], rtol=1e-3, atol=1e-4
            )
