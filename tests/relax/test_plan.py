"""Segments, their outputs, and what is kept with which reason."""

from __future__ import annotations

import re

import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tests.relax.support import named
from tvm_tensat.relax.plan import Kept, Segment, plan_function


def pieces(module, name: str = "main", **options):
    """Return each piece as its outputs' names, or as the reason why it is kept."""
    plan = plan_function(module[name], named(module), **options)
    return [
        [str(v.name) for v in piece.outputs] if isinstance(piece, Segment) else piece.reason
        for block in plan.blocks
        for piece in block.pieces
    ]


def test_a_block_without_barriers_is_one_segment():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.nn.relu(a)
                c = R.sqrt(b)
                R.output(b, c)
            return (b, c)

    assert pieces(M) == [["b", "c"]]


def test_match_cast_divides_and_what_it_uses_is_an_output():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            m = T.int64()
            with R.dataflow():
                a = R.exp(x)
                _dead = R.exp(a)
                b = R.match_cast(a, R.Tensor((m,), "float32"))
                c = R.sqrt(b)
                R.output(c)
            return c

    assert pieces(M) == [["a"], "match_cast", ["c"]]


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda x: relax.op.builtin.stop_lift_params(x), "relax.builtin.stop_lift_params"),
        (lambda x: relax.op.memory.ensure_zero_offset(x), "relax.memory"),
        (lambda x: relax.op.grad.no_grad(x), "relax.grad.no_grad"),
        (lambda x: relax.op.hint_on_device(x, tvm.cpu()), "relax.hint_on_device"),
        (lambda x: relax.op.ccl.allreduce(x, "sum"), "relax.ccl.allreduce"),
        (
            lambda x: relax.op.call_pure_packed(
                relax.ExternFunc("f"), x, ty_args=relax.TensorType(dtype="float32")
            ),
            "unknown rank",
        ),
        (
            lambda x: relax.op.call_pure_packed(
                relax.ExternFunc("f"), x, ty_args=relax.ObjectType()
            ),
            "value of type",
        ),
        (
            lambda x: relax.op.call_pure_packed(
                relax.ExternFunc("f"), x, ty_args=tvm.ir.PrimType("int64")
            ),
            "scalar computed",
        ),
        (
            lambda x: relax.op.call_inplace_packed(
                relax.ExternFunc("f"), x, inplace_indices=[0], ty_args=[x.ty]
            ),
            "in-place|in place",
        ),
    ],
)
def test_barriers(build, reason):
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            before = builder.emit(relax.op.exp(x))
            kept = builder.emit(build(before))
            output = builder.emit_output(relax.op.exp(x))
            also = builder.emit_output(kept)
        builder.emit_func_output(relax.Tuple([output, also]))
    plan = plan_function(builder.finalize()["main"])
    kept_reasons = [p.reason for b in plan.blocks for p in b.pieces if isinstance(p, Kept)]
    assert kept_reasons
    assert re.search(reason, " ".join(kept_reasons))


def test_dropout_is_a_barrier_only_in_training():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.nn.dropout(x, 0.5)
                b = a[0]
                R.output(b)
            return b

    assert pieces(M) == [["b"]]
    assert pieces(M, training=True) == ["relax.nn.dropout is random in training", ["b"]]


@I.ir_module
class InPlace:
    @T.prim_func(s_tir=True)
    def zero(a: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                a[v] = T.float32(0)

    @R.function
    def output_written(x: R.Tensor((4,), "float32")):
        cls = InPlace
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, a)
            c = R.call_tir_inplace(
                cls.zero, (b,), inplace_indices=[0], out_ty=R.Tensor((4,), "float32")
            )
            d = R.sqrt(c)
            R.output(d)
        return d

    @R.function
    def alias_written(x: R.Tensor((4,), "float32")):
        cls = InPlace
        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        b = R.match_cast(a, R.Tensor((4,), "float32"))
        with R.dataflow():
            e = R.exp(x)
            c = R.call_tir_inplace(
                cls.zero, (b,), inplace_indices=[0], out_ty=R.Tensor((4,), "float32")
            )
            R.output(c, e)
        return (c, e)

    @R.function
    def leaf_written(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        cls = InPlace
        with R.dataflow():
            a = R.exp(x)
            c = R.call_tir_inplace(
                cls.zero, (x,), inplace_indices=[0], out_ty=R.Tensor((4,), "float32")
            )
            R.output(a, c)
        with R.dataflow():
            d = R.exp(y)
            R.output(d)
        return (a, c, d)

    @R.function
    def callee_writes(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        cls = InPlace
        with R.dataflow():
            a = R.exp(x)
            c = cls.output_written(a)
            R.output(c)
        with R.dataflow():
            d = R.exp(y)
            R.output(d)
        return (c, d)


ALIASED = "an in-place call may write to its tensors"


def test_a_segment_whose_output_is_written_in_place_is_kept():
    assert pieces(InPlace, "output_written") == [
        ALIASED,
        "relax.call_tir_inplace writes in place",
        ["d"],
    ]


def test_writing_is_followed_through_aliases():
    found = pieces(InPlace, "alias_written")
    assert found[0] == ALIASED


def test_a_segment_whose_leaf_is_written_in_place_is_kept():
    found = pieces(InPlace, "leaf_written")
    assert found == [ALIASED, "relax.call_tir_inplace writes in place", ["d"]]


def test_a_call_of_a_function_that_writes_in_place_is_a_barrier():
    found = pieces(InPlace, "callee_writes")
    assert found == [ALIASED, "function output_written writes in place", ["d"]]


def test_branches_are_planned_too():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Prim("bool")):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(a)
                R.output(a, b)
            if c:
                with R.dataflow():
                    y = R.sqrt(a)
                    R.output(y)
                w = y
            else:
                w = b
            return w

    assert pieces(M) == [["a", "b"], ["y"]]


def test_parameters_after_num_input_are_weights():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((4, 4), "float32"),
            w: R.Tensor((4, 4), "float32"),
            b: R.Tensor((4,), "float32"),
        ):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.matmul(x, w)
                c = R.add(a, b)
                R.output(c)
            return c

    (segment,) = plan_function(M["main"]).segments
    assert {str(v.name) for v in segment.weights} == {"w", "b"}
