"""Small kernels that the tests measure, well-behaved and not."""

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tvm_tensat.cost import Kernel

TARGET = tvm.target.Target("llvm")


def tensor(name: str, *shape: int, dtype: str = "float32") -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, dtype))


def kernel(
    params: list[relax.Var], value: relax.Expr, key: str, weights: tuple[bool, ...] | None = None
) -> Kernel:
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return Kernel(builder.get(), weights or (False,) * len(params), key)


def relu(*shape: int) -> Kernel:
    x = tensor("x", *shape)
    return kernel([x], relax.op.nn.relu(x), f"relu {shape}")


def matmul(rows: int, depth: int, columns: int) -> Kernel:
    x, w = tensor("x", rows, depth), tensor("w", depth, columns)
    key = f"matmul {rows}x{depth} {depth}x{columns}"
    return kernel([x, w], relax.op.matmul(x, w), key, (False, True))


def calling(function: str) -> Kernel:
    """A kernel that calls a C function without arguments for each of its four elements."""

    @I.ir_module(s_tir=True)
    class Module:
        @T.prim_func(private=True, s_tir=True)
        def called(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.sblock("b"):
                    v = T.axis.spatial(4, i)
                    b[v] = a[v] + T.cast(T.call_extern("int32", function), "float32")

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            with R.dataflow():
                y = R.call_tir(cls.called, (x,), out_ty=R.Tensor((4,), "float32"))
                R.output(y)
            return y

    return Kernel(Module, (False,), f"calling {function}")
