"""NasRNN, the recurrent cell found by neural architecture search, as TENSAT evaluates it.

Five steps of hidden size 512 on a batch of one (TENSAT's ``src/nasrnn.rs``: LENGTH, HIDDEN_SIZE).
Each step has eight gates ``x·w + h·u`` with weights of their own, which a tree of activations
joins into the next state. All x·w of a step share an operand, and so do all h·u: that is what
TENSAT's multi-pattern rules merge.

The paper's graph has shapes only. Here weights have values: normal, with the standard deviation
``1/sqrt(hidden)`` that keeps the activations away from saturation.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_tensat.zoo.weights import normal

STEPS = 5
HIDDEN = 512
GATES = 8


def build(seed: int = 0, steps: int = STEPS, hidden: int = HIDDEN) -> tvm.IRModule:
    """Build the network: inputs ``x0`` to ``x4``, each (1, hidden), output (1, hidden)."""

    def weight(name: str) -> relax.Expr:
        return relax.const(normal(seed, name, (hidden, hidden), hidden**-0.5))

    inputs = [
        relax.Var(f"x{step}", relax.TensorType((1, hidden), "float32")) for step in range(steps)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", inputs):
        with builder.dataflow():
            state = relax.const(normal(seed, "state", (1, hidden), 1.0))
            for step, x in enumerate(inputs):
                gates = [
                    builder.emit(
                        relax.op.add(
                            relax.op.matmul(x, weight(f"w{step}.{gate}")),
                            relax.op.matmul(state, weight(f"u{step}.{gate}")),
                        )
                    )
                    for gate in range(GATES)
                ]
                state = builder.emit(_cell(gates))
            output = builder.emit_output(state)
        builder.emit_func_output(output)
    return builder.get()


def _cell(gates: list[relax.Expr]) -> relax.Expr:
    """Join the eight gates into the next state, by the tree that the search found."""
    add, multiply = relax.op.add, relax.op.multiply
    relu, sigmoid, tanh = relax.op.nn.relu, relax.op.sigmoid, relax.op.tanh

    first = add(relu(gates[0]), sigmoid(gates[3]))
    second = add(sigmoid(gates[1]), tanh(gates[2]))
    third = multiply(sigmoid(gates[4]), tanh(gates[5]))
    fourth = multiply(sigmoid(gates[6]), relu(gates[7]))

    inner = add(sigmoid(second), tanh(third))
    outer = multiply(tanh(first), tanh(fourth))
    return tanh(multiply(tanh(inner), tanh(outer)))
