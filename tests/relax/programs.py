"""Random straight-line Relax functions."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from tvm import relax

UNARY = [relax.op.exp, relax.op.nn.relu, relax.op.negative, relax.op.permute_dims]
BINARY = [relax.op.add, relax.op.multiply, relax.op.matmul, relax.op.maximum]


PROGRAMS = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=12
)


def build_program(program, outputs):
    """Build a straight-line function over 3x3 tensors, tuples and aliases from drawn numbers."""
    builder = relax.BlockBuilder()
    square = relax.TensorType((3, 3), "float32")
    tensors = [relax.Var(name, square) for name in ("x", "y")]
    with builder.function("main", list(tensors)):
        with builder.dataflow():
            for kind, i, j in program:
                one, other = tensors[i % len(tensors)], tensors[j % len(tensors)]
                if kind == 0:
                    value = UNARY[j % len(UNARY)](one)
                elif kind <= 2:
                    value = BINARY[(i + j) % len(BINARY)](one, other)
                elif kind == 3:
                    array = np.full((3, 3), j % 3, np.float32)
                    array[0, 0] = i % 2
                    value = relax.op.add(one, relax.const(array))
                elif kind == 4:
                    joined = builder.emit(relax.op.concat([one, other], axis=-1))
                    value = builder.emit(relax.op.split(joined, 2, axis=-1))[i % 2]
                elif kind == 5:
                    value = builder.emit(relax.Tuple([one, other]))[j % 2]
                elif kind == 6:
                    value = relax.op.reshape(builder.emit(relax.op.reshape(one, (9,))), (3, 3))
                elif kind == 7:
                    shape = builder.emit(relax.ShapeExpr([3, 3]))
                    value = relax.op.reshape(one, shape)
                else:
                    value = one
                tensors.append(builder.emit(value))
            results = [builder.emit_output(tensors[i % len(tensors)]) for i in outputs]
        builder.emit_func_output(relax.Tuple(results))
    return builder.finalize()
