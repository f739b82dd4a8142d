"""The light ONNX models that the `onnx` package carries as test data.

They are well-known image classifiers as exporters wrote them, with one trick to be small: a weight
is a ConstantOfShape node or an initializer filled with a single value. Weights that are all equal
make an optimizer look too good (they merge) and a test blind (the softmax saturates, so every
output is right). So each weight gets values of its own before the import, by the role it plays:

    kernel                  normal, He: variance 2 / fan_in; the last one smaller, see below
    scale                   uniform in [0.5, 1.5), or [0.25, 0.75) where a residual sum reads it
    bias, mean              normal, standard deviation 0.1
    variance                uniform in [0.5, 1.5)
"""

from __future__ import annotations

import importlib
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray

from tvm_tensat.zoo.weights import normal, uniform

FILES = {
    "squeezenet": "light_squeezenet.onnx",
    "resnet50": "light_resnet50.onnx",
    "inception_v1": "light_inception_v1.onnx",
    "inception_v2": "light_inception_v2.onnx",
    "vgg19": "light_vgg19.onnx",
    "densenet121": "light_densenet121.onnx",
    "shufflenet": "light_shufflenet.onnx",
    "alexnet": "light_bvlc_alexnet.onnx",
    "zfnet512": "light_zfnet512.onnx",
}
"""The file of each model, in ``onnx/backend/test/data/light``."""

_LOGIT_STD = {
    "squeezenet": 0.86,
    "resnet50": 19.6,
    "inception_v1": 5.4,
    "inception_v2": 57.8,
    "vgg19": 4.8,
    "densenet121": 11.4,
    "shufflenet": 230.0,
    "alexnet": 5.9,
    "zfnet512": 1.7,
}
"""Standard deviation of the 1000 logits for a standard normal image, were the last kernel drawn
like the others (seed 0, run by onnxruntime). Drawn smaller by this, logits are around 1."""


def build(name: str, seed: int = 0) -> tvm.IRModule:
    """Import a light model with weights of its own; ``main`` takes (1, 3, 224, 224) float32."""
    from tvm.relax.frontend.onnx import from_onnx

    with warnings.catch_warnings():  # the importer warns that it renames inputs
        warnings.simplefilter("ignore")
        return from_onnx(with_weights(name, seed))


@dataclass(frozen=True)
class _Weight:
    """A weight and what its one reader does with it."""

    name: str
    shape: tuple[int, ...]
    role: str
    fan_in: int = 1


def with_weights(name: str, seed: int = 0) -> Any:
    """Read a light model and give each weight its values.

    Returns
    -------
    onnx.ModelProto
        All weights are initializers; the image is the only input.

    Raises
    ------
    ImportError
        When the `onnx` package is not installed.
    """
    onnx = _require_onnx()
    light = onnx.load(_folder(onnx) / FILES[name])
    weights = _weights(onnx, light.graph)
    filled = {weight.name for weight in weights}
    given = filled | {tensor.name for tensor in light.graph.initializer}
    graph = onnx.helper.make_graph(
        nodes=[node for node in light.graph.node if node.op_type != "ConstantOfShape"],
        name=name,
        inputs=[value for value in light.graph.input if value.name not in given],
        outputs=light.graph.output,
        initializer=[
            tensor
            for tensor in light.graph.initializer
            if tensor.data_type == onnx.TensorProto.INT64 and not tensor.name.endswith("__SHAPE")
        ],
    )
    last = [weight for weight in weights if weight.role == "kernel"][-1]
    for weight in weights:
        values = _draw(weight, seed)
        if weight is last:
            values /= np.float32(_LOGIT_STD[name])
        # In place: VGG-19 has 575 MB of weights, and each copy of them takes seconds.
        graph.initializer.add(
            name=weight.name,
            dims=weight.shape,
            data_type=onnx.TensorProto.FLOAT,
            raw_data=values.astype("<f4", copy=False).tobytes(),
        )
    return onnx.helper.make_model(
        graph, opset_imports=light.opset_import, ir_version=light.ir_version
    )


def _weights(onnx: ModuleType, graph: Any) -> list[_Weight]:
    """Find the float weights of a light model, each with its role."""
    values = {tensor.name: tensor for tensor in graph.initializer}
    shapes = {
        node.output[0]: tuple(int(d) for d in onnx.numpy_helper.to_array(values[node.input[0]]))
        for node in graph.node
        if node.op_type == "ConstantOfShape"
    }
    shapes |= {
        tensor.name: tuple(tensor.dims)
        for tensor in graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT
    }
    reshaped = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type in ("Reshape", "Unsqueeze")
    }
    summed = {tensor for n in graph.node if n.op_type == "Sum" for tensor in n.input}
    found: dict[str, _Weight] = {}
    for node in graph.node:
        for place, tensor in enumerate(node.input):
            source = reshaped.get(tensor, tensor)
            role = _role(node, place, node.output[0] in summed)
            if source in shapes and role is not None:
                found[source] = _Weight(source, shapes[source], role, _fan_in(node, shapes[source]))
    return list(found.values())


def _role(node: Any, place: int, summed: bool) -> str | None:
    """Name what a node does with its operand at this place; None for data."""
    scale = "residual scale" if summed else "scale"
    roles = {
        "Conv": (None, "kernel", "bias"),
        "Gemm": (None, "kernel", "bias"),
        "BatchNormalization": (None, scale, "bias", "mean", "variance"),
        "Mul": (scale, scale),
        "Add": ("bias", "bias"),
    }
    return roles[node.op_type][place] if node.op_type in roles else None


def _fan_in(node: Any, shape: tuple[int, ...]) -> int:
    """Count the inputs that each output of a Conv or Gemm sums."""
    if node.op_type == "Conv":
        return math.prod(shape[1:])
    transposed = any(attr.name == "transB" and attr.i == 1 for attr in node.attribute)
    return shape[-1] if transposed else shape[0]


def _draw(weight: _Weight, seed: int) -> NDArray[np.float32]:
    """Draw the values of a weight by its role."""
    if weight.role == "kernel":
        return normal(seed, weight.name, weight.shape, math.sqrt(2 / weight.fan_in))
    if weight.role in ("bias", "mean"):
        return normal(seed, weight.name, weight.shape, 0.1)
    if weight.role == "residual scale":
        return uniform(seed, weight.name, weight.shape, 0.25, 0.75)
    return uniform(seed, weight.name, weight.shape, 0.5, 1.5)


def _require_onnx() -> ModuleType:
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise ImportError(
            "the light models are data of the onnx package, which is not installed: "
            "pip install 'tvm-tensat[onnx]'"
        ) from error


def _folder(onnx: ModuleType) -> Path:
    return Path(str(onnx.__file__)).parent / "backend" / "test" / "data" / "light"
