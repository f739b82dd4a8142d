"""The pass: what it returns, how it is reached, and what it does when something is wrong."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.target import Target

import tvm_tensat.passes.run
import tvm_tensat.passes.search
import tvm_tensat.passes.user_rules
from tests.passes import models
from tvm_tensat.cost import MeasureError, Measurement, nodes
from tvm_tensat.cost.roofline import Roofline
from tvm_tensat.cost.signatures import Signature
from tvm_tensat.egraph.rule import EXACT, rule
from tvm_tensat.extraction import extract, problem_from_json
from tvm_tensat.passes import (
    Tensat,
    TensatOptions,
    fill_store,
    guard,
    judge,
    optimize,
    side_by_side,
)
from tvm_tensat.passes.hardware import Hardware
from tvm_tensat.passes.race import Race, _lower_bounds
from tvm_tensat.rules.operators import add, multiply

LLVM = Target("llvm")
HARDWARE = Hardware(tvm.cpu(), LLVM)
QUICK = {"costs": "estimated", "race": False}


def outputs(module: tvm.IRModule) -> list[np.ndarray]:
    form = side_by_side.build({"module": module}, LLVM, None, HARDWARE)["module"]
    inputs = [tvm.runtime.tensor(a) for a in guard.random_inputs(module["main"], 7)]
    return guard.flatten(form.runner("main", inputs)())


def calls(module: tvm.IRModule) -> list[str]:
    """Names of the operators called, in order."""
    return [
        binding.value.op.name.removeprefix("relax.")
        for block in module["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
    ]


def test_batch_norm_and_dropout_disappear_into_the_weights() -> None:
    module = models.convolution_with_batch_norm()
    result = optimize(module, LLVM, **QUICK, strict=True)
    assert result.report.verdict == "optimized"
    assert calls(result.module) == ["nn.conv2d", "add", "nn.relu"]
    assert guard.difference(outputs(module), outputs(result.module), 10) is None


def test_a_gain_too_small_to_be_measured_is_none(monkeypatch) -> None:
    monkeypatch.setattr(tvm_tensat.passes.search, "LEAST_GAIN", 0.999)
    module = models.convolution_with_batch_norm()
    result = optimize(module, LLVM, **QUICK, strict=True)
    assert result.report.verdict == "unchanged"
    assert result.module.same_as(module)
    [block] = result.report.blocks
    assert block.bound < block.cost_before
    assert any("no form was found" in reason for reason in result.report.reasons)


def test_the_report_lists_the_rewrites_and_the_iterations() -> None:
    result = optimize(models.convolution_with_batch_norm(), LLVM, **QUICK, strict=True)
    [block] = result.report.blocks
    assert any("dropout_is_identity (iteration 0)" in line for line in block.rewrites)
    text = str(result.report)
    assert f"reached from the input by {len(block.rewrites)} rewrites" in text
    assert "iteration 0: " in text
    assert result.report.to_json()["blocks"][0]["rewrites"] == list(block.rewrites)


def test_the_input_module_is_never_changed() -> None:
    module = models.convolution_with_batch_norm()
    before = tvm_ffi.structural_hash(module)
    optimize(module, LLVM, **QUICK, strict=True)
    assert tvm_ffi.structural_hash(module) == before


def test_measured_and_raced_end_to_end(tmp_path) -> None:
    module = models.convolution_with_batch_norm()
    result = optimize(module, LLVM, cost_store=tmp_path / "costs.sqlite", strict=True)
    block = result.report.blocks[0]
    assert block.kernels_measured > 0 and block.kernels_failed == 0
    assert result.report.races and result.report.races[0].modules[0] == "input"
    assert guard.difference(outputs(module), outputs(result.module), 10) is None
    again = optimize(module, LLVM, cost_store=tmp_path / "costs.sqlite", strict=True)
    assert again.report.blocks[0].kernels_recorded > 0


def test_recorded_costs_measure_nothing_and_choose_only_what_is_recorded(tmp_path) -> None:
    module = models.convolution_with_batch_norm()
    settings = {"cost_store": tmp_path / "costs.sqlite", "race": False, "strict": True}
    empty = optimize(module, LLVM, costs="recorded", **settings).report.blocks[0]
    assert empty.kernels_measured == empty.kernels_recorded == 0
    assert "kernels have no recorded time: only the input uses them" in empty.remarks[0]
    assert empty.cost_after <= empty.cost_before
    first = optimize(module, LLVM, **settings).report.blocks[0]
    again = optimize(module, LLVM, costs="recorded", **settings).report.blocks[0]
    assert again.kernels_measured == 0 and again.kernels_recorded > 0
    assert again.cost_after == pytest.approx(first.cost_after)


def test_candidates_are_forms_that_differ_and_all_compute_the_same(monkeypatch) -> None:
    module = models.convolution_with_batch_norm()
    monkeypatch.setattr(tvm_tensat.passes.search, "MOST_COST", 3.0)
    result = optimize(module, LLVM, costs="estimated", candidates=4, strict=True)
    raced = result.report.races[0].modules
    assert raced[0] == "input" and 3 <= len(raced) <= 5, raced
    assert any("alternative" in name for name in raced)
    assert not any("computes something else" in reason for reason in result.report.reasons)
    assert guard.difference(outputs(module), outputs(result.module), 10) is None


def test_e_graphs_are_kept_with_their_costs(tmp_path) -> None:
    module = models.convolution_with_batch_norm()
    result = optimize(module, LLVM, **QUICK, egraphs=tmp_path / "new" / "folder", strict=True)
    block = result.report.blocks[0]
    problem = problem_from_json(tmp_path / "new" / "folder" / "main-segment-0.json")
    assert extract(problem).cost == pytest.approx(block.cost_after, rel=1e-6)
    (tmp_path / "file").write_text("")
    result = optimize(module, LLVM, **QUICK, egraphs=tmp_path / "file", strict=True)
    assert result.report.verdict == "optimized"
    assert "the e-graph was not saved: " in result.report.blocks[0].remarks[0]
    assert (tmp_path / "file").read_text() == ""


def test_works_in_sequential_under_instruments() -> None:
    module = models.convolution_with_batch_norm()
    timing = tvm.ir.instrument.PassTimingInstrument()
    with LLVM, tvm.transform.PassContext(instruments=[timing]):
        tensat = Tensat(**QUICK)
        result = tvm.transform.Sequential([tensat, relax.get_default_pipeline(LLVM)])(module)
        assert "Tensat" in timing.render()
    assert tensat.report.verdict == "optimized"
    assert isinstance(result, tvm.IRModule)


def test_is_reached_by_its_ffi_name_and_as_a_pipeline() -> None:
    module = models.convolution_with_batch_norm()
    assert tvm.get_global_func("relax.transform.Tensat")().info.name == "Tensat"
    pipeline = relax.get_pipeline("tensat", **QUICK)
    executable = tvm.compile(module, LLVM, relax_pipeline=pipeline)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    inputs = [tvm.runtime.tensor(a) for a in guard.random_inputs(module["main"], 7)]
    got = guard.flatten(machine["main"](*inputs))
    assert guard.difference(outputs(module), got, 10) is None


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (models.NoDataflow, "no dataflow block"),
        (tvm.IRModule(), "no dataflow block"),
    ],
)
def test_nothing_to_do_returns_the_input_and_says_why(module, reason) -> None:
    result = optimize(module, LLVM, **QUICK)
    assert result.module.same_as(module)
    assert result.report.verdict == "unchanged"
    assert reason in " ".join(result.report.reasons)


def test_a_block_of_constants_only_keeps_its_value() -> None:
    result = optimize(models.OnlyConstants, LLVM, **QUICK, strict=True)
    assert np.array_equal(outputs(result.module)[0], [2.0, 3.0, 4.0, 5.0])


def test_symbolic_shapes_are_rewritten_and_checked() -> None:
    result = optimize(models.Symbolic, LLVM, **QUICK, strict=True)
    assert calls(result.module) == ["matmul", "nn.relu"]
    assert not any("not run" in reason for reason in result.report.reasons)


@rule(keeps=EXACT)
def wrong_sum(x, y):
    """A sum is a product, which is wrong."""
    yield add(x, y)
    yield multiply(x, y)


def test_a_wrong_rule_is_caught_by_the_check(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("TVM_TENSAT_COSTS", str(tmp_path / "costs.sqlite"))
    module = models.shared_products(count=2)
    monkeypatch.setattr(tvm_tensat.passes.user_rules, "all_rules", lambda _: (wrong_sum,))
    # Equal costs would leave the input; sums that take a second do not.
    monkeypatch.setattr(Signature, "estimate", _costs_against("relax.add", Signature.estimate))
    result = optimize(module, LLVM, **QUICK)
    assert result.module.same_as(module)
    reason = " ".join(result.report.reasons)
    assert "computes something else" in reason
    [folder] = (tmp_path / "failures").iterdir()
    assert str(folder) in reason
    before, after = (
        tvm.ir.load_json((folder / f"{name}.json").read_text()) for name in ("before", "after")
    )
    assert tvm_ffi.structural_equal(before, module)
    assert guard.difference(outputs(before), outputs(after), 10) is not None
    with pytest.raises(ValueError, match="computes something else"):
        optimize(module, LLVM, **QUICK, strict=True)


def _costs_against(name: str, original):
    def estimate(self, language, line):
        found = original(self, language, line)
        extra = float(language.operator(self.operator).name == name)
        return replace(found, seconds=found.seconds + extra)

    return estimate


def test_what_tvms_own_passes_leave_is_optimized_further() -> None:
    transform = relax.transform
    stock = [transform.FoldBatchnormToConv2D(), transform.DecomposeOpsForInference("main")]
    module = models.convolution_with_batch_norm()
    result = optimize(tvm.transform.Sequential(stock)(module), LLVM, **QUICK, strict=True)
    assert calls(result.module) == ["nn.conv2d", "add", "nn.relu"]
    assert guard.difference(outputs(module), outputs(result.module), 10) is None


@pytest.mark.parametrize("merged_fails", [False, True])
def test_a_kernel_that_failed_is_not_chosen(monkeypatch, tmp_path, merged_fails) -> None:
    """The product of all three weights would be the best by far, if it could be measured."""

    def measured(kernels, target, *, progress, **_options) -> list[Measurement]:
        progress(0, len(kernels))
        return [
            Measurement(1e-3, 0.0, 1, None)
            if "192" not in kernel.key
            else Measurement.failure("gave NaN in 7 of 9 elements")
            if merged_fails
            else Measurement(1e-6, 0.0, 1, None)
            for kernel in kernels
        ]

    roofline = Roofline.documented(LLVM)
    monkeypatch.setattr(nodes, "measure", measured)
    monkeypatch.setattr(Roofline, "calibrated", lambda *_arguments, **_options: roofline)
    module = models.shared_products()
    settings = {"cost_store": tmp_path / "costs.sqlite", "race": False, "strict": True}
    result = optimize(module, LLVM, **settings)
    [block] = result.report.blocks
    assert calls(result.module).count("matmul") == (3 if merged_fails else 1)
    assert any("gave NaN" in failure for failure in block.failures) == merged_fails


def test_ctrl_c_during_an_extraction_ends_the_pass(monkeypatch) -> None:
    """Extraction by itself answers with the best so far; whoever compiles wants to stop."""

    def interrupted(*arguments, **options):
        return replace(extract(*arguments, **options), status="feasible: interrupted")

    monkeypatch.setattr(tvm_tensat.passes.search, "extract", interrupted)
    with pytest.raises(KeyboardInterrupt):
        optimize(models.shared_products(), LLVM, **QUICK)


def test_a_store_is_not_filled_with_estimates(tmp_path) -> None:
    path = tmp_path / "costs.sqlite"
    target = Target({"kind": "llvm", "mtriple": "riscv64-unknown-linux-gnu"})
    with pytest.raises(MeasureError, match="no llvm device on this machine"):
        fill_store(models.shared_products(), target, TensatOptions(cost_store=path))
    assert not path.exists()


def test_a_failure_returns_the_input_unless_strict(monkeypatch) -> None:
    def explode(*_args, **_kwargs):
        raise RuntimeError("out of luck")

    module = models.shared_products()
    monkeypatch.setattr(tvm_tensat.passes.run, "explore_segment", explode)
    result = optimize(module, LLVM, **QUICK)
    assert result.module.same_as(module)
    assert "out of luck" in " ".join(result.report.reasons)
    with pytest.raises(RuntimeError, match="out of luck"):
        optimize(module, LLVM, **QUICK, strict=True)


def _race_won_by(*factors: float):
    """Races in which everything but the input is so many times as fast, race after race."""
    left = iter(factors)

    def race(timers, function, here):
        ratios = (1.0,) + (next(left),) * (len(timers) - 1)
        seconds = tuple(1.0 / ratio for ratio in ratios)
        return Race(function, tuple(timers), seconds, (0.0,) * len(ratios), ratios, ratios)

    return race


@pytest.mark.parametrize("factors", [(0.5,), (1.1, 0.9)])
def test_a_result_that_loses_a_race_is_not_returned(monkeypatch, factors) -> None:
    module = models.convolution_with_batch_norm()
    monkeypatch.setattr(judge, "race", _race_won_by(*factors))
    result = optimize(module, LLVM, costs="estimated", strict=True)
    assert result.module.same_as(module)
    assert "faster than the input" in " ".join(result.report.reasons)
    assert len(result.report.races) == len(factors)


def test_a_result_that_wins_twice_is_returned_with_the_smaller_gain(monkeypatch) -> None:
    module = models.convolution_with_batch_norm()
    monkeypatch.setattr(judge, "race", _race_won_by(1.1, 1.05))
    result = optimize(module, LLVM, costs="estimated", strict=True)
    assert result.report.verdict == "optimized"
    assert "measured 1.050 times as fast" in result.report.reasons


def test_a_clear_win_is_not_run_again(monkeypatch) -> None:
    module = models.convolution_with_batch_norm()
    monkeypatch.setattr(judge, "race", _race_won_by(1.5))
    result = optimize(module, LLVM, costs="estimated", strict=True)
    assert result.report.verdict == "optimized"
    assert len(result.report.races) == 1


def test_a_win_that_is_not_sure_is_none() -> None:
    rounds = np.random.default_rng(0).normal([1.0, 1.02, 1.2], 0.2, (25, 3))
    bounds = _lower_bounds(rounds)
    assert (bounds < np.median(rounds, axis=0)).all()
    assert bounds[1] < 1.0 < bounds[2]


@pytest.mark.parametrize(
    "changes",
    [{"numerics": "maybe"}, {"nodes": 0}, {"k_multi": -1}, {"solver": "abacus"}],
)
def test_bad_options_are_refused_by_name(changes) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        Tensat(**changes)


def test_every_option_is_documented() -> None:
    assert all(option.metadata["help"] for option in fields(TensatOptions))


def test_the_report_is_plain_data_and_text() -> None:
    report = optimize(models.convolution_with_batch_norm(), LLVM, **QUICK, strict=True).report
    data = report.to_json()
    assert data["verdict"] == "optimized" and data["blocks"][0]["exploration"]["nodes"] > 0
    assert "e-nodes" in str(report)


def test_difference_sees_nan_shape_and_size() -> None:
    a = np.array([1.0, 2.0], "float32")
    assert guard.difference([a], [a.copy()], 1) is None
    assert "off by" in guard.difference([a], [a + np.float32(1e-3)], 1)
    assert "NaN" in guard.difference([a], [np.array([1.0, np.nan], "float32")], 1)
    assert "outputs" in guard.difference([a], [], 1)
    assert "not float32" in guard.difference([a], [a.astype("float64")], 1)


def squares() -> tvm.IRModule:
    """The relu of squares, times a matrix: no built-in rule knows that squares are not negative."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            square = builder.emit(relax.op.multiply(x, x))
            product = relax.op.matmul(builder.emit(relax.op.nn.relu(square)), models.constant(8, 8))
            result = builder.emit_output(builder.emit(product))
        builder.emit_func_output(result)
    return builder.get()


def test_rules_of_a_file_are_used_when_they_hold(tmp_path) -> None:
    path = tmp_path / "rules.txt"
    lines = [
        "(relu (ewmul ?x ?x))=>(ewmul ?x ?x)",
        "(matmul 0 ?x ?y)=>(relu (matmul 0 ?x ?y))",
        "(batchnorm ?x ?s ?b ?m ?v)=>?x",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    report = optimize(squares(), LLVM, **QUICK, strict=True, rules=path).report
    assert report.blocks[0].exploration.rules["rules.txt:1"].applied == 1
    assert "rules.txt:2" not in report.blocks[0].exploration.rules
    said = [reason for reason in report.reasons if str(path) in reason]
    assert said[0] == f"rules of {path}: 1 used, 2 refused"
    assert said[1].startswith(f"{path}:2: wrong: the sides differ over the rational numbers")
    assert said[2] == f"{path}:3: operator batchnorm has no meaning in Relax here"


def test_rules_of_a_file_are_no_exact_ones(tmp_path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("(relu (ewmul ?x ?x))=>(ewmul ?x ?x)", encoding="utf-8")
    report = optimize(squares(), LLVM, **QUICK, strict=True, rules=path, numerics="exact").report
    assert f"rules of {path}: none used, numerics is 'exact'" in report.reasons


def test_a_rule_file_that_does_not_parse_is_an_error_before_the_pass_runs(tmp_path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("(relu ?x)", encoding="utf-8")
    with pytest.raises(ValueError, match=r"rules.txt:1:10: expected '=>'"):
        Tensat(rules=path)
