"""Reading and writing without rewriting gives the same module."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tests.relax.programs import PROGRAMS, build_program
from tests.relax.support import assert_same, bindings, canonicalize, round_trip, terms

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@I.ir_module
class EveryBinding:
    @T.prim_func(s_tir=True)
    def add_one(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] + T.float32(1)

    @R.function(private=True)
    def helper(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.exp(x)
            R.output(y)
        return y

    @R.function
    def calls(x: R.Tensor((4,), "float32")):
        cls = EveryBinding
        with R.dataflow():
            a = R.nn.relu(x)
            alias = a
            b = R.call_tir(cls.add_one, (alias,), out_ty=R.Tensor((4,), "float32"))
            c = cls.helper(b)
            d = R.call_pure_packed("my.f", c, ty_args=R.Tensor((4,), "float32"))
            e = R.call_dps_packed("my.g", (d,), out_ty=R.Tensor((4,), "float32"))
            R.output(e)
        return e

    @R.function
    def tuples(x: R.Tensor((4, 6), "float32")):
        with R.dataflow():
            parts = R.split(x, 3, axis=1)
            first = parts[0]
            third = parts[2]
            pair = (first, third)
            joined = R.concat(pair, axis=-1)
            inline = R.concat((third, first, R.const([[1.0]] * 4, "float32")), axis=1)
            nested = ((first, pair), joined)
            R.output(nested, inline)
        return (nested, inline)

    @R.function
    def numbers_and_shapes(x: R.Tensor((2, 3), "float32"), y: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        with R.dataflow():
            shape = R.shape([3, 2])
            a = R.reshape(x, shape)
            bound = R.prim_value(3)
            b = R.clip(a, 0, bound)
            c = R.strided_slice(b, [0], [1], [3])
            d = R.reshape(y, R.shape([n * 4]))
            e = R.full(R.shape([n, 2]), R.const(1.0, "float32"), "float32")
            f = R.broadcast_to(c, R.shape([2, 2, 2]))
            R.output(shape, b, d, e, f)
        return (shape, b, d, e, f)

    @R.function
    def aliases_as_outputs(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = a
            c = a
            d = x
            e = R.const(2.0, "float32")
            R.output(b, c, d, e)
        return (b, c, d, e)

    @R.function
    def barriers(x: R.Tensor(("n",), "float32")):
        m = T.int64()
        with R.dataflow():
            a = R.exp(x)
            b = R.match_cast(a, R.Tensor((m,), "float32"))
            c = R.sqrt(b)
            d = R.builtin.stop_lift_params(c)
            e = R.add(d, b)
            R.output(e)
        return e

    @R.function
    def branches(x: R.Tensor((4,), "float32"), c: R.Prim("bool")):
        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        if c:
            with R.dataflow():
                y = R.sqrt(a)
                z = R.add(y, y)
                R.output(z)
            w = z
        else:
            w = a
        return w

    @R.function(pure=False)
    def several_blocks(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.sqrt(a)
            R.output(a, b)
        _ = R.print(a, format="{}")
        with R.dataflow():
            c = R.add(a, b)
            R.output(c)
        return c


def test_every_kind_of_binding_comes_back():
    before = EveryBinding.script()
    after = round_trip(EveryBinding)
    assert_same(EveryBinding, after)
    assert EveryBinding.script() == before  # the input is not touched


def test_outputs_are_the_same_objects_and_untouched_bindings_too():
    for name in ("calls", "tuples", "numbers_and_shapes", "aliases_as_outputs"):
        before = EveryBinding[name]
        after = round_trip(EveryBinding)[name]
        old = {b.var: b for b in bindings(before)}
        new = {b.var: b for b in bindings(after)}
        outputs = [v for v in old if not isinstance(v, relax.DataflowVar)]
        assert outputs
        assert all(v in new for v in outputs)
        kept = [v for v in new if new[v].same_as(old.get(v))]
        if name in ("tuples", "numbers_and_shapes"):
            assert kept == list(old)


def _with_weights_of_their_own(module):
    """Return the module with another value in every constant tensor, so that none are equal."""
    count = [0]

    @relax.expr_functor.mutator
    class Change(relax.PyExprMutator):
        def visit_generic_const_(self, op):
            if not isinstance(op.ty, relax.TensorType) or not len(op.value.shape):
                return op
            array = op.value.numpy().copy()
            count[0] += 1
            array.reshape(-1)[0] = count[0]
            return relax.const(array, str(op.value.dtype))

    new = module.clone()
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            new.update_func(variable, Change().visit_expr(function))
    return new


@pytest.mark.parametrize("name", ["squeezenet", "inception_v1", "shufflenet", "resnet50"])
def test_onnx_models_come_back(name):
    model = _with_weights_of_their_own(from_onnx(onnx.load(LIGHT / f"light_{name}.onnx")))
    assert_same(model, round_trip(model))


def test_equal_bindings_are_written_once():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(x)
                c = R.add(a, b)
                d = R.add(b, a)
                R.output(c, d)
            return (c, d)

    written = [str(b.var.name) for b in bindings(round_trip(M)["main"])]
    assert written == ["a", "c", "d"]


@settings(max_examples=60, deadline=None)
@given(PROGRAMS, st.lists(st.integers(0, 99), min_size=1, max_size=3))
def test_random_functions_compute_the_same_terms(program, outputs):
    module = build_program(program, outputs)
    before = module.script()
    after = round_trip(module)
    assert module.script() == before
    table: dict[object, int] = {}
    numbers, expected = terms(module["main"], table)
    _, actual = terms(after["main"], table)
    assert actual == expected
    canonical = canonicalize(module)
    numbers, _ = terms(canonical["main"], table)
    if len(set(numbers.values())) == len(numbers):  # no term twice: nothing to share
        assert_same(module, after)
