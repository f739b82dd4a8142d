"""Do the times of kernels add up to the time of a module made of them?

    python -m tests.cost.prediction [--target JSON] [--rounds N]

For each small module, the sum of its measured kernels over the measured time of the whole; both are
taken in turn, `--rounds` times, and the median ratio is printed. A developer's check, since it
needs a calm machine; `tvm_tensat/cost/rotation.py` says what makes it come out right.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import relax

from tests.cost.kernels import kernel, tensor
from tvm_tensat.cost import CostStore, Kernel, measure
from tvm_tensat.cost.machine import target_text
from tvm_tensat.cost.pool import Worker, machine_lock
from tvm_tensat.cost.worker import Samples, Task, build, run

Op = Callable[..., relax.Expr]


@dataclass(frozen=True)
class Step:
    """An operator, and the shapes of its further operands, which are weights."""

    op: Op
    weights: tuple[tuple[int, ...], ...] = ()


def mm(depth: int, columns: int) -> Step:
    return Step(relax.op.matmul, ((depth, columns),))


def conv(out: int, into: int, size: int, padding: int = 0) -> Step:
    def apply(x: relax.Expr, w: relax.Expr) -> relax.Expr:
        return relax.op.nn.conv2d(x, w, padding=padding)

    return Step(apply, ((out, into, size, size),))


def pool(x: relax.Expr) -> relax.Expr:
    return relax.op.nn.max_pool2d(x, (3, 3), padding=1)


softmax = Step(relax.op.nn.softmax)
squared = Step(lambda x: relax.op.matmul(x, x))

MODULES: dict[str, tuple[tuple[int, ...], Sequence[Step]]] = {
    "16 of 1x512 by 512x512": ((1, 512), [mm(512, 512)] * 16),
    "64 of 1x512 by 512x512": ((1, 512), [mm(512, 512)] * 64),
    "8 of 64x1024 by 1024x1024": ((64, 1024), [mm(1024, 1024)] * 8),
    "a BERT-like mix": ((64, 1024), [mm(1024, 1024), softmax, mm(1024, 4096), mm(4096, 1024)] * 3),
    "8 of conv 3x3, 64, 56x56": ((1, 64, 56, 56), [conv(64, 64, 3, 1)] * 8),
    "bottlenecks 256-64-64-256": (
        (1, 256, 28, 28),
        [conv(64, 256, 1), conv(64, 64, 3, 1), conv(256, 64, 1)] * 4,
    ),
    "conv and pool, 128, 28x28": ((1, 128, 28, 28), [conv(128, 128, 3, 1), Step(pool)] * 4),
    "softmax and products, 16x64x64": ((16, 64, 64), [softmax, squared] * 6),
}


def kernels_of(shape: tuple[int, ...], steps: Sequence[Step]) -> tuple[list[Kernel], Kernel]:
    """Return the kernels of a chain of steps, and the chain as one."""
    kernels = []
    whole = [tensor("x", *shape)]
    builder = relax.BlockBuilder()
    for number, step in enumerate(steps):
        x = tensor("x", *shape)
        weights = [tensor(f"w{number}_{i}", *s) for i, s in enumerate(step.weights)]
        whole += [tensor(weight.name, *s) for weight, s in zip(weights, step.weights, strict=True)]
        value = builder.normalize(step.op(x, *weights))
        flags = (False,) + (True,) * len(weights)
        kernels.append(
            kernel([x, *weights], value, f"{value.op.name} {shape} {step.weights}", flags)
        )
        shape = tuple(int(d) for d in value.ty.shape)
    return kernels, Kernel(_chain(whole, steps), (False,) + (True,) * (len(whole) - 1), "whole")


def _chain(params: list[relax.Var], steps: Sequence[Step]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    waiting = iter(params[1:])
    with builder.function("main", params):
        with builder.dataflow():
            value: relax.Expr = params[0]
            for step in steps:
                value = builder.emit(step.op(value, *[next(waiting) for _ in step.weights]))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def seconds_of_whole(whole: Kernel, worker: Worker, target: str) -> float:
    """Time a module as it is: one copy, its own weights."""
    task = Task(tvm.ir.save_json(whole.module), whole.weights, target, None, rotation_bytes=0)
    reason = worker.call(build, task, timeout=120.0).result()
    assert reason is None, reason
    with machine_lock(exclusive=True):
        samples = worker.call(run, 200, timeout=120.0).result()
    assert isinstance(samples, Samples), samples
    return samples.median


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default='{"kind": "llvm"}')
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="part of a module's name")
    options = parser.parse_args()
    target = tvm.target.Target(options.target)
    print(f"{'module':34} {'whole ms':>9} {'sum ms':>9} {'ratio':>6}  ratios")
    for name, (shape, steps) in MODULES.items():
        if options.only not in name:
            continue
        worker = Worker(target_text(target))
        kernels, whole = kernels_of(shape, steps)
        weight_bytes = sum(4 * math.prod(s) for step in steps for s in step.weights)
        sums, wholes, ratios = [], [], []
        for _ in range(options.rounds):
            store = CostStore(Path(":memory:"))
            times = measure(
                kernels, target, store=store, timeout=60.0, workers=1, model_bytes=weight_bytes
            )
            sums.append(sum(m.seconds or float("nan") for m in times))
            wholes.append(seconds_of_whole(whole, worker, target_text(target)))
            ratios.append(sums[-1] / wholes[-1])
        middle = statistics.median
        print(
            f"{name:34} {middle(wholes) * 1e3:9.3f} {middle(sums) * 1e3:9.3f} "
            f"{middle(ratios):6.2f}  {' '.join(f'{r:.2f}' for r in sorted(ratios))}",
            flush=True,
        )
        worker.close()


if __name__ == "__main__":
    main()
