"""Pictures of Relax functions, and of what changed between two."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from tests.draw.support import boxes, cells, edges, overlapping, texts
from tests.passes import models
from tvm_tensat.draw import draw_change, draw_function


@I.ir_module
class Twice:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), y: R.Tensor(("n", 8), "float16")):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.nn.relu(a)
            c = R.add(b, x)
            R.output(c)
        return c, y


@I.ir_module
class Once:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), y: R.Tensor(("n", 8), "float16")):
        with R.dataflow():
            a = R.nn.relu(x)
            c = R.add(a, x)
            R.output(c)
        return c, y


@I.ir_module
class Branch:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
        if c:  # noqa: SIM108 - TVMScript has no conditional expression
            y = R.nn.relu(x)
        else:
            y = R.exp(x)
        z = R.match_cast(y, R.Tensor((4,), "float32"))
        w = R.shape_of(z)
        return z, w


def chain(operators: list[str]) -> tvm.IRModule:
    """Elementwise operators, one after another."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for name in operators:
                value = builder.emit(getattr(relax.op, name)(value))
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    return builder.get()


def test_a_function_is_drawn_with_parameters_bindings_and_results() -> None:
    picture = draw_function(Twice)
    assert cells(picture) == {
        "0 x": "source",
        "1 y": "source",
        "2 a": "plain",
        "3 b": "plain",
        "4 c": "plain",
        "result 0": "source",
        "result 1": "source",
    }
    assert edges(picture) == {
        "0 x -> 2 a": 1,
        "2 a -> 3 b": 1,
        "3 b -> 4 c": 1,
        "0 x -> 4 c": 1,
        "4 c -> result 0": 1,
        "1 y -> result 1": 1,
    }
    assert "n×8 float16" in texts(picture)
    assert overlapping(boxes(picture)) == []


def test_what_went_is_marked_on_the_one_side_and_the_rest_is_on_both() -> None:
    picture = draw_change(Twice, Once["main"])
    shown = texts(picture)
    assert shown[:2] == ["before: 3 bindings, 1 gone (dashed)", "after: 2 bindings, 0 new (thick)"]
    assert picture.svg.count('class="tensat-gone"') == 1
    assert picture.svg.count('class="tensat-new"') == 0
    assert shown.count("add") == 2 and shown.count("relu") == 3


def test_equal_functions_have_no_change() -> None:
    picture = draw_change(Once, Once)
    assert texts(picture)[:2] == [
        "before: 2 bindings, 0 gone (dashed)",
        "after: 2 bindings, 0 new (thick)",
    ]
    assert 'class="tensat-gone' not in picture.svg and 'class="tensat-new' not in picture.svg


def test_other_constants_are_a_change() -> None:
    before, after = (_scaled(value) for value in (2.0, 3.0))
    assert "1 gone" in texts(draw_change(before, after))[0]
    assert "0 gone" in texts(draw_change(before, _scaled(2.0)))[0]


def test_changes_that_look_alike_are_drawn_once_with_their_number() -> None:
    unit = ["exp", "negative", "tanh", "sqrt"]
    kept = [name for name in unit if name != "negative"]
    picture = draw_change(chain(unit * 20), chain(kept * 20), most=100)
    shown = texts(picture)
    assert shown[0] == "before: 80 bindings, 20 gone (dashed)"
    assert shown[2].startswith("what changed is shown")
    assert shown.count("negative") == 1 and "20 times like this" in shown
    assert shown.count("exp") == shown.count("tanh") == 1 and "sqrt" not in shown


def test_what_does_not_fit_is_counted() -> None:
    before, after = chain(["exp", "tanh"] * 40), chain(["sqrt", "negative"] * 40)
    picture = draw_change(before, after, most=50)
    # All 80 operators of each side, the input and the result: one change.
    assert texts(picture)[3] == "the first 50 of the 164 boxes of a change are shown"
    assert picture.svg.count("data-cell=") == 50
    units = ["exp", "negative", "tanh", "negative", "negative", "sqrt"] * 20
    kept = [name for name in units if name != "negative"]
    some = texts(draw_change(chain(units), chain(kept), most=6))
    assert some[3] == "20 more changes are left out, for room"
    assert texts(draw_function(before, most=10))[0] == "the first 10 of 82 boxes are shown"


@pytest.mark.parametrize("module", [models.convolution_with_batch_norm(), models.NoDataflow])
def test_tuples_constants_and_functions_without_dataflow_are_drawn(module) -> None:
    picture = draw_function(module)
    bound = sum(len(block.bindings) for block in module["main"].body.blocks)
    assert sum(role == "plain" for role in cells(picture).values()) == bound
    assert overlapping(boxes(picture)) == []


def test_branches_casts_and_calls_of_kernels_are_boxes_too() -> None:
    assert set(edges(draw_function(Branch))) == {
        "0 x -> 2 y",
        "1 c -> 2 y",
        "2 y -> 3 z",
        "3 z -> 4 w",
        "3 z -> result 0",
        "4 w -> result 1",
    }
    lowered = relax.transform.LegalizeOps()(models.convolution_with_batch_norm())
    assert "call_tir conv2d" in texts(draw_function(lowered))


def test_pictures_do_not_differ_from_run_to_run() -> None:
    assert draw_change(Twice, Once).svg == draw_change(Twice, Once).svg


def test_a_function_that_is_not_there_is_a_clear_error() -> None:
    with pytest.raises(ValueError, match="no Relax function 'other'"):
        draw_function(Once, "other")


def _scaled(value: float) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            weight = relax.const(np.full(4, value, "float32"))
            result = builder.emit_output(relax.op.multiply(x, weight))
        builder.emit_func_output(result)
    return builder.get()
