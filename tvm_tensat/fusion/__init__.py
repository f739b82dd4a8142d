"""Which operators of a chosen graph TVM will compute together: the kernels that will be run."""

from tvm_tensat.fusion.graph import EmittedGraph, emitted_graph
from tvm_tensat.fusion.kernels import FusedKernel, kernels_of
from tvm_tensat.fusion.lowering import Lowering

__all__ = ["EmittedGraph", "FusedKernel", "Lowering", "emitted_graph", "kernels_of"]
