"""One operator as a module that compiles and computes."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tests.relax.support import named, read, run, tensor
from tvm_tensat.relax.kernels import kernel_module
from tvm_tensat.relax.language import RelaxLanguage

A = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)


def test_a_product():
    language = RelaxLanguage()
    types = tuple(language.intern_type(tensor(*s)) for s in [(2, 3), (3, 4)])
    operator, _ = language.make("relax.matmul", {}, types)
    module = kernel_module(language, operator, types)
    relax.analysis.well_formed(module)
    b = np.ones((3, 4), np.float32)
    np.testing.assert_allclose(run(module, A, b)[0], A @ b, rtol=1e-6)


def test_a_tuple_operand_is_one_parameter_a_field():
    language = RelaxLanguage()
    field = language.intern_type(tensor(2, 3))
    _, pair = language.make("tuple", {}, (field, field))
    operator, _ = language.make("relax.concat", {"axis": 0}, (pair,))
    module = kernel_module(language, operator, (pair,))
    assert len(module["main"].params) == 2
    np.testing.assert_array_equal(run(module, A, -A)[0], np.concatenate([A, -A]))


def test_an_operator_with_a_tuple_result():
    language = RelaxLanguage()
    types = (language.intern_type(tensor(2, 3)),)
    operator, _ = language.make("relax.split", {"indices_or_sections": (1,), "axis": 1}, types)
    first, second = run(kernel_module(language, operator, types), A)
    np.testing.assert_array_equal(first, A[:, :1])
    np.testing.assert_array_equal(second, A[:, 1:])


@I.ir_module
class Calling:
    @T.prim_func(s_tir=True)
    def add_one(a: T.Buffer((2, 3), "float32"), b: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] + T.float32(1)

    @R.function(private=True)
    def helper(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        cls = Calling
        with R.dataflow():
            y = R.call_tir(cls.add_one, (x,), out_ty=R.Tensor((2, 3), "float32"))
            R.output(y)
        return y

    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        cls = Calling
        with R.dataflow():
            y = cls.helper(x)
            R.output(y)
        return y


def test_what_the_operator_calls_comes_along():
    _, ((segment, nodes),) = read(Calling["main"], Calling)
    (node,) = segment.nodes
    operand_types = tuple(nodes.types[child] for child in node.children)
    with pytest.raises(ValueError, match="@helper"):
        kernel_module(segment.language, node.operator, operand_types)
    module = kernel_module(segment.language, node.operator, operand_types, named(Calling))
    relax.analysis.well_formed(module)
    np.testing.assert_allclose(run(module, A)[0], A + 1)


def test_a_leaf_has_no_kernel():
    language = RelaxLanguage()
    operator, _ = language.leaf(relax.Var("x", tensor(2)))
    with pytest.raises(ValueError, match="no kernel"):
        kernel_module(language, operator, ())
