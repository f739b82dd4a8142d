"""`RelaxLanguage`: operators made from partial attributes, with TVM's types."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.support import tensor
from tvm_tensat.egraph.language import Dim, Refusal, TensorInfo
from tvm_tensat.relax.language import RelaxLanguage


class Maker:
    """Makes operators on operands given by shape."""

    def __init__(self) -> None:
        self.language = RelaxLanguage()

    def types(self, *shapes: object, dtype: str = "float32") -> tuple[int, ...]:
        intern = self.language.intern_type
        return tuple(
            intern(relax.TupleType([tensor(*field, dtype=dtype) for field in shape]))
            if isinstance(shape, list)
            else intern(tensor(*shape, dtype=dtype))
            for shape in shapes
        )

    def __call__(self, name: str, attrs: dict, *shapes: object, dtype: str = "float32"):
        operator, ty = self.language.make(name, attrs, self.types(*shapes, dtype=dtype))
        return dict(self.language.operator(operator).attrs), self.language.info(ty)


@pytest.fixture
def make() -> Maker:
    return Maker()


def test_attributes_left_out_take_tvms_defaults(make):
    attrs, info = make("relax.nn.conv2d", {"padding": 1}, (1, 3, 8, 8), (4, 3, 3, 3))
    assert attrs == {
        "data_layout": "NCHW",
        "dilation": (1, 1),
        "groups": 1,
        "kernel_layout": "OIHW",
        "out_dtype": "float32",
        "out_layout": "NCHW",
        "padding": (1, 1, 1, 1),
        "strides": (1, 1),
    }
    assert info == TensorInfo((1, 4, 8, 8), "float32")


@pytest.mark.parametrize(
    ("name", "one", "other", "shapes"),
    [
        ("relax.concat", {"axis": -1}, {"axis": 1}, [[(2, 3), (2, 4)]]),
        ("relax.permute_dims", {}, {"axes": [1, 0]}, [(2, 3)]),
        ("relax.permute_dims", {"axes": (0, -1, 1)}, {"axes": [0, 2, 1]}, [(2, 3, 4)]),
        (
            "relax.split",
            {"indices_or_sections": 3, "axis": -1},
            {"indices_or_sections": [2, 4], "axis": 1},
            [(2, 6)],
        ),
        ("relax.sum", {}, {"axis": [1, 0]}, [(2, 3)]),
        ("relax.mean", {"axis": -1}, {"axis": [1]}, [(2, 3)]),
        ("relax.expand_dims", {"axis": [-1, 0]}, {"axis": (0, 3)}, [(2, 3)]),
        ("relax.squeeze", {}, {"axis": [0, -1]}, [(1, 3, 1)]),
        ("relax.reshape", {"shape": (3, -1)}, {"shape": [3, 2]}, [(2, 3)]),
        ("relax.matmul", {}, {"out_dtype": "float32"}, [(2, 3), (3, 4)]),
        ("relax.clip", {"min": 0, "max": 6.0}, {"min": 0.0, "max": 6}, [(2, 3)]),
        ("relax.tile", {"repeats": 2}, {"repeats": (1, 2)}, [(2, 3)]),
        (
            "relax.strided_slice",
            {"axes": [1, 0], "begin": [-2, 0], "end": [99, 1]},
            {"axes": [0, 1], "begin": [0, 1], "end": [1, 3], "strides": [1, 1]},
            [(2, 3)],
        ),
        ("relax.nn.softmax", {}, {"axis": 1}, [(2, 3)]),
        ("relax.stack", {"axis": -1}, {"axis": 2}, [[(2, 3), (2, 3)]]),
    ],
)
def test_forms_that_mean_the_same_are_one_operator(make, name, one, other, shapes):
    types = make.types(*shapes)
    assert make.language.make(name, one, types) == make.language.make(name, other, types)


@pytest.mark.parametrize(
    ("name", "one", "other", "shapes"),
    [
        ("relax.concat", {"axis": 0}, {"axis": 1}, [[(2, 2), (2, 2)]]),
        ("relax.permute_dims", {"axes": (0, 1)}, {"axes": (1, 0)}, [(2, 2)]),
        ("relax.clip", {"min": 0.0, "max": 6}, {"min": -0.0, "max": 6}, [(2, 3)]),
        ("relax.nn.pad", {"pad_width": (0, 0, 1, 0)}, {"pad_width": (0, 0, 0, 1)}, [(2, 3)]),
        ("relax.sum", {"axis": 0, "keepdims": True}, {"axis": 1, "keepdims": True}, [(1, 1)]),
        ("relax.argmax", {"axis": None}, {"axis": 0}, [(2,)]),
    ],
)
def test_forms_that_differ_are_different_operators(make, name, one, other, shapes):
    types = make.types(*shapes)
    assert make.language.make(name, one, types)[0] != make.language.make(name, other, types)[0]


@pytest.mark.parametrize(
    ("name", "attrs", "shapes", "why"),
    [
        ("relax.matmul", {}, [(2, 3), (4, 5)], "reduction length"),
        ("relax.add", {}, [(2, 3), (2, 4)], "broadcastable"),
        ("relax.reshape", {"shape": (5, 2)}, [(2, 6)], "product"),
        ("relax.split", {"indices_or_sections": 4, "axis": 1}, [(2, 6)], "do not divide"),
        ("relax.split", {"indices_or_sections": (4, 2), "axis": 1}, [(2, 6)], "do not cut"),
        ("relax.strided_slice", {"axes": [1], "begin": [3], "end": [2]}, [(2, 6)], "negative"),
        ("relax.concat", {"axis": 0}, [[(2, 3), (2, 4)]], "relax.concat"),
        ("relax.permute_dims", {"axes": (0, 0)}, [(2, 3)], "relax.permute_dims"),
        ("get", {"index": 2}, [[(2, 3), (2, 4)]], "2 fields"),
        ("get", {"index": 0}, [(2, 3)], "no tuple"),
    ],
)
def test_ill_typed_operators_are_refused_with_one_short_line(make, name, attrs, shapes, why):
    types = make.types(*shapes)
    for _ in range(2):  # the second time from memory
        with pytest.raises(Refusal, match=why) as refusal:
            make.language.make(name, attrs, types)
        assert "\n" not in str(refusal.value)
        assert len(str(refusal.value)) < 250


def test_a_wrong_name_is_a_mistake_of_the_caller_not_a_refusal(make):
    with pytest.raises(ValueError, match=r"relax\.matmull.*correct|relax\.matmull"):
        make("relax.matmull", {}, (2, 3), (3, 4))
    with pytest.raises(ValueError, match="no attribute transpose"):
        make("relax.matmul", {"transpose": True}, (2, 3), (3, 4))
    with pytest.raises(ValueError, match="takes 2 operands"):
        make("relax.matmul", {}, (2, 3))


def test_symbolic_dimensions_are_types_like_others(make):
    n, m = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("n", "int64")
    assert make.types((n, 4)) == make.types((n, 4))
    assert make.types((n, 4)) != make.types((m, 4))
    _, info = make("relax.matmul", {}, (n, 4), (4, 8))
    assert isinstance(info.shape[0], Dim)
    assert info.shape[1] == 8
    double = make.language.info(make.types((n * 2, 512))[0]).shape
    _, info = make("relax.reshape", {"shape": double}, (n, 1024))
    assert info.shape == double


@pytest.mark.parametrize("rows", [3, 5])
def test_a_symbolic_reshape_that_changes_the_element_count_is_refused(make, rows):
    n = tvm.tirx.Var("n", "int64")
    shape = make.language.info(make.types((n * rows, 512))[0]).shape
    with pytest.raises(Refusal, match="element count"):
        make("relax.reshape", {"shape": shape}, (n, 1024))


def test_what_tvm_gives_no_shape_is_refused(make):
    n = tvm.tirx.Var("n", "int64")
    with pytest.raises(Refusal, match="infers no shape"):
        make("relax.add", {}, (n, 1024), (64, 1024))
    with pytest.raises(Refusal, match="do not divide"):
        make("relax.split", {"indices_or_sections": 2, "axis": 0}, (n, 4))


@pytest.mark.parametrize(
    ("name", "attrs", "shapes", "why"),
    [
        ("relax.matmul", {}, [(2, "n"), ("m", 4)], "n columns may differ from m rows"),
        ("relax.nn.conv2d", {}, [(1, "n", 8, 8), (4, "m", 3, 3)], "n channels may differ"),
        ("relax.broadcast_to", {"shape": (7, 4)}, [("n", 4)], "n may be neither 1 nor 7"),
        ("relax.squeeze", {"axis": 0}, [("n", 4)], "n may not be 1"),
    ],
)
def test_dimensions_that_may_differ_are_refused(make, name, attrs, shapes, why):
    symbols = {s: tvm.tirx.Var(s, "int64") for s in "nm"}

    def with_symbols(equal):
        taken = {"n": symbols["n"], "m": symbols["n" if equal else "m"]}
        return [tuple(taken.get(d, d) for d in shape) for shape in shapes]

    with pytest.raises(Refusal, match=why):
        make(name, attrs, *with_symbols(equal=False))
    if "m" in str(shapes):
        make(name, attrs, *with_symbols(equal=True))


def test_rules_that_compute_with_symbolic_dimensions_are_refused(make):
    n = tvm.tirx.Var("n", "int64")
    dim = make.language.info(make.types((n,))[0]).shape[0]
    with pytest.raises(Refusal, match="symbolic: n"):
        dim + 1


def test_scalars_keep_dtype_value_sign_and_nan(make):
    language = make.language

    def scalar(value, dtype):
        return language.make("scalar", {"value": value, "dtype": dtype}, ())[0]

    numbers = [
        scalar(0.0, "float32"),
        scalar(-0.0, "float32"),
        scalar(0.0, "float16"),
        scalar(0, "int32"),
        scalar(False, "bool"),
        scalar(math.nan, "float32"),
        scalar(0.1, "float32"),
    ]
    assert len(set(numbers)) == len(numbers)
    assert scalar(float("nan"), "float32") == numbers[5]
    assert language.operator(numbers[6])["value"] == float(np.float32(0.1))
    assert scalar(np.float32(0.1), "float32") == numbers[6]
    assert scalar(0.1, "bfloat16") == language.weight(relax.const(0.1, "bfloat16"))[0]


def test_a_constant_of_rank_0_is_the_scalar_that_a_rule_would_make(make):
    for value, dtype in [(1.5, "float16"), (3, "int64"), (True, "bool"), (0.1, "float32")]:
        constant = make.language.weight(relax.const(value, dtype))
        assert constant == make.language.make("scalar", {"value": value, "dtype": dtype}, ())


def test_weights_with_equal_content_are_one(make):
    language = make.language
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    one, _ = language.weight(relax.const(a))
    again, _ = language.weight(relax.const(a.copy()))
    late = a.copy()
    late[1, 0] += 1
    others = [relax.const(late), relax.const(a.reshape(3, 2)), relax.const(a.view(np.int32))]
    assert one == again
    assert len({one, *(language.weight(other)[0] for other in others)}) == 4


def test_a_weight_of_one_value_says_so(make):
    def attrs(array: np.ndarray) -> dict:
        return dict(make.language.operator(make.language.weight(relax.const(array))[0]).attrs)

    assert attrs(np.full((3, 40), 2.5, np.float32))["splat"] == 2.5
    assert attrs(np.zeros((1,), np.int64))["splat"] == 0
    hidden = np.zeros(1000, np.float32)
    hidden[501] = 1e-30
    assert "splat" not in attrs(hidden)
    assert "splat" not in attrs(np.zeros((0, 3), np.float32))
    assert "splat" not in attrs(np.array([0.0, -0.0], np.float32))


def test_leaves_are_told_apart_by_identity(make):
    x, y = relax.Var("x", tensor(2)), relax.Var("x", tensor(2))
    assert make.language.leaf(x) == make.language.leaf(x)
    assert make.language.leaf(x) != make.language.leaf(y)
    assert make.language.call(make.language.leaf(x)[0], ()).same_as(x)
    with pytest.raises(ValueError, match="leaf"):
        make.language.make("leaf", {}, ())


def test_a_second_make_costs_no_inference(make, monkeypatch):
    types = make.types((2, 3))
    first = make.language.make("relax.nn.relu", {}, types)
    monkeypatch.setattr("tvm_tensat.relax.inference.infer", None)
    assert make.language.make("relax.nn.relu", {}, types) == first


def test_is_foldable_says_what_can_be_computed(make):
    n = tvm.tirx.Var("n", "int64")
    language = make.language

    def foldable(name: str, attrs: dict, *shapes: object) -> bool:
        return language.is_foldable(language.make(name, attrs, make.types(*shapes))[0])

    assert foldable("relax.matmul", {}, (2, 3), (3, 4))
    assert foldable("tuple", {}, (2, 3), (3, 4))
    assert not foldable("relax.nn.conv2d", {}, (1, 3, 8, 8), (4, 3, 3, 3))
    dim = language.info(make.types((n,))[0]).shape[0]
    assert not foldable("relax.broadcast_to", {"shape": (dim, 3)}, (1, 3))
    assert not language.is_foldable(language.leaf(relax.Var("x", tensor(2)))[0])
