"""Small models that exercise the pass in seconds."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


def constant(*shape: int, seed: int = 0) -> relax.Expr:
    values = np.random.default_rng(seed).standard_normal(shape).astype("float32")
    return relax.const(values / max(shape[0], 1) ** 0.5)


def shared_products(count: int = 3, rows: int = 16, width: int = 64) -> tvm.IRModule:
    """Products of one input with different weights, each followed by relu, then summed."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, width), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = [
                builder.emit(
                    relax.op.nn.relu(
                        builder.emit(relax.op.matmul(x, constant(width, width, seed=k)))
                    )
                )
                for k in range(count)
            ]
            total = parts[0]
            for part in parts[1:]:
                total = builder.emit(relax.op.add(total, part))
            result = builder.emit_output(total)
        builder.emit_func_output(result)
    return builder.get()


def convolution_with_batch_norm() -> tvm.IRModule:
    """What importers make of a convolution, its batch norm and a dropout."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 8, 14, 14), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            weight = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype("float32") / 8
            conv = builder.emit(relax.op.nn.conv2d(x, relax.const(weight), padding=1))
            statistics = [relax.const(np.full(8, v, "float32")) for v in (1.5, 0.25, 0.1, 2.0)]
            norm = builder.emit(relax.op.nn.batch_norm(conv, *statistics, axis=1, training=False))
            kept = builder.emit(relax.op.nn.dropout(builder.emit(relax.TupleGetItem(norm, 0))))
            result = builder.emit_output(
                relax.op.nn.relu(builder.emit(relax.TupleGetItem(kept, 0)))
            )
        builder.emit_func_output(result)
    return builder.get()


@I.ir_module
class NoDataflow:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        y = R.add(x, x)
        return y


@I.ir_module
class OnlyConstants:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.add(R.const([1.0, 2.0, 3.0, 4.0], "float32"), R.const(1.0, "float32"))
            R.output(y)
        return y


@I.ir_module
class Symbolic:
    @R.function
    def main(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 16), "float32")) -> R.Tensor(
        ("n", 16), "float32"
    ):
        with R.dataflow():
            a = R.permute_dims(R.permute_dims(x))
            b = R.matmul(a, w)
            c = R.nn.relu(R.nn.relu(b))
            R.output(c)
        return c
