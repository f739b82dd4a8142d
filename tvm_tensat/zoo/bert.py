"""BERT, as TENSAT evaluates it.

Eight layers of 16 heads on a sequence of 64 tokens with 1024 features (TENSAT's ``src/bert.rs``:
SEQ_LENGTH, HIDDEN_DIMS). The graph is the paper's, not a trainable encoder: no softmax, scaling,
biases or normalization, keys are multiplied untransposed (64 tokens and 64 features a head make
that well typed), and the last product of a layer reads the layer's input, not its attention. So
each layer has four products that share an operand, and the layers form a chain of products with
constants. The attentions of all layers are outputs, beside the end of the chain.

A real encoder is the business of other models; this one is here to compare with the paper.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_tensat.zoo.weights import normal

LAYERS = 8
HEADS = 16
TOKENS = 64
FEATURES = 1024


def build(
    seed: int = 0,
    layers: int = LAYERS,
    heads: int = HEADS,
    tokens: int = TOKENS,
    features: int = FEATURES,
) -> tvm.IRModule:
    """Build the network.

    Returns
    -------
    tvm.IRModule
        ``main`` takes ``x``, (tokens, features), and returns a tuple of ``layers + 1`` tensors of
        that shape: the attention of each layer, and the end of the chain.
    """

    def weight(name: str) -> relax.Expr:
        return relax.const(normal(seed, name, (features, features), features**-0.5))

    x = relax.Var("x", relax.TensorType((tokens, features), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            current = builder.emit(relax.op.nn.relu(x))
            outputs = []
            for layer in range(layers):
                query, key, value = (
                    relax.op.matmul(current, weight(f"{part}{layer}")) for part in "qkv"
                )
                attention = _attention(query, key, value, heads, tokens, features)
                outputs.append(builder.emit(attention))
                current = builder.emit(relax.op.matmul(current, weight(f"linear{layer}")))
            output = builder.emit_output(relax.Tuple([*outputs, current]))
        builder.emit_func_output(output)
    return builder.get()


def _attention(
    query: relax.Expr, key: relax.Expr, value: relax.Expr, heads: int, tokens: int, features: int
) -> relax.Expr:
    """Multiply query, key and value head by head."""

    def by_head(t: relax.Expr) -> relax.Expr:  # (tokens, features) -> (heads, tokens, size)
        parts = relax.op.reshape(t, (tokens, heads, features // heads))
        return relax.op.permute_dims(parts, (1, 0, 2))

    logits = relax.op.matmul(by_head(query), by_head(key))
    heads_out = relax.op.matmul(logits, by_head(value))
    return relax.op.reshape(relax.op.permute_dims(heads_out, (1, 0, 2)), (tokens, features))
