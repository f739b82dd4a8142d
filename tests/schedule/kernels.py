"""One-operator models, compiled through the pipeline, and the rule that scheduled their kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.target.codegen import llvm_get_system_cpu

from tvm_tensat.schedule import build_pipeline, cpu_rules
from tvm_tensat.schedule.rule import SCHEDULED_BY

HOST = tvm.target.Target({"kind": "llvm", "mcpu": llvm_get_system_cpu()})

Arrays = Sequence[np.ndarray]
Model = Callable[..., Any]


def model(build: Model, inputs: Sequence[relax.Var], constants: Arrays = ()) -> tvm.ir.IRModule:
    """Return a module whose `main` is build(*inputs, *constants)."""
    builder = relax.BlockBuilder()
    with builder.function("main", list(inputs)):
        with builder.dataflow():
            value = build(*inputs, *[relax.const(c) for c in constants])
            result = builder.emit_output(builder.normalize(value))
        builder.emit_func_output(result)
    return builder.get()


def variables(arrays: Arrays) -> list[relax.Var]:
    return [
        relax.Var(f"x{i}", relax.TensorType(a.shape, str(a.dtype))) for i, a in enumerate(arrays)
    ]


def run(
    build: Model,
    inputs: Arrays,
    constants: Arrays = (),
    target: tvm.target.Target = HOST,
    parameters: Sequence[relax.Var] | None = None,
) -> np.ndarray:
    """Compile a model with our pipeline and run it."""
    mod = model(build, parameters or variables(inputs), constants)
    executable = tvm.compile(mod, target, relax_pipeline=build_pipeline(target))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return machine["main"](*[tvm.runtime.tensor(a) for a in inputs]).numpy()


def rules_of(build: Model, inputs: Arrays, target: tvm.target.Target = HOST) -> list[str]:
    """Return the rule that takes each kernel of a model, "none" where none does."""
    from tvm.relax.backend.cpu_generic import pipeline

    mod = model(build, variables(inputs))
    with target:
        mod = tvm.transform.Sequential(pipeline.legalize_passes(target))(mod)
        mod = tvm.s_tir.dlight.ApplyDefaultSchedule(*cpu_rules())(mod)
    kernels = [f for _, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
    return sorted(str(f.attrs.get(SCHEDULED_BY) or "none") for f in kernels)


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Return seeded values: normal for floats, small integers else."""
    rng = np.random.default_rng(seed + sum(shape))
    if dtype.startswith("int"):
        return rng.integers(-4, 5, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
