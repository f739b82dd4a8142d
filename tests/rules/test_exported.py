"""Models in the words of exporters, rewritten by all rules: what becomes of them, and its values.

The cheapest form is chosen by counted operations and bytes, so that nothing here depends on a
machine.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.rules import exported
from tests.rules.harness import compile_plainly
from tvm_tensat.cost.work import is_elementwise, work_of
from tvm_tensat.egraph import EGraph, Limits, explore
from tvm_tensat.extraction import extract
from tvm_tensat.extraction.egraph import problem_of
from tvm_tensat.relax.fold import fold_weights
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import plan_function
from tvm_tensat.relax.reader import read_segment
from tvm_tensat.relax.writer import rebuild, write_segment
from tvm_tensat.rules import all_rules
from tvm_tensat.verify.values import differing_numbers

FREE = ("leaf", "weight", "scalar", "tuple", "get", "relax.reshape")
SLOW = ("relax.nn.attention", "relax.nn.conv2d_transpose")  # no schedule takes them
A_KERNEL = 500.0  # what it costs beside its bytes and operations
# model -> operators of which the rewritten one has so many
FORMS = {
    "bert": {"nn.layer_norm": 2, "nn.gelu": 1, "erf": 0, "mean": 0, "sqrt": 0, "take": 0},
    "gpt2": {"nn.layer_norm": 2, "nn.gelu_tanh": 1, "tanh": 0, "power": 0, "mean": 0},
    "llama": {"broadcast_to": 0},
    "vit": {"nn.attention": 0, "nn.softmax": 1},
    "unet": {"nn.pad": 0, "nn.leakyrelu": 1, "maximum": 0, "nn.conv2d_transpose": 0, "matmul": 1},
}
MOST_NODES = 3_000


def rewritten(module: tvm.IRModule) -> tuple[tvm.IRModule, int]:
    """Return the cheapest form that the rules find, and the size of the e-graph."""
    plan = plan_function(module["main"], {})
    [segment] = plan.segments
    language = RelaxLanguage()
    graph = EGraph(language)
    read = read_segment(segment, language, graph)
    explored = explore(graph, all_rules(), Limits(seconds=60.0))
    costs = np.array([price(graph, row) for row in range(len(graph.node_operator))])
    problem, rows, _ = problem_of(graph, [number for _, number in read.roots], costs)
    solution = extract(problem, "local-search", time_limit=5.0)
    choice = {}
    for row in rows[solution.choice[solution.choice >= 0]].tolist():
        operator = int(graph.node_operator[row])
        start, arity = int(graph.node_start[row]), int(graph.operator_arity[operator])
        children = tuple(graph.operands[start : start + arity].tolist())
        choice[int(graph.node_class[row])] = operator, children
    function = rebuild(plan, {segment: write_segment(read, choice, graph.find)})
    return fold_weights(tvm.IRModule({"main": function})), explored.nodes


def price(graph: EGraph, row: int) -> float:
    """Return what an e-node costs: its operations and bytes, and more for a kernel of its own."""
    described = graph.language.operator(int(graph.node_operator[row]))
    if described.name in FREE or graph.class_weight[graph.node_class[row]]:
        return 0.0
    start = int(graph.node_start[row])
    classes = graph.operands[start : start + described.arity]
    operands = [graph.language.info(int(graph.class_type[each])) for each in classes]
    result = graph.language.info(int(graph.class_type[graph.node_class[row]]))
    work = work_of(described, operands, result)
    if is_elementwise(described):
        return work.flops + work.transcendentals
    total = A_KERNEL + work.flops + work.transcendentals + work.bytes_read + work.bytes_written
    return 10.0 * total if described.name in SLOW else total


def operators(module: tvm.IRModule) -> Counter[str]:
    found: Counter[str] = Counter()

    def visit(expr: Any) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            found[str(expr.op.name).removeprefix("relax.")] += 1

    relax.analysis.post_order_visit(module["main"], visit)
    return found


def value(module: tvm.IRModule, x: Any) -> Any:
    machine = relax.VirtualMachine(compile_plainly(module), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(x)).numpy()


@pytest.mark.parametrize("name", FORMS)
def test_an_exported_model_comes_to_the_operators_it_was_made_of(name: str) -> None:
    module = getattr(exported, name)()
    result, nodes = rewritten(module)
    found = operators(result)
    assert {operator: found[operator] for operator in FORMS[name]} == FORMS[name]
    assert nodes < MOST_NODES
    shape = [int(extent) for extent in module["main"].params[0].ty.shape]
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    assert differing_numbers(value(module, x), value(result, x)) is None


def test_a_classifier_of_the_first_token_multiplies_one_row() -> None:
    """From attention on: all rows of keys and values are read, and those of queries may be."""
    result, _ = rewritten(exported.bert())
    products: list[int] = []

    def visit(expr: Any) -> None:
        if isinstance(expr, relax.Call) and expr.op.same_as(tvm.ir.Op.get("relax.matmul")):
            products.append(int(expr.args[0].ty.shape[-2]))

    relax.analysis.post_order_visit(result["main"], visit)
    assert len([rows for rows in products if rows == exported.TOKENS]) <= 3
    assert len([rows for rows in products if rows == 1]) >= 5
