"""Weights computed at compile time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R

from tests.relax.programs import PROGRAMS, build_program
from tests.relax.support import bindings, run
from tvm_tensat.relax.fold import fold_weights


def _operators(function):
    return [
        str(b.value.op.name) if isinstance(b.value, relax.Call) else type(b.value).__name__
        for b in bindings(function)
    ]


def _module(build):
    """Return a module of one dataflow block that `build(builder, x)` fills, x being 4x4."""
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(build(builder, x))
        builder.emit_func_output(output)
    return builder.finalize()


A = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
X = np.random.default_rng(2).standard_normal((4, 4)).astype(np.float32)


def test_what_depends_on_constants_only_becomes_a_constant():
    def build(builder, x):
        w = builder.emit(relax.op.permute_dims(relax.const(A)))
        w = builder.emit(relax.op.concat([w, relax.const(A)], axis=1))
        halves = builder.emit(relax.op.split(w, 2, axis=1))
        y = builder.emit(relax.op.matmul(x, builder.emit(halves[0])))
        return builder.emit(relax.op.add(y, builder.emit(halves[1])))

    module = _module(build)
    before = module.script()
    folded = fold_weights(module)
    relax.analysis.well_formed(folded)
    assert module.script() == before
    assert _operators(folded["main"]) == ["relax.matmul", "relax.add", "DataflowVar"]
    matmul, add = (b.value for b in bindings(folded["main"])[:2])
    np.testing.assert_array_equal(matmul.args[1].value.numpy(), A.T)
    np.testing.assert_array_equal(add.args[1].value.numpy(), A)
    np.testing.assert_allclose(run(folded, X)[0], run(module, X)[0], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "float64"])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "divide"])
def test_numbers_in_place_of_an_operand_are_computed_with(name, dtype):
    # TVM's own FoldBatchnormToConv2D writes variance + epsilon so.
    operator = getattr(relax.op, name)
    weight = np.arange(1, 17).reshape(4, 4).astype(dtype)
    number = (tirx.FloatImm if "float" in dtype else tirx.IntImm)(dtype, 3)

    def build(builder, x):
        constant = relax.const(weight, dtype)  # of its own accord it makes 64 bits 32
        parts = [operator(constant, number), operator(number, constant)]
        parts = [builder.emit(relax.op.astype(builder.emit(part), "float32")) for part in parts]
        y = builder.emit(relax.op.add(x, parts[0]))
        return builder.emit(relax.op.add(y, parts[1]))

    module = _module(build)
    folded = fold_weights(module)
    assert _operators(folded["main"]) == ["relax.add", "relax.add", "DataflowVar"]
    np.testing.assert_array_equal(run(folded, X)[0], run(module, X)[0])


def test_a_function_gives_a_function():
    module = _module(lambda builder, x: relax.op.add(x, builder.emit(relax.op.exp(relax.const(A)))))
    folded = fold_weights(module["main"])
    assert isinstance(folded, relax.Function)
    assert _operators(folded) == ["relax.add"]


def test_without_weights_the_function_is_the_same_object():
    module = _module(lambda builder, x: relax.op.exp(x))
    assert fold_weights(module["main"]).same_as(module["main"])


def test_a_scalar_spread_over_a_large_tensor_stays_spread():
    def build(builder, x):
        one = relax.const(1.5, "float32")
        large = builder.emit(relax.op.full((4096, 4, 4), one, "float32"))
        return builder.emit(relax.op.add(x, large))

    folded = fold_weights(_module(build))
    assert _operators(folded["main"])[:2] == ["relax.full", "relax.add"]


def test_a_spread_scalar_is_computed_where_a_weight_needs_it():
    def build(builder, x):
        large = builder.emit(relax.op.broadcast_to(relax.const([[1.5]], "float32"), (512, 64)))
        thin = builder.emit(relax.op.sum(large, axis=0))
        thin = builder.emit(relax.op.reshape(thin, (4, 4, 4)))
        return builder.emit(relax.op.add(x, thin))

    folded = fold_weights(_module(build))
    assert _operators(folded["main"])[0] == "relax.add"
    np.testing.assert_array_equal(run(folded, X)[0], X + np.full((4, 4, 4), 768, np.float32))


def test_a_small_spread_becomes_a_constant():
    def build(builder, x):
        return relax.op.add(
            x, builder.emit(relax.op.broadcast_to(relax.const([[1.5]], "float32"), (4, 4)))
        )

    assert _operators(fold_weights(_module(build))["main"])[0] == "relax.add"


def test_outputs_that_are_constant_keep_their_vars_and_tuples_their_form():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                a = R.add(R.const([1.0, 2.0], "float32"), R.const([1.0, 1.0], "float32"))
                b = (a, R.const(3.0, "float32"))
                c = R.add(x, a)
                R.output(a, b, c)
            return (a, b, c)

    folded = fold_weights(M)
    relax.analysis.well_formed(folded)
    new = {b.var: b.value for b in bindings(folded["main"])}
    outputs = [b.var for b in bindings(M["main"])]
    assert set(new) == set(outputs)
    np.testing.assert_array_equal(new[outputs[0]].value.numpy(), [2, 3])
    assert isinstance(new[outputs[1]], relax.Tuple)
    assert [out.tolist() for out in run(folded, np.ones(2, np.float32))] == [
        [2, 3],
        [2, 3],
        3.0,
        [3, 4],
    ]


def test_what_cannot_be_computed_stays():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "int32"), w: R.Tensor((2,), "int32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                zero = R.subtract(R.const([1, 1], "int32"), R.const([1, 1], "int32"))
                bad = R.divide(R.const([1, 1], "int32"), zero)
                later = R.add(bad, bad)
                packed = R.call_pure_packed(
                    "f", R.const([1, 1], "int32"), ty_args=R.Tensor((2,), "int32")
                )
                relu = R.nn.relu(zero)
                param = R.add(w, w)
                cast = R.match_cast(zero, R.Tensor((2,), "int32"))
                R.output(later, packed, relu, param, cast)
            return (later, packed, relu, param, cast)

    folded = fold_weights(M)
    relax.analysis.well_formed(folded)
    assert _operators(folded["main"]) == [
        "GenericConst",  # `zero`, which match_cast uses
        "relax.divide",
        "relax.add",
        "relax.call_pure_packed",
        "relax.nn.relu",
        "relax.add",
        "DataflowVar",
    ]


def test_functions_of_other_compilers_are_left_alone():
    module = _module(lambda builder, x: relax.op.add(x, builder.emit(relax.op.exp(relax.const(A)))))
    module.update_func(module.get_global_var("main"), module["main"].with_attr("Primitive", True))
    assert fold_weights(module)["main"].same_as(module["main"])


def test_a_model_computes_the_same():
    """Batch normalization as importers write it: everything but multiply and add vanishes."""

    def build(builder, x):
        mean, variance = relax.const(A[0]), relax.const(np.abs(A[1]))
        inverse = builder.emit(relax.op.add(variance, relax.const(1e-5, "float32")))
        inverse = builder.emit(relax.op.rsqrt(inverse))
        scale = builder.emit(relax.op.multiply(inverse, relax.const(A[2])))
        shift = builder.emit(relax.op.multiply(mean, scale))
        shift = builder.emit(relax.op.subtract(relax.const(A[3]), shift))
        return relax.op.add(builder.emit(relax.op.multiply(x, scale)), shift)

    module = _module(build)
    folded = fold_weights(module)
    assert _operators(folded["main"]) == ["relax.multiply", "relax.add"]
    np.testing.assert_allclose(run(folded, X)[0], run(module, X)[0], rtol=1e-5, atol=1e-6)


def test_bfloat16_weights_are_folded():
    def build(builder, x):
        w = builder.emit(relax.op.add(relax.const(1.5, "bfloat16"), relax.const(2.0, "bfloat16")))
        return relax.op.add(x, builder.emit(relax.op.astype(w, "float32")))

    folded = fold_weights(_module(build))
    assert _operators(folded["main"]) == ["relax.add"]
    assert float(bindings(folded["main"])[0].value.args[1].value.numpy()) == 3.5


@settings(max_examples=6, deadline=None)
@given(PROGRAMS, st.lists(st.integers(0, 99), min_size=1, max_size=2))
def test_random_functions_compute_the_same_with_one_operand_constant(program, outputs):
    x, y = A[:3, :3].copy(), X[:3, :3].copy()
    module = relax.transform.BindParams("main", {"y": y})(build_program(program, outputs))
    folded = fold_weights(module)
    relax.analysis.well_formed(folded)
    for actual, expected in zip(run(folded, x), run(module, x), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4)
