"""Unscheduled kernels against scheduled ones, each alone on warm buffers.

    python -m tests.benchmarks.schedule [--json FILE] [--models NAME ...] [--target JSON]

Without `--models` the named kernels below are measured, with it every distinct fused kernel of the
given light ONNX models. A kernel's weight is packed as the pipeline packs constants. One run of
the unscheduled side is enough where it takes long; the scheduled side is run until `--seconds` are
over, and its median and spread (interquartile range over median) are given. Set TVM_NUM_THREADS
before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax, s_tir, tirx
from tvm.relax.backend.cpu_generic import pipeline
from tvm.target.codegen import llvm_get_system_cpu

from tvm_tensat.schedule import cpu_rules, fingerprint
from tvm_tensat.schedule.constants import packed_kernel
from tvm_tensat.schedule.contraction import factors
from tvm_tensat.schedule.rule import SCHEDULED_BY
from tvm_tensat.schedule.stages import NotSchedulable, axis_extents, is_reduction, root_blocks

LONG_SECONDS = 0.2  # an unscheduled kernel that takes longer is run once


@dataclass(frozen=True)
class Row:
    """One kernel: times in milliseconds, spread as a fraction of the median."""

    kernel: str
    rule: str
    unscheduled: float
    scheduled: float
    spread: float
    gflops: float
    compile_seconds: float
    error: float


def product(*shapes: tuple[int, ...]) -> relax.Expr:
    """Return a product of variables of two shapes."""
    return relax.op.matmul(*[_variable(i, s) for i, s in enumerate(shapes)])


def convolution(
    channels: int, size: int, filters: int, window: int, stride: int = 1, groups: int = 1
) -> relax.Expr:
    """Return an NCHW convolution of one image, padded to keep its size before the stride."""
    x = _variable(0, (1, channels, size, size))
    w = _variable(1, (filters, channels // groups, window, window))
    return relax.op.nn.conv2d(x, w, stride, window // 2, groups=groups)


def _variable(index: int, shape: tuple[int, ...]) -> relax.Var:
    return relax.Var(f"x{index}", relax.TensorType(shape, "float32"))


NAMED = {
    "matmul 64x1024x1024": lambda: product((64, 1024), (1024, 1024)),
    "GEMV 1x512x512": lambda: product((1, 512), (512, 512)),
    "matmul 197x768x3072": lambda: product((197, 768), (768, 3072)),
    "batched 16x64x64x64": lambda: product((16, 64, 64), (16, 64, 64)),
    "conv 3x3, 64 channels, 56x56": lambda: convolution(64, 56, 64, 3),
    "conv 1x1 256->64, 56x56": lambda: convolution(256, 56, 64, 1),
    "conv 3x3, 512 channels, 7x7": lambda: convolution(512, 7, 512, 3),
    "conv 7x7/2 3->64, 224": lambda: convolution(3, 224, 64, 7, 2),
    "depthwise 136, 28x28": lambda: convolution(136, 28, 136, 3, 1, 136),
}


def _kernels(mod: tvm.ir.IRModule, target: tvm.target.Target) -> Iterator[tuple[str, Any]]:
    """Yield the distinct fused kernels of a module."""
    with target:
        mod = tvm.transform.Sequential(pipeline.legalize_passes(target))(mod)
    seen = set()
    for var, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and func.script() not in seen:
            seen.add(func.script())
            yield str(var.name_hint), func


def named_kernels(target: tvm.target.Target) -> Iterator[tuple[str, Any]]:
    """Yield the kernels of `NAMED`."""
    for name, build in NAMED.items():
        builder = relax.BlockBuilder()
        expr = build()
        with builder.function("main", [a for a in expr.args if isinstance(a, relax.Var)]):
            with builder.dataflow():
                result = builder.emit_output(builder.normalize(expr))
            builder.emit_func_output(result)
        for _, func in _kernels(builder.get(), target):
            yield name, func


def model_kernels(model: str, target: tvm.target.Target) -> Iterator[tuple[str, Any]]:
    """Yield the distinct kernels of a light ONNX model."""
    import onnx
    import onnx.backend.test
    from tvm.relax.frontend.onnx import from_onnx

    data = Path(onnx.backend.test.__file__).parent / "data" / "light"
    mod = from_onnx(onnx.load(data / f"light_{model}.onnx"))
    mod = relax.transform.DecomposeOpsForInference()(mod)
    for name, func in _kernels(mod, target):
        yield f"{model} {name}", func


def arguments(func: tirx.PrimFunc) -> list[np.ndarray]:
    """Return seeded arguments: positive floats (as variances must be), small integers else."""
    rng = np.random.default_rng(0)
    arrays = []
    for param in func.params:
        shape, dtype = [int(size) for size in param.ty.shape], str(param.ty.dtype)
        values = rng.random(shape) + 0.25 if "float" in dtype else rng.integers(0, 2, shape)
        arrays.append(np.asarray(values).astype(dtype))
    return arrays


def scheduled(func: tirx.PrimFunc, target: tvm.target.Target) -> tirx.PrimFunc:
    """Return a kernel as our rules schedule it."""
    with target:
        mod = s_tir.dlight.ApplyDefaultSchedule(*cpu_rules())(tvm.IRModule({"main": func}))
    return mod["main"]


def compiled(func: tirx.PrimFunc, target: tvm.target.Target) -> Any:
    """Return a kernel's module with one function, `main`."""
    return tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), target)


def seconds(library: Any, tensors: list[Any], repeat: int) -> list[float]:
    """Return the seconds of each of `repeat` runs."""
    module = getattr(library, "mod", library)
    evaluate = module.time_evaluator("main", tvm.cpu(), number=1, repeat=repeat)
    return list(evaluate(*tensors).results)


def products_of(func: tirx.PrimFunc) -> int:
    """Return the multiply-adds of a kernel's anchor, 0 for other kernels."""
    sch = s_tir.Schedule(func)
    for block in root_blocks(sch):
        if is_reduction(sch, block):
            try:
                factors(sch.get(block).body)
            except NotSchedulable:
                return 0
            return prod(extent or 1 for extent in axis_extents(sch, block))
    return 0


def measure(name: str, func: tirx.PrimFunc, target: tvm.target.Target, limit: float) -> Row:
    """Build both forms of a kernel, compare what they compute, and time them."""
    plain = arguments(func)
    ours, kernel = list(plain), packed_kernel(func, target)
    if kernel is not None:
        ours[kernel.parameter] = kernel.order.pack(ours[kernel.parameter])
    start = time.perf_counter()
    fast = scheduled(kernel.func if kernel else func, target)
    fast_library = compiled(fast, target)
    compile_seconds = time.perf_counter() - start
    plain_tensors = [tvm.runtime.tensor(a) for a in plain]
    fast_tensors = [tvm.runtime.tensor(a) for a in ours]
    slow_library = compiled(func, target)
    once = seconds(slow_library, plain_tensors, 1)
    fast_once = seconds(fast_library, fast_tensors, 2)[1]
    expected = plain_tensors[-1].numpy().astype("float64")
    error = np.abs(fast_tensors[-1].numpy() - expected).max(initial=0)
    error /= np.abs(expected).max(initial=1e-30)
    if once[0] < LONG_SECONDS:
        once = seconds(slow_library, plain_tensors, max(3, int(limit / 4 / max(once[0], 1e-6))))
    repeat = max(5, min(2000, int(limit / max(fast_once, 1e-6))))
    times = seconds(fast_library, fast_tensors, repeat)
    low, median, high = statistics.quantiles(times, n=4)
    return Row(
        kernel=name,
        rule=str(fast.attrs.get(SCHEDULED_BY) or "none"),
        unscheduled=statistics.median(once) * 1e3,
        scheduled=median * 1e3,
        spread=(high - low) / median,
        gflops=2e-9 * products_of(func) / median,
        compile_seconds=compile_seconds,
        error=float(error),
    )


def main() -> None:
    """Measure, print one line a kernel, and write all rows where `--json` says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--models", nargs="*", default=[], help="light ONNX models")
    parser.add_argument("--seconds", type=float, default=0.3, help="a scheduled kernel's time")
    host = json.dumps({"kind": "llvm", "mcpu": llvm_get_system_cpu()})
    parser.add_argument("--target", default=host, help="target as JSON (default: this machine)")
    options = parser.parse_args()
    target = tvm.target.Target(json.loads(options.target))
    rows = []
    print("kernel | rule | unscheduled ms | scheduled ms | spread | GFLOP/s | build s | error")
    sources = [model_kernels(m, target) for m in options.models] or [named_kernels(target)]
    for source in sources:
        for name, func in source:
            row = measure(name, func, target, options.seconds)
            rows.append(row)
            slower = " SLOWER" if row.scheduled > 1.05 * row.unscheduled else ""
            print(
                f"{row.kernel} | {row.rule} | {row.unscheduled:.3f} | {row.scheduled:.4f} | "
                f"{row.spread:.0%} | {row.gflops:.1f} | {row.compile_seconds:.2f} | "
                f"{row.error:.0e}{slower}",
                flush=True,
            )
    setup = {
        "tvm": tvm.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {llvm_get_system_cpu()}",
        "threads": os.environ.get("TVM_NUM_THREADS", "default"),
        "target": str(target),
        "schedules": fingerprint(),
        "kernels": [asdict(row) for row in rows],
    }
    if options.json:
        options.json.write_text(json.dumps(setup, indent=1))
    print({k: v for k, v in setup.items() if k != "kernels"}, file=sys.stderr)


if __name__ == "__main__":
    main()
