"""`evaluate` against TVM's own kernels, NaN, infinities, empty tensors and integers included."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

from tests.relax.support import flat, module_of, tensor
from tvm_tensat.egraph.language import Operator, Refusal
from tvm_tensat.relax.evaluate import FOLDABLE, evaluate
from tvm_tensat.relax.language import RelaxLanguage

NAN, INF = np.nan, np.inf
RNG = np.random.default_rng(7)

SPECIAL = np.array([NAN, 1, -1, 0, -0.0, INF, -INF, NAN, 5, -5.5, 0.3], np.float32)
OTHER = np.array([1, NAN, 2, -0.0, 0, 1, INF, NAN, 3, 2, -7.1], np.float32)
INTS = np.array([7, -7, 7, -7, 5, 2**31 - 1], np.int32)
DIVISORS = np.array([2, 2, -2, -2, 5, 3], np.int32)
BOOLS, ALSO = np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)
MATRIX = RNG.standard_normal((4, 6)).astype(np.float32)
CUBE = RNG.integers(-9, 9, (2, 3, 4)).astype(np.int32)
HALF = np.array([1e4, 6e4, 1 / 3, -2.5], np.float16)
BRAIN = np.array([1.5, 3e38, 1 / 3, -2.5], ml_dtypes.bfloat16)

UNARY = [op.exp, op.sqrt, op.rsqrt, op.log, op.negative, op.abs, op.square]
BINARY = [op.add, op.subtract, op.multiply, op.divide, op.maximum, op.minimum]
COMPARE = [op.equal, op.not_equal, op.less, op.less_equal, op.greater, op.greater_equal]

CASES = {
    "special floats": [
        *[(f, SPECIAL) for f in UNARY],
        *[(f, SPECIAL, OTHER) for f in [*BINARY, *COMPARE]],
        *[(f, SPECIAL, OTHER) for f in (op.floor_divide, op.floor_mod)],
        (op.power, SPECIAL, OTHER),
        (op.where, SPECIAL > 0, SPECIAL, OTHER),
        (op.add, MATRIX, SPECIAL[:6]),
        (lambda a: op.astype(a, "float16"), np.array([1e6, 1.00048828125, 65519], np.float32)),
        (lambda a: op.astype(a, "bool"), SPECIAL),
        (lambda a: op.astype(a, "int32"), np.array([-2.9, 2.9, -0.5, 2e9], np.float32)),
        (lambda a: op.astype(a, "bfloat16"), SPECIAL),
    ],
    "integers": [
        *[(f, INTS, DIVISORS) for f in [*BINARY, *COMPARE]],
        *[(f, INTS, DIVISORS) for f in (op.floor_divide, op.floor_mod)],
        *[(f, INTS) for f in (op.negative, op.abs, op.square)],
        (op.add, np.array([200, 100], np.uint8), np.array([200, 1], np.uint8)),
        *[(f, BOOLS, ALSO) for f in (op.logical_and, op.logical_or)],
        (op.logical_not, BOOLS),
        (lambda a: op.astype(a, "int8"), np.array([300, -300, 5], np.int32)),
        (lambda a: op.astype(a, "float32"), BOOLS),
        (op.matmul, CUBE, CUBE.transpose(0, 2, 1).copy()),
        (
            lambda a, b: op.matmul(a, b, out_dtype="int32"),
            np.full((1, 30), 100, np.int8),
            np.full((30, 1), 100, np.int8),
        ),
        (op.matmul, np.full((1, 30), 100, np.int8), np.full((30, 1), 100, np.int8)),
        *[(f, CUBE) for f in (op.sum, op.prod, op.max, op.min)],
        (lambda a: op.sum(a, axis=[0, -1], keepdims=True), CUBE),
    ],
    "short floats": [
        *[(f, HALF) for f in UNARY],
        *[(f, HALF, HALF[::-1].copy()) for f in BINARY],
        *[(f, BRAIN) for f in UNARY],
        *[(f, BRAIN, BRAIN[::-1].copy()) for f in BINARY],
        (op.sum, HALF[2:]),
        (op.mean, HALF[2:]),
        (op.max, BRAIN),
        (op.matmul, HALF.reshape(2, 2), HALF[2:]),
        (lambda a: op.full((2, 2), a, "bfloat16"), BRAIN[1:2].reshape(())),
    ],
    "sums": [
        *[(f, MATRIX) for f in (op.sum, op.mean, op.prod, op.max, op.min)],
        *[(lambda a, f=f: f(a, axis=-1, keepdims=True), MATRIX) for f in (op.sum, op.mean, op.max)],
        *[(f, np.full((3,), -INF, np.float32)) for f in (op.max, op.min, op.sum)],
        *[(lambda a, f=f: f(a, axis=0), np.zeros((0, 2), np.float32)) for f in (op.sum, op.prod)],
        *[(lambda a, f=f: f(a, axis=[0]), np.zeros((1, 2), np.float32)) for f in (op.max, op.min)],
        *[(f, SPECIAL) for f in (op.sum, op.mean, op.prod)],
        (op.matmul, MATRIX, MATRIX.T.copy()),
        (op.matmul, MATRIX[0], MATRIX.T.copy()),
        (op.matmul, np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)),
    ],
    "shapes": [
        (lambda a: op.permute_dims(a, (2, 0, 1)), CUBE),
        (lambda a: op.reshape(a, (4, -1)), CUBE),
        (lambda a: op.expand_dims(a, [-1, 0]), CUBE),
        (lambda a: op.squeeze(a), CUBE[:1, :, :1].copy()),
        (lambda a: op.broadcast_to(a, (2, 4, 6)), MATRIX),
        (lambda a, b: op.concat([a, b, a], axis=-1), MATRIX, MATRIX[:, :2].copy()),
        (lambda a, b: op.concat([a, b], axis=0), MATRIX, np.zeros((0, 6), np.float32)),
        (lambda a: op.stack([a, a], axis=-1), MATRIX),
        (lambda a: op.split(a, 3, axis=-1), MATRIX),
        (lambda a: op.split(a, [1, 4], axis=1), MATRIX),
        (lambda a: op.split(a, 4, axis=1), MATRIX),
        (lambda a: op.strided_slice(a, [1, 0], [-4, 1], [100, 3], [2, 1]), MATRIX),
        (lambda a: op.nn.pad(a, (1, 0, 0, 2), pad_value=-1.5), MATRIX),
        (lambda a: op.nn.pad(a, (0, 1, 2, 0, 0, 0), pad_value=-1.5), CUBE),
        (lambda a: op.tile(a, (2, 1, 3)), MATRIX),
        (lambda a: op.repeat(a, 2, axis=0), MATRIX),
        (lambda a: op.repeat(a, 2), MATRIX),
        (lambda a: op.flip(a, 1), MATRIX),
        (lambda a: op.full((2, 3), a, "float16"), np.array(0.1, np.float32)),
        (lambda: op.zeros((2, 3), "int32"),),
        (lambda: op.ones((2,), "float32"),),
        (lambda a, i: op.take(a, i, axis=1, mode="clip"), CUBE, np.array([[0, 2]], np.int64)),
        (lambda a, i: op.take(a, i, mode="clip"), SPECIAL, np.array([3, 0], np.int32)),
    ],
}


def _types(case):
    return [tensor(*array.shape, dtype=array.dtype.name) for array in case[1:]]


def _operator(case):
    call = module_of(case[0], *_types(case))["main"].body.blocks[0].bindings[0].value
    language = RelaxLanguage()
    number, _, parts = language.read(call)
    return language.operator(number), parts.operands


def _on(case):
    """Evaluate a case's operator on its arrays."""
    operator, operands = _operator(case)
    arrays = iter(case[1:])
    values = [
        tuple(case[1:][int(field.name[1:])] for field in operand.fields)
        if isinstance(operand, relax.Tuple)
        else next(arrays)
        for operand in operands
    ]
    return operator, evaluate(operator, values)


def _by_tvm(cases):
    """Run all cases as one module, so that there is one compilation."""
    builder = relax.BlockBuilder()
    parameters = [
        [relax.Var(f"c{i}_{j}", ty) for j, ty in enumerate(_types(case))]
        for i, case in enumerate(cases)
    ]
    with builder.function("main", [p for row in parameters for p in row]):
        with builder.dataflow():
            results = [
                builder.emit_output(builder.emit(case[0](*row)))
                for case, row in zip(cases, parameters, strict=True)
            ]
        builder.emit_func_output(relax.Tuple(results))
    executable = tvm.compile(builder.finalize(), tvm.target.Target("llvm"))
    arrays = [tvm.runtime.tensor(array) for case in cases for array in case[1:]]
    return relax.VirtualMachine(executable, tvm.cpu())["main"](*arrays)


@pytest.mark.parametrize("group", CASES)
def test_the_result_is_tvms(group):
    cases = CASES[group]
    rounded = {"relax.exp", "relax.log", "relax.power", "relax.sum", "relax.mean", "relax.prod"}
    for case, expected in zip(cases, _by_tvm(cases), strict=True):
        operator, actual = _on(case)
        assert operator.name in FOLDABLE
        for one, other in zip(flat(actual), flat(expected), strict=True):
            assert one.dtype == other.dtype, operator
            assert one.shape == other.shape, operator
            wide = [np.asarray(a).astype(np.float64) for a in (one, other)]
            if operator.name in rounded or operator.name == "relax.matmul":
                tolerance = 4 * {2: 2.0**-8, 4: 2.0**-23}.get(one.itemsize, 0)
                np.testing.assert_allclose(*wide, rtol=tolerance, err_msg=str(operator))
            else:
                np.testing.assert_array_equal(*wide, err_msg=str(operator))


def test_every_operator_is_tried_against_tvm():
    tried = {_operator(case)[0].name for cases in CASES.values() for case in cases}
    assert tried == FOLDABLE


REFUSED = [
    (op.divide, INTS, np.zeros(6, np.int32)),
    (op.floor_mod, INTS, np.zeros(6, np.int32)),
    (op.max, SPECIAL),
    (lambda a: op.astype(a, "int32"), SPECIAL),
    (lambda a: op.astype(a, "int8"), np.array([128.0], np.float32)),
    (lambda a: op.astype(a, "uint8"), np.array([-1.0], np.float32)),
    (lambda a, i: op.take(a, i, axis=0), MATRIX, np.array([4], np.int64)),
    (lambda a, i: op.take(a, i, axis=0), MATRIX, np.array([-1], np.int64)),
    (op.mean, INTS),
    (op.add, BOOLS, BOOLS),
    (op.negative, np.array([1], np.uint8)),
    (lambda a: op.strided_slice(a, [1], [4], [1], [-1]), MATRIX),
    (lambda a: op.strided_slice(a, [1], [4], [1]), MATRIX),
    (lambda a: op.split(a, [4, 2], axis=1), MATRIX),
    (lambda a: op.nn.pad(a, (1, 1, 1, 1), pad_mode="reflect"), MATRIX),
    (op.nn.relu, MATRIX),
]


@pytest.mark.parametrize("case", REFUSED, ids=range(len(REFUSED)))
def test_what_tvm_leaves_undetermined_is_refused(case):
    with pytest.raises(Refusal, match=r"^relax\."):
        _on(case)


def test_tuples_fields_and_scalars():
    pair = evaluate(Operator("tuple", (), 2), [MATRIX, CUBE])
    assert evaluate(Operator("get", (("index", 1),), 1), [pair]) is CUBE
    scalar = Operator("scalar", (("dtype", "bfloat16"), ("value", 0.1)), 0)
    value = evaluate(scalar, [])
    assert value.dtype == ml_dtypes.bfloat16
    assert value.shape == ()


def test_operands_are_not_written_to():
    before = MATRIX.copy()
    for case in CASES["sums"] + CASES["shapes"]:
        _on(case)
    np.testing.assert_array_equal(MATRIX, before)
