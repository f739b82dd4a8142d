"""The command as users run it, and small models made on the fly."""

import multiprocessing
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm_tensat.cli.main import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all tests here, so that a model is compiled once."""
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="session")
def tvmc(folder: Path) -> Command:
    """Run ``tvmc`` with these arguments in `folder`, as a process of its own.

    The processes are forked from one that has imported TVM, which takes a second or two each time
    otherwise. `test_main.py` runs the installed program itself.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "tests.cli.conftest",
            "tvm_tensat.cli.compile",
            "tvm_tensat.cli.costs",
            "tvm_tensat.cli.extract",
            "tvm_tensat.cli.rules",
            "tvm_tensat.cli.run",
        ]
    )

    def run(*arguments: object) -> Done:
        files = [folder / "stdout.txt", folder / "stderr.txt"]
        process = context.Process(
            target=_child, args=([str(each) for each in arguments], folder, files)
        )
        process.start()
        process.join(timeout=240)
        assert process.exitcode is not None, "the command did not end"
        return Done(process.exitcode, *(file.read_text(encoding="utf-8") for file in files))

    return run


def _child(arguments: list[str], folder: Path, files: list[Path]) -> None:
    """Become ``tvmc``: its arguments, its folder, its standard streams, its exit code."""
    os.chdir(folder)
    for descriptor, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    sys.exit(main(arguments))


@pytest.fixture
def fails(tvmc: Command) -> Callable[..., str]:
    """Run ``tvmc``, which must fail with this exit code and one line; return the line."""

    def run(*arguments: object, code: int = 4) -> str:
        done = tvmc(*arguments)
        assert done.returncode == code, done.stderr
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert line.startswith("tvmc: error: ")
        return line

    return run


def write_onnx(
    path: Path,
    *nodes: onnx.NodeProto,
    inputs: dict[str, list],
    outputs: dict[str, list],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 13,
) -> Path:
    """Write a float32 model of these nodes."""

    def values(shapes: dict[str, list]) -> list[onnx.ValueInfoProto]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in shapes.items()
        ]

    graph = helper.make_graph(
        nodes,
        "graph",
        values(inputs),
        values(outputs),
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3) / 8


@pytest.fixture(scope="session")
def product_onnx(folder: Path) -> Path:
    """``y = x · w``, x (2, 4), w `WEIGHT`."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    return write_onnx(
        folder / "product.onnx",
        node,
        inputs={"x": [2, 4]},
        outputs={"y": [2, 3]},
        weights={"w": WEIGHT},
    )


@pytest.fixture(scope="session")
def product_so(tvmc: Command, folder: Path, product_onnx: Path) -> Path:
    """`product_onnx` compiled for this machine."""
    done = tvmc("compile", product_onnx, "--target", "llvm", "-o", folder / "product.so")
    assert done.returncode == 0, done.stderr
    return folder / "product.so"
