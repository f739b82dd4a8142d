"""The zoo's graphs against published figures, and its weights."""

import math
import sys
from collections import Counter

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from tests.conftest import before_softmax, build, random_inputs, run
from tvm_tensat import zoo
from tvm_tensat.zoo import light


def _constants(module: tvm.IRModule) -> list[np.ndarray]:
    found = {}  # a constant is met once for each use; it hashes by identity

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GenericConst):
            found[expr] = expr.value.numpy()

    relax.analysis.post_order_visit(module["main"], visit)
    return list(found.values())


def _operators(module: tvm.IRModule) -> Counter:
    (block,) = module["main"].body.blocks
    assert isinstance(block, relax.DataflowBlock)
    calls = [b.value for b in block.bindings if isinstance(b.value, relax.Call)]
    return Counter(call.op.name.removeprefix("relax.") for call in calls)


def _shapes(module: tvm.IRModule) -> list[tuple[int, ...]]:
    return [tuple(int(d) for d in p.ty.shape) for p in module["main"].params]


def test_bert_has_the_dimensions_of_tensats_evaluation():
    # tensat/src/bert.rs: SEQ_LENGTH 64, HIDDEN_DIMS 1024, 8 layers of 16 heads; each layer has
    # four weights, two products of activations, and leaves its attention as an output.
    module = zoo.load("bert")
    assert _shapes(module) == [(64, 1024)]
    assert [c.shape for c in _constants(module)] == [(1024, 1024)] * 8 * 4
    assert _operators(module)["matmul"] == 8 * (4 + 2)
    assert len(module["main"].ret_ty.fields) == 8 + 1


def test_nasrnn_has_the_dimensions_of_tensats_evaluation():
    # tensat/src/nasrnn.rs: LENGTH 5, HIDDEN_SIZE 512; eight gates a step, two weights a gate, and
    # a first state that is a weight. Its tree has 5 sigmoids, 2 relus and 8 tanhs a step.
    module = zoo.load("nasrnn")
    assert _shapes(module) == [(1, 512)] * 5
    shapes = Counter(c.shape for c in _constants(module))
    assert shapes == {(512, 512): 5 * 8 * 2, (1, 512): 1}
    operators = _operators(module)
    assert operators["matmul"] == 5 * 8 * 2
    assert (operators["sigmoid"], operators["nn.relu"], operators["tanh"]) == (25, 10, 40)


def test_one_nasrnn_step_computes_the_published_cell():
    from tvm_tensat.zoo import nasrnn

    module = nasrnn.build(seed=3, steps=1, hidden=8)
    constants = _constants(module)
    state = next(c for c in constants if c.shape == (1, 8)).astype(np.float64)
    weights = [c.astype(np.float64) for c in constants if c.shape == (8, 8)]
    (x,) = random_inputs(module)

    # The cell written out from the node list of nasrnn.rs; the weights are met in gate order.
    t = [x @ weights[2 * gate] + state @ weights[2 * gate + 1] for gate in range(8)]
    relu, tanh = (lambda v: np.maximum(v, 0)), np.tanh

    def sigmoid(v: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-v))

    m = [relu(t[0]) + sigmoid(t[3]), sigmoid(t[1]) + tanh(t[2])]
    m += [sigmoid(t[4]) * tanh(t[5]), sigmoid(t[6]) * relu(t[7])]
    m += [sigmoid(m[1]) + tanh(m[2]), tanh(m[0]) * tanh(m[3])]
    expected = tanh(tanh(m[4]) * tanh(m[5]))

    np.testing.assert_allclose(run(module, [x])[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # torchvision's counts without classifier (2,049,000 and 1,281,000). They have batch norms,
        # two parameters for each channel of a convolution's result, where these have none.
        ("resnext50", 25_028_904 - 2_049_000),
        ("inception_v3", 23_834_568 - 2_049_000),  # without the auxiliary classifier
        ("mobilenet_v2", 3_504_872 - 1_281_000),
    ],
)
def test_a_convolutional_network_has_the_published_number_of_weights(name, parameters):
    kernels = [c.shape for c in _constants(zoo.load(name))]
    assert sum(math.prod(shape) + 2 * shape[0] for shape in kernels) == parameters


def test_nasnet_has_the_cells_of_tasos_evaluation():
    # Three stages of five normal cells (5 sums of 10 branches: 5 separable convolutions of two
    # convolutions each, 3 averages) and a reduction cell (5 sums; 5 separable convolutions, 2
    # averages, 2 maxima); each cell squeezes both of its inputs; two layers before the first.
    module = zoo.load("nasnet_a")
    assert _shapes(module) == [(1, 3, 224, 224)]
    operators = _operators(module)
    assert operators["nn.conv2d"] == 1 + 3 * 5 * (5 * 2 + 2) + 3 * (5 * 2 + 2)
    assert operators["nn.avg_pool2d"] == 3 * 5 * 3 + 3 * 2
    assert operators["nn.max_pool2d"] == 1 + 3 * 2
    assert operators["add"] == 3 * 5 * 5 + 3 * 5
    assert operators["concat"] == 3 * 6
    assert [int(d) for d in module["main"].ret_ty.shape] == [1, 5 * 1024, 7, 7]
    windows = Counter(c.shape[2:] for c in _constants(module) if c.shape[1] == 1)
    assert windows == {(3, 3): 3 * 5 * 5 + 3, (5, 5): 3 * 2, (7, 7): 3 * 2}


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        # Parameters as torchvision's documentation counts them, less biases and batch norms.
        ("squeezenet", 1_235_496 - 3_944),  # SqueezeNet 1.1
        ("resnet50", 25_557_032 - 53_120 - 1_000),
        ("vgg19", 143_667_240 - 14_696),
        ("densenet121", 7_978_856 - 83_648 - 1_000),
        # Caffe's AlexNet (groups in conv2, 4 and 5) and GoogLeNet without auxiliary classifiers.
        ("alexnet", 60_965_224 - 10_568),
        ("inception_v1", 6_998_552 - 8_280),
    ],
)
def test_light_model_has_the_published_number_of_weights(name, kernels):
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(light._folder(onnx) / light.FILES[name]).graph
    weights = light._weights(onnx, graph)
    assert sum(math.prod(w.shape) for w in weights if w.role == "kernel") == kernels


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v2", "resnet50"])
def test_light_model_is_one_block_with_weights_that_all_differ(name):
    module = zoo.load(name)
    assert _shapes(module) == [(1, 3, 224, 224)]
    assert _operators(module)["nn.conv2d"] > 20
    weights = [c for c in _constants(module) if c.size > 1]
    assert len({c.tobytes() for c in weights}) == len(weights)
    assert all(c.std() > 0 for c in weights)


def test_batch_norm_variances_are_positive():
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(light._folder(onnx) / light.FILES["shufflenet"]).graph
    variances = [w for w in light._weights(onnx, graph) if w.role == "variance"]
    assert len(variances) == 49
    assert all(light._draw(w, seed=5).min() >= 0.5 for w in variances)


def test_equal_seeds_give_equal_modules_and_other_seeds_do_not():
    first, again, other = (zoo.load("squeezenet", seed) for seed in (1, 1, 2))
    assert tvm_ffi.structural_equal(first, again)
    assert not tvm_ffi.structural_equal(first, other)


def test_outputs_tell_right_from_wrong():
    module = zoo.load("squeezenet")
    compute = build(before_softmax(module))
    (logits,) = compute(random_inputs(module))
    assert np.isfinite(logits).all()
    assert 0.5 < logits.std() < 2
    probabilities = np.exp(logits) / np.exp(logits).sum()
    assert probabilities.max() < 0.2  # far from saturated
    (others,) = compute(random_inputs(module, seed=1))
    assert np.abs(others - logits).max() > 0.01


@pytest.mark.parametrize("name", ["bert", "nasrnn"])
def test_outputs_of_tensats_models_are_finite_and_of_moderate_size(name):
    module = zoo.load(name)
    for output in run(module, random_inputs(module)):
        assert np.isfinite(output).all()
        assert 0.01 < output.std() < 100


def test_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match=r"no model 'resnet'.*bert.*resnet50"):
        zoo.load("resnet")


def test_without_onnx_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)  # any import of it fails now
    with pytest.raises(ImportError, match=r"tvm-tensat\[onnx\]"):
        zoo.load("vgg19")
