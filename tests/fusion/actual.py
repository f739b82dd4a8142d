"""What TVM makes of a module, for comparison with what was predicted."""

import re
from collections import Counter

import tvm
from tvm import relax
from tvm.relax.backend.cpu_generic import pipeline as cpu

from tvm_tensat.egraph import EGraph
from tvm_tensat.extraction import extract
from tvm_tensat.extraction.egraph import problem_of
from tvm_tensat.fusion.graph import emitted_graph
from tvm_tensat.fusion.kernels import kernels_of
from tvm_tensat.fusion.lowering import Lowering
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.order import ChosenGraph
from tvm_tensat.relax.plan import plan_function
from tvm_tensat.relax.reader import read_segment
from tvm_tensat.relax.writer import rebuild, write_chosen

LLVM = tvm.target.Target("llvm")
CALL_TIR = tvm.ir.Op.get("relax.call_tir")
Kernels = Counter[tuple[str, ...]]


def is_call_tir(value) -> bool:
    return isinstance(value, relax.Call) and value.op == CALL_TIR


def bindings(function):
    return [binding for block in function.body.blocks for binding in block.bindings]


def name_of(value) -> str:
    if is_call_tir(value):
        return re.sub(r"\d+$", "", value.args[0].name_hint)
    return "get" if isinstance(value, relax.TupleGetItem) else ""


def actual_kernels(module: tvm.IRModule) -> tuple[Kernels, int]:
    """Return what FuseOps fuses in "main", and how many kernels are called in the end."""
    passes = [*cpu.library_dispatch_passes(LLVM), *cpu.legalize_passes(LLVM)[:-1]]
    with LLVM:
        fused = tvm.transform.Sequential(passes)(module)
        lowered = relax.transform.RewriteDataflowReshape()(relax.transform.FuseTIR()(fused))
    found: Kernels = Counter()
    for binding in bindings(fused["main"]):
        value = binding.value
        if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            found[tuple(name_of(b.value) for b in bindings(fused[value.op]))] += 1
        elif is_call_tir(value):
            found[(name_of(value),)] += 1
    return found, sum(is_call_tir(binding.value) for binding in bindings(lowered["main"]))


class Explored:
    """The one segment of a module's "main" in an e-graph, which rules may grow."""

    def __init__(self, module: tvm.IRModule) -> None:
        self.module = module
        self.language = RelaxLanguage()
        self.lowering = Lowering(self.language, LLVM)
        self.graph = EGraph(self.language)
        self.plan = plan_function(module["main"], {})
        (self.segment,) = self.plan.segments
        self.read = read_segment(self.segment, self.language, self.graph)
        self.graph.rebuild()
        self.row_of: dict[int, int] = {}

    def choose(self, costs):
        """Return the graph that greedy extraction chooses for these costs of the e-nodes."""
        graph = self.graph
        problem, rows, _ = problem_of(graph, [number for _, number in self.read.roots], costs)
        choice = extract(problem, "greedy-dag").choice
        found, self.row_of = {}, {}
        for row in rows[choice[choice >= 0]].tolist():
            operator, start = int(graph.node_operator[row]), int(graph.node_start[row])
            arity = int(graph.operator_arity[operator])
            operands = graph.operands[start : start + arity].tolist()
            number = graph.find(int(graph.node_class[row]))
            found[number] = operator, tuple(operands)
            self.row_of[number] = row
        return ChosenGraph(self.read, found, graph.find)

    def predicted(self, chosen) -> Kernels:
        """Return the kernels predicted for the graph chosen last."""
        emitted = emitted_graph(chosen, self.graph, self.row_of)
        kernels = kernels_of(emitted.nodes, self.language, self.lowering)
        return Counter(launched for kernel in kernels for launched in kernel.names)

    def written(self, chosen) -> tvm.IRModule:
        result = tvm.IRModule(self.module.functions, attrs=self.module.attrs)
        bindings = write_chosen(self.read, chosen)
        result[self.module.get_global_var("main")] = rebuild(self.plan, {self.segment: bindings})
        return result


def is_free(names: tuple[str, ...]) -> bool:
    """Whether a fused group may be no kernel: at most one view, and fields of tuples."""
    return [name for name in names if name != "get"] in (
        [],
        *([view] for view in ("reshape", "expand_dims", "squeeze", "transpose", "flatten")),
    )


def agree(predicted: Kernels, module: tvm.IRModule) -> None:
    """Fail unless TVM makes exactly these kernels."""
    actual, launched = actual_kernels(module)
    assert sum(predicted.values()) == launched
    assert not predicted - actual, f"predicted, but not made: {predicted - actual}"
    assert all(map(is_free, actual - predicted)), f"made, not predicted: {actual - predicted}"
