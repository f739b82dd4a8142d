"""Small models in the words of exporters: what PyTorch and ONNX make of layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax

op = relax.op
TOKENS, FEATURES, HEADS = 8, 16, 4
SIZE = FEATURES // HEADS

Emit = Callable[[relax.Expr], relax.Var]


class Model:
    """A function ``main`` in the making, with seeded weights.

    Parameters
    ----------
    shape : sequence of int
        Of the input `x`.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.builder = relax.BlockBuilder()
        self.random = np.random.default_rng(0)
        self.x = relax.Var("x", relax.TensorType(shape, "float32"))

    def build(self, body: Callable[[Model, relax.Var], relax.Expr]) -> tvm.IRModule:
        with self.builder.function("main", [self.x]):
            with self.builder.dataflow():
                out = self.builder.emit_output(body(self, self.x))
            self.builder.emit_func_output(out)
        return self.builder.finalize()

    def __call__(self, expr: relax.Expr) -> relax.Var:
        return self.builder.emit(expr)

    def number(self, value: float) -> relax.Expr:
        return relax.const(np.float32(value))

    def weight(self, *shape: int) -> relax.Expr:
        scale = math.prod(shape[:-1]) ** -0.5 if len(shape) > 1 else 1.0
        return relax.const((self.random.standard_normal(shape) * scale).astype("float32"))

    def linear(self, x: relax.Var, outputs: int, bias: bool = True) -> relax.Var:
        y = self(op.matmul(x, self.weight(int(x.ty.shape[-1]), outputs)))
        return self(op.add(y, self.weight(outputs))) if bias else y

    def gelu(self, x: relax.Var) -> relax.Var:
        """As ONNX before opset 20 has it."""
        scaled = self(op.divide(x, self.number(math.sqrt(2.0))))
        one_more = self(op.add(self(op.erf(scaled)), self.number(1.0)))
        return self(op.multiply(self(op.multiply(x, one_more)), self.number(0.5)))

    def new_gelu(self, x: relax.Var) -> relax.Var:
        """As GPT-2 has it."""
        cube = self(op.multiply(self.number(0.044715), self(op.power(x, self.number(3.0)))))
        inner = self(op.multiply(self.number(math.sqrt(2 / math.pi)), self(op.add(x, cube))))
        one_more = self(op.add(self.number(1.0), self(op.tanh(inner))))
        return self(op.multiply(self(op.multiply(self.number(0.5), x)), one_more))

    def layer_norm(self, x: relax.Var) -> relax.Var:
        """As ONNX before opset 17 has it."""
        centered = self(op.subtract(x, self(op.mean(x, [-1], keepdims=True))))
        squares = self(op.power(centered, self.number(2.0)))
        variance = self(op.add(self(op.mean(squares, [-1], keepdims=True)), self.number(1e-5)))
        normal = self(op.divide(centered, self(op.sqrt(variance))))
        scaled = self(op.multiply(normal, self.weight(FEATURES)))
        return self(op.add(scaled, self.weight(FEATURES)))

    def rms_norm(self, x: relax.Var) -> relax.Var:
        """As Llama has it."""
        squares = self(op.mean(self(op.power(x, self.number(2.0))), [-1], keepdims=True))
        root = self(op.rsqrt(self(op.add(squares, self.number(1e-6)))))
        return self(op.multiply(self.weight(FEATURES), self(op.multiply(x, root))))

    def heads(self, x: relax.Var, count: int = HEADS) -> relax.Var:
        apart = self(op.reshape(x, (1, TOKENS, count, SIZE)))
        return self(op.permute_dims(apart, [0, 2, 1, 3]))

    def joined(self, x: relax.Var) -> relax.Var:
        return self(op.reshape(self(op.permute_dims(x, [0, 2, 1, 3])), (1, TOKENS, FEATURES)))


def bert() -> tvm.IRModule:
    """A layer of an encoder and a classifier of its first token, as ONNX of opset 13."""

    def body(m: Model, x: relax.Var) -> relax.Expr:
        q, k, v = (m.heads(m.linear(x, FEATURES)) for _ in range(3))
        scores = m(op.matmul(q, m(op.permute_dims(k, [0, 1, 3, 2]))))
        scores = m(op.add(m(op.divide(scores, m.number(SIZE**0.5))), m.weight(1, 1, 1, TOKENS)))
        mixed = m.joined(m(op.matmul(m(op.nn.softmax(scores, -1)), v)))
        y = m.layer_norm(m(op.add(m.linear(mixed, FEATURES), x)))
        wide = m.gelu(m.linear(y, 4 * FEATURES))
        y = m.layer_norm(m(op.add(m.linear(wide, FEATURES), y)))
        first = m(op.take(y, relax.const(0, "int64"), axis=1))
        return m.linear(m(op.tanh(m.linear(first, FEATURES))), 2)

    return Model((1, TOKENS, FEATURES)).build(body)


def gpt2() -> tvm.IRModule:
    """A feed-forward layer and the next token's scores."""

    def body(m: Model, x: relax.Var) -> relax.Expr:
        y = m(op.add(x, m.linear(m.new_gelu(m.linear(m.layer_norm(x), 4 * FEATURES)), FEATURES)))
        ends = ([0, TOKENS - 1, 0], [1, TOKENS, FEATURES])
        last = m(op.strided_slice(m.layer_norm(y), [0, 1, 2], *ends))
        return m.linear(last, 32, bias=False)

    return Model((1, TOKENS, FEATURES)).build(body)


def llama() -> tvm.IRModule:
    """A layer with grouped queries and a gated feed-forward layer."""

    def body(m: Model, x: relax.Var) -> relax.Expr:
        y = m.rms_norm(x)
        q = m.heads(m.linear(y, FEATURES, bias=False))
        k, v = (_repeated(m, m.heads(m.linear(y, 2 * SIZE, bias=False), 2)) for _ in range(2))
        scores = m(op.matmul(q, m(op.permute_dims(k, [0, 1, 3, 2]))))
        weights = m(op.nn.softmax(m(op.multiply(scores, m.number(SIZE**-0.5))), -1))
        mixed = m.joined(m(op.matmul(weights, v)))
        x = m(op.add(x, m.linear(mixed, FEATURES, bias=False)))
        y = m.rms_norm(x)
        gate = m.linear(y, 2 * FEATURES, bias=False)
        gate = m(op.multiply(gate, m(op.sigmoid(gate))))
        wide = m(op.multiply(gate, m.linear(y, 2 * FEATURES, bias=False)))
        return m(op.add(x, m.linear(wide, FEATURES, bias=False)))

    return Model((1, TOKENS, FEATURES)).build(body)


def _repeated(m: Model, x: relax.Var) -> relax.Var:
    """Repeat each of two heads for two heads of queries."""
    apart = m(op.broadcast_to(m(op.expand_dims(x, 2)), (1, 2, 2, TOKENS, SIZE)))
    return m(op.reshape(apart, (1, HEADS, TOKENS, SIZE)))


def vit() -> tvm.IRModule:
    """Attention as PyTorch's importer has it, pooled over all tokens."""

    def body(m: Model, x: relax.Var) -> relax.Expr:
        y = m(op.nn.layer_norm(x, m.weight(FEATURES), m.weight(FEATURES), axes=[-1]))
        turned = [m(op.permute_dims(m.heads(m.linear(y, FEATURES)), [0, 2, 1, 3])) for _ in "qkv"]
        mixed = m(op.permute_dims(m(op.nn.attention(*turned)), [0, 2, 1, 3]))
        x = m(op.add(x, m.linear(m.joined(mixed), FEATURES)))
        return m.linear(m(op.mean(m.linear(x, FEATURES), [1])), 4)

    return Model((1, TOKENS, FEATURES)).build(body)


def unet() -> tvm.IRModule:
    """A convolution padded before, a leaky relu, and one step up."""

    def body(m: Model, x: relax.Var) -> relax.Expr:
        padded = m(op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]))
        y = m(op.nn.conv2d(padded, m.weight(8, 4, 3, 3)))
        y = m(op.maximum(y, m(op.multiply(y, m.number(0.1)))))
        up = m(op.nn.conv2d_transpose(y, m.weight(8, 4, 2, 2), strides=(2, 2)))
        up = m(op.add(m(op.multiply(up, m.weight(4, 1, 1))), m.weight(4, 1, 1)))
        return m(op.clip(up, 0.0, 6.0))

    return Model((1, 4, 6, 6)).build(body)
