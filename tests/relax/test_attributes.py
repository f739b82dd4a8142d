"""Calls taken apart and put together, and the canonical form against what TVM computes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

from tests.relax.support import module_of, run, tensor
from tvm_tensat.relax.attributes import exact, plain, put_together, take_apart
from tvm_tensat.relax.language import RelaxLanguage

X, W = tensor(1, 4, 6, 6), tensor(8, 4, 3, 3)
A, B = tensor(4, 6), tensor(6, 5)
INDEX = tensor(3, dtype="int32")

CALLS = {
    "conv2d": (lambda x, w: op.nn.conv2d(x, w, strides=2, padding=(1, 0)), X, W),
    "conv2d grouped": (lambda x, w: op.nn.conv2d(x, w, groups=2), X, tensor(8, 2, 3, 3)),
    "conv2d_transpose": (
        lambda x, w: op.nn.conv2d_transpose(x, w, strides=2, output_padding=1),
        X,
        tensor(4, 2, 3, 3),
    ),
    "max_pool2d": (lambda x: op.nn.max_pool2d(x, 3, strides=2, ceil_mode=True), X),
    "avg_pool2d": (lambda x: op.nn.avg_pool2d(x, (3, 2), padding=1), X),
    "adaptive_avg_pool2d": (lambda x: op.nn.adaptive_avg_pool2d(x), X),
    "batch_norm": (
        lambda x, *p: op.nn.batch_norm(x, *p, axis=-3, training=False),
        X,
        *[tensor(4)] * 4,
    ),
    "layer_norm": (lambda x, g, b: op.nn.layer_norm(x, g, b, axes=-1), A, tensor(6), tensor(6)),
    "softmax": (lambda x: op.nn.softmax(x, axis=-2), A),
    "pad": (lambda x: op.nn.pad(x, (1, 0, 0, 2), pad_value=1.5), A),
    "matmul": (op.matmul, A, B),
    "concat": (lambda a, b: op.concat([a, b], axis=-2), A, A),
    "stack": (lambda a, b: op.stack([a, b], axis=-1), A, A),
    "split in sections": (lambda a: op.split(a, 3, axis=-1), A),
    "split unevenly": (lambda a: op.split(a, 4, axis=-1), A),
    "split at indices": (lambda a: op.split(a, [1, 4], axis=-1), A),
    "strided_slice": (lambda a: op.strided_slice(a, [-1, 0], [-4, 1], [100, 3], [2, 1]), A),
    "slice backwards": (lambda a: op.strided_slice(a, [1], [4], [1], [-1]), A),
    "permute_dims": (lambda x: op.permute_dims(x), X),
    "reshape": (lambda a: op.reshape(a, (3, -1)), A),
    "broadcast_to": (lambda a: op.broadcast_to(a, (2, 4, 6)), A),
    "expand_dims": (lambda a: op.expand_dims(a, [-1, 1]), A),
    "squeeze": (lambda x: op.squeeze(x), X),
    "sum": (lambda a: op.sum(a), A),
    "mean": (lambda a: op.mean(a, axis=[-1], keepdims=True), A),
    "variance": (lambda a: op.variance(a, axis=[-1, 0]), A),
    "argmax": (lambda a: op.argmax(a, axis=-1), A),
    "cumsum": (lambda a: op.cumsum(a, axis=-1), A),
    "clip": (lambda a: op.clip(a, 0, 1), A),
    "astype": (lambda a: op.astype(a, "float16"), A),
    "take": (lambda a, i: op.take(a, i, axis=-1, mode="clip"), A, INDEX),
    "take of a vector": (lambda a, i: op.take(a, i, mode="clip"), tensor(6), INDEX),
    "tile": (lambda a: op.tile(a, 2), A),
    "repeat": (lambda a: op.repeat(a, 2, axis=-1), A),
    "repeat flattened": (lambda a: op.repeat(a, 2), A),
    "flip": (lambda a: op.flip(a, -1), A),
    "full": (lambda v: op.full((2, 3), v, "float32"), tensor()),
    "zeros": (lambda: op.zeros((2, 3), "float32"),),
    "ones_like": (lambda a: op.ones_like(a), A),
    "arange": (lambda: op.arange(1, 9, 2, "int32"),),
    "tril": (lambda a: op.tril(a, 1), A),
    "one_hot": (
        lambda i: op.one_hot(i, relax.prim_value(1.0), relax.prim_value(0.0), 4, -1),
        INDEX,
    ),
    "einsum": (lambda a, b: op.einsum([a, b], "ij,jk->ik"), A, B),
    "resize2d": (lambda x: op.image.resize2d(x, (12, 12), method="linear"), X),
    "leakyrelu": (lambda a: op.nn.leakyrelu(a, 0.2), A),
    "prelu": (lambda a, w: op.nn.prelu(a, w, axis=-1), A, tensor(6)),
    "layout_transform": (lambda a: op.layout_transform(a, lambda i, j: (j, i)), A),
    "dropout": (lambda a: op.nn.dropout(a, 0.3), A),
    "topk": (lambda a: op.topk(a, 2, axis=-1), A),
    "attention": (op.nn.attention, *[tensor(1, 4, 2, 8)] * 3),
}


def _the_call(function):
    return function.body.blocks[0].bindings[0].value


@pytest.mark.parametrize("name", CALLS)
def test_a_call_taken_apart_is_put_together_again(name):
    build, *types = CALLS[name]
    call = _the_call(module_of(build, *types)["main"])
    parts = take_apart(call)
    assert all(hash(value) == hash(value) for value in parts.attrs.values())
    again = put_together(parts.name, parts.attrs, parts.operands)
    again = relax.BlockBuilder().normalize(again)
    tvm.ir.assert_structural_equal(again, call, map_free_vars=True)


@pytest.mark.parametrize("name", CALLS)
def test_the_canonical_call_is_itself_and_has_the_same_type(name):
    build, *types = CALLS[name]
    call = _the_call(module_of(build, *types)["main"])
    language = RelaxLanguage()
    operator, ty, parts = language.read(call)
    again = relax.BlockBuilder().normalize(language.call(operator, parts.operands))
    assert language.read(again)[:2] == (operator, ty)


@pytest.mark.parametrize("name", CALLS)
def test_make_accepts_the_attributes_that_were_read(name):
    build, *types = CALLS[name]
    call = _the_call(module_of(build, *types)["main"])
    language = RelaxLanguage()
    operator, ty, parts = language.read(call)
    if name in ("split unevenly", "slice backwards"):
        return  # refused or left to TVM on purpose
    op_read = language.operator(operator)
    operand_types = tuple(language.intern_type(operand.ty) for operand in parts.operands)
    assert language.make(op_read.name, dict(op_read.attrs), operand_types) == (operator, ty)


CHANGED = [  # those whose canonical form differs from the call as written
    "conv2d grouped",
    "batch_norm",
    "layer_norm",
    "softmax",
    "concat",
    "stack",
    "split in sections",
    "split unevenly",
    "strided_slice",
    "slice backwards",
    "permute_dims",
    "expand_dims",
    "squeeze",
    "sum",
    "variance",
    "cumsum",
    "clip",
    "take of a vector",
    "tile",
    "repeat",
    "ones_like",
    "one_hot",
]


@pytest.mark.parametrize("name", CHANGED)
def test_the_canonical_call_computes_the_same(name):
    build, *types = CALLS[name]
    module = module_of(build, *types)
    language = RelaxLanguage()

    def canonical(*parameters):
        call = relax.BlockBuilder().normalize(build(*parameters))
        operator, _, parts = language.read(call)
        return language.call(operator, parts.operands)

    rng = np.random.default_rng(3)
    arrays = [
        rng.integers(0, 3, [int(v) for v in ty.shape.values]).astype("int32")
        if str(ty.dtype) == "int32"
        else rng.random([int(v) for v in ty.shape.values], dtype=np.float32)
        for ty in types
    ]
    rewritten = module_of(canonical, *types)
    for expected, actual in zip(run(module, *arrays), run(rewritten, *arrays), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_plain_numbers_keep_their_tvm_type():
    int32, int64 = tvm.tirx.IntImm("int32", 3), tvm.tirx.IntImm("int64", 3)
    assert plain(int64) == 3
    assert plain(int32) != 3
    assert plain(int32) == plain(tvm.tirx.IntImm("int32", 3))
    assert plain(tvm.tirx.FloatImm("float32", 0.5)) != plain(tvm.tirx.FloatImm("float64", 0.5))


def test_exact_keys_tell_apart_what_python_does_not():
    values = [0, 0.0, -0.0, False, (0,), (0.0,), (False,)]
    assert len({exact(value) for value in values}) == len(values)
    assert exact(float("nan")) == exact(float("nan"))
