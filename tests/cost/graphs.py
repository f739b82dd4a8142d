"""Segments of small modules as graphs whose kernels can be looked at."""

import numpy as np
import tvm
from tvm import relax

from tvm_tensat.cost.device import Device
from tvm_tensat.cost.roofline import Roofline
from tvm_tensat.egraph import EGraph, Limits, explore
from tvm_tensat.passes.search import Reader
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import plan_function
from tvm_tensat.relax.reader import read_segment

LLVM = tvm.target.Target("llvm")
LINE = Roofline(1e9, 1e9, 1e-9, 1e-6)
ESTIMATING = Device(LLVM, LINE, None)


def function(parameters, build) -> tvm.IRModule:
    """Return a module whose "main" is a block that returns what `build` gives."""
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        with builder.dataflow():
            results = [builder.emit_output(value) for value in build(builder, *parameters)]
        builder.emit_func_output(relax.Tuple(results) if len(results) > 1 else results[0])
    return builder.finalize()


def read(module: tvm.IRModule, rules=(), device: Device = ESTIMATING):
    """Return the reader of a module's one segment, and the kernels of the input."""
    language = RelaxLanguage()
    graph = EGraph(language)
    (segment,) = plan_function(module["main"], {}).segments
    reader = Reader(graph, language, read_segment(segment, language, graph), device)
    graph.rebuild()
    _, kernels = reader.kernels(np.flatnonzero(graph.node_alive))
    explore(graph, rules, Limits())
    return reader, kernels
