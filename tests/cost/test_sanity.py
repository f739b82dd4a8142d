"""NaN that only the scheduled kernel gives is its fault; NaN that the operator gives is not."""

import tvm
from tvm import relax

from tests.cost.kernels import TARGET, kernel, tensor
from tvm_tensat.cost import Kernel
from tvm_tensat.cost.rotation import rotate
from tvm_tensat.cost.sanity import gave_nan
from tvm_tensat.schedule import build_pipeline


def verdict(made: Kernel, *, breaks: bool = False) -> str:
    """What is said of a kernel that is built as always, or so that it takes the logarithm of -x."""
    rotation = rotate(made.module, made.weights, rotation_bytes=0)
    module = rotation.module
    if breaks:
        module = relax.transform.Normalize()(_with_logarithms(module))
    machine = relax.VirtualMachine(
        tvm.compile(module, TARGET, relax_pipeline=build_pipeline(TARGET)), tvm.cpu()
    )
    return gave_nan(machine, [tvm.runtime.tensor(a) for a in rotation.activations], rotation)


@relax.expr_functor.mutator
class _Break(relax.expr_functor.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        if call.op == tvm.ir.Op.get("relax.nn.relu"):
            return relax.op.log(relax.op.negative(call.args[0]))
        return super().visit_call_(call)


def _with_logarithms(module: tvm.IRModule) -> tvm.IRModule:
    breaks = _Break(module)
    return tvm.IRModule({gv: breaks.visit_expr(f) for gv, f in module.functions.items()})


def test_a_kernel_that_gives_numbers_is_right() -> None:
    x = tensor("x", 4, 8)
    assert verdict(kernel([x], relax.op.nn.relu(x), "relu")) == ""


def test_a_kernel_that_gives_nan_where_its_operator_does_not_is_wrong() -> None:
    x = tensor("x", 4, 8)
    made = kernel([x], relax.op.nn.relu(x), "relu")
    assert verdict(made, breaks=True) == "gave NaN in 32 of 32 elements"


def test_an_operator_that_is_not_defined_everywhere_may_give_nan() -> None:
    """acos of a number in [0.5, 1.5) is NaN in half of the cases."""
    x = tensor("x", 4, 8)
    assert verdict(kernel([x], relax.op.acos(x), "acos")) == ""


def test_all_dtypes_and_tuples_are_looked_at() -> None:
    for dtype in ("float16", "bfloat16", "float64", "int64", "bool"):
        x = tensor("x", 4, 8, dtype=dtype)
        assert verdict(kernel([x], relax.op.split(x, 2, axis=1), f"split {dtype}")) == ""
