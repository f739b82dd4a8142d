"""What tests of several folders share: seeded inputs, ways to run a module, logits.

These are plain functions, imported by name: ``from tests.conftest import random_inputs, run``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from tvm_tensat.cli.target import parse_target
from tvm_tensat.schedule import build_pipeline

Array = NDArray[np.generic]


def random_inputs(module: tvm.IRModule, seed: int = 0) -> list[Array]:
    """Draw a value for each parameter of ``main``: normal floats, 0 or 1 for other dtypes."""
    generator = np.random.default_rng(seed)
    values: list[Array] = []
    for parameter in module["main"].params:
        shape = tuple(int(d) for d in parameter.ty.shape)
        dtype = np.dtype(str(parameter.ty.dtype))
        draw = generator.standard_normal(shape)
        values.append(draw.astype(dtype) if dtype.kind == "f" else (draw > 0).astype(dtype))
    return values


def build(module: tvm.IRModule) -> Callable[[Sequence[Array]], list[Array]]:
    """Build a module as ``tvmc`` does for this CPU; the function returned runs its ``main``."""
    target = parse_target("llvm")
    executable = tvm.compile(module, target, relax_pipeline=build_pipeline(target))
    machine = relax.VirtualMachine(executable, tvm.cpu())

    def compute(inputs: Sequence[Array]) -> list[Array]:
        result = machine["main"](*(tvm.runtime.tensor(value) for value in inputs))
        tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        return [tensor.numpy() for tensor in tensors]

    return compute


def run(module: tvm.IRModule, inputs: Sequence[Array]) -> list[Array]:
    """Build a module and run it once."""
    return build(module)(inputs)


def before_softmax(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module without the softmax that ``main`` ends in: a softmax hides differences.

    Reshapes after the softmax stay. A module that does not end so comes back as it is.
    """
    main = module["main"]
    *before, block = main.body.blocks
    bindings = list(block.bindings)
    place = len(bindings) - 1
    while place > 0 and _calls(bindings[place], "relax.reshape"):
        place -= 1
    if not _calls(bindings[place], "relax.nn.softmax"):
        return module
    bindings[place] = relax.VarBinding(bindings[place].var, bindings[place].value.args[0])
    body = relax.SeqExpr([*before, relax.DataflowBlock(bindings)], main.body.body)
    changed = tvm.IRModule(dict(module.functions.items()))
    changed["main"] = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    return relax.transform.Normalize()(changed)


def _calls(binding: relax.Binding, op: str) -> bool:
    value = binding.value
    return isinstance(value, relax.Call) and value.op == tvm.ir.Op.get(op)
