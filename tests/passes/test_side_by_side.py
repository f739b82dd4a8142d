"""Forms of a module that are built as one module compute what each computes alone."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from tvm.target import Target

from tests.passes import models
from tvm_tensat.passes import guard, kernels, side_by_side
from tvm_tensat.passes.hardware import Hardware

compile_ = tvm.compile
LLVM = Target("llvm")


@I.ir_module
class Plus:
    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.Buffer((4, 4), "float32"), y: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.sblock("twice"):
                a, b = T.axis.remap("SS", [i, j])
                y[a, b] = x[a, b] * T.float32(2)

    @R.function(private=True)
    def inner(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        with R.dataflow():
            y = R.add(x, R.const(1.0, "float32"))
            R.output(y)
        return y

    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = Plus
        y = cls.inner(x)
        with R.dataflow():
            z = R.call_tir(cls.twice, (y,), out_ty=R.Tensor((4, 4), "float32"))
            R.output(z)
        return z


@I.ir_module
class Weighted:
    @R.function
    def main(
        x: R.Tensor((4, 8), "float32"),
        v: R.Tensor((8, 8), "float32"),
        w: R.Tensor((8, 8), "float32"),
    ) -> R.Tensor((4, 8), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            u = R.add(v, w)
            y = R.matmul(x, u)
            R.output(y)
        return y


def build(**modules: tvm.IRModule) -> dict[str, side_by_side.Form]:
    return side_by_side.build(modules, LLVM, None, Hardware(tvm.cpu(), LLVM))


def result(form: side_by_side.Form, *arrays: np.ndarray) -> np.ndarray:
    [value] = guard.flatten(form.runner("main", [tvm.runtime.tensor(a) for a in arrays])())
    return value


def test_each_form_calls_its_own_functions() -> None:
    minus = tvm.IRModule(Plus.functions, attrs=Plus.attrs)
    [inner] = [v for v in Plus.functions if v.name_hint == "inner"]
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    with builder.function("inner", [x], private=True):
        with builder.dataflow():
            y = builder.emit_output(relax.op.subtract(x, relax.const(1.0)))
        builder.emit_func_output(y)
    minus[inner] = builder.get()["inner"]
    forms = build(plus=Plus, minus=minus, same=Plus)
    x = np.random.default_rng(0).standard_normal((4, 4)).astype("float32")
    np.testing.assert_allclose(result(forms["plus"], x), 2 * (x + 1), rtol=1e-6)
    np.testing.assert_allclose(result(forms["minus"], x), 2 * (x - 1), rtol=1e-6)
    np.testing.assert_allclose(result(forms["same"], x), 2 * (x + 1), rtol=1e-6)


def test_forms_that_share_variables_are_built() -> None:
    module = models.shared_products()
    again = tvm.IRModule(module.functions)
    forms = build(one=module, two=again)
    x = np.random.default_rng(0).standard_normal((16, 64)).astype("float32")
    np.testing.assert_array_equal(result(forms["one"], x), result(forms["two"], x))


def test_weights_are_transformed_before_the_call_and_not_in_it() -> None:
    form = build(weighted=Weighted)["weighted"]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in ((4, 8), (8, 8), (8, 8))]
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    run = form.runner("main", tensors)
    tensors[1].copyfrom(np.zeros((8, 8), "float32"))  # too late to matter
    [value] = guard.flatten(run())
    np.testing.assert_allclose(value, arrays[0] @ (arrays[1] + arrays[2]), rtol=1e-5, atol=1e-5)


def test_kernels_are_built_once_in_a_process(monkeypatch) -> None:
    module = models.shared_products(rows=7, width=24)
    compiled = []
    monkeypatch.setattr(
        kernels.tvm,
        "compile",
        lambda module, target: compiled.append(module) or compile_(module, target),
    )
    first = build(one=module, two=tvm.IRModule(module.functions))
    names = [variable.name_hint for part in compiled for variable in part.functions]
    assert len(names) == len(set(names)) > 0
    compiled.clear()
    again = build(one=module)
    assert not compiled
    x = np.random.default_rng(0).standard_normal((7, 24)).astype("float32")
    np.testing.assert_array_equal(result(first["one"], x), result(again["one"], x))


def test_kernels_of_one_hash_are_told_apart(monkeypatch) -> None:
    monkeypatch.setattr(kernels.tvm_ffi, "structural_hash", lambda _: 7)
    form = build(one=models.shared_products(rows=5, width=24))["one"]
    x = np.random.default_rng(0).standard_normal((5, 24)).astype("float32")
    monkeypatch.undo()
    alone = build(one=models.shared_products(rows=5, width=24))["one"]
    np.testing.assert_array_equal(result(form, x), result(alone, x))
