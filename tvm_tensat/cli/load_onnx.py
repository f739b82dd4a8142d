"""ONNX files into Relax, with errors that name the operator and the node."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import tvm

from tvm_tensat.cli.errors import CommandError, MissingPackageError, one_line, without_prints


def import_onnx(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> tvm.IRModule:
    """Import an ONNX file by TVM's importer; weights become constants.

    Parameters
    ----------
    path : Path
        An existing file.
    shapes : mapping of str to tuple of int
        Shapes of inputs, by their names in the model, in place of those that the model states.

    Raises
    ------
    MissingPackageError
        When the `onnx` package is not installed.
    CommandError
        When the file is not ONNX or truncated, or TVM does not support its opset or operators.
    """
    model = _read(path)
    _check_opset(path, model)
    _check_shapes(path, model, shapes)
    from tvm.relax.frontend.onnx import from_onnx

    try:
        with without_prints():
            return from_onnx(model, shape_dict=dict(shapes))
    except tvm.error.OpNotImplemented as error:
        raise CommandError(_unsupported(path, model, error)) from error
    except Exception as error:  # converters raise whatever their code runs into
        raise CommandError(_failed(path, model, error)) from error


def _read(path: Path) -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingPackageError(
            f"{path}: needs the onnx package, which is not installed: "
            "pip install 'tvm-tensat[onnx]'"
        ) from error
    protobuf = import_module("google.protobuf.message")  # a dependency of onnx, without types

    try:
        model = onnx.load(path)
    except protobuf.DecodeError as error:
        raise CommandError(
            f"{path}: not an ONNX model, or a truncated one ({one_line(error)}); export or "
            "download it again"
        ) from error
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise CommandError(
            f"{path}: cannot be read ({one_line(error)}); external weights must lie where the "
            "model says"
        ) from error
    if not model.graph.output:
        raise CommandError(f"{path}: holds no ONNX graph; export or download it again")
    return model


def _check_opset(path: Path, model: Any) -> None:
    import onnx

    opsets = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    newest = onnx.defs.onnx_opset_version()
    if not opsets:
        raise CommandError(
            f"{path}: states no ONNX opset, so the meaning of its operators is unknown; export it "
            "again"
        )
    if opsets[0] > newest:
        raise CommandError(
            f"{path}: opset {opsets[0]} is unsupported; the installed onnx package knows opsets up "
            f"to {newest}; export with one of these, or upgrade onnx"
        )


def _check_shapes(path: Path, model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in weights}
    for name, shape in shapes.items():
        if name not in inputs:
            raise CommandError(
                f"--input-shapes: {path} has no input {name!r}; it has {', '.join(inputs)}"
            )
        tensor = inputs[name].type.tensor_type
        if tensor.HasField("shape") and len(tensor.shape.dim) != len(shape):
            raise CommandError(
                f"--input-shapes: {name} has {len(tensor.shape.dim)} dimensions in {path}, "
                f"{len(shape)} were given"
            )


def _unsupported(path: Path, model: Any, error: Exception) -> str:
    """Say which operators the importer lacks, and at which nodes they stand first."""
    lacking = {name.strip() for name in str(error).partition(":")[2].split(",")}
    first: dict[str, str] = {}
    for node in model.graph.node:
        if node.op_type in lacking:
            first.setdefault(node.op_type, f"operator {node.op_type} ({_place(node)})")
    return (
        f"{path}: {', '.join(first.values()) or one_line(error)} is not supported by TVM's ONNX "
        "importer; export the model without it"
    )


def _failed(path: Path, model: Any, error: Exception) -> str:
    """Say at which node the importer failed; it does not tell, so its frames are asked."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == "_construct_nodes" and "node" in frame.f_locals:
            node = frame.f_locals["node"]
            reason = f"{type(error).__name__}: {one_line(error, 300)}"
            missing = _undefined_input(model, node)
            if missing is not None:
                return f"{path}: {_place(node)} reads {missing!r}, which nothing defines"
            return (
                f"{path}: operator {node.op_type} ({_place(node)}) cannot be imported: {reason}; "
                "static --input-shapes or a simplified model (onnxslim) may help"
            )
    return f"{path}: cannot be imported: {type(error).__name__}: {one_line(error)}"


def _undefined_input(model: Any, node: Any) -> str | None:
    graph = model.graph
    defined = {value.name for value in (*graph.input, *graph.initializer)}
    defined |= {name for other in graph.node for name in other.output}
    return next((name for name in node.input if name and name not in defined), None)


def _place(node: Any) -> str:
    outputs = ", ".join(repr(name) for name in node.output)
    return f"node {node.name!r}" if node.name else f"the node of output {outputs}"
