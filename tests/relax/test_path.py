"""The rewrites that lead from a model to an extracted graph, replayed: each keeps the results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.conftest import random_inputs
from tests.egraph.test_explain import any_choice
from tests.passes.models import convolution_with_batch_norm, shared_products
from tests.rules.harness import compile_plainly, outputs_of
from tvm_tensat.egraph import EGraph, Limits, explore
from tvm_tensat.egraph.path import Path, path_to
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import plan_function
from tvm_tensat.relax.reader import read_segment
from tvm_tensat.rules import all_rules
from tvm_tensat.verify.values import differing_numbers
from tvm_tensat.zoo import bert, nasrnn
from tvm_tensat.zoo.layers import Layers, network


def inception_block() -> tvm.IRModule:
    """Convolutions of one image, of two sizes of kernel, joined."""

    def body(layers: Layers, x: relax.Expr) -> relax.Expr:
        sides = [layers.conv(x, 4, kernel) for kernel in (1, 3, 1)]
        return layers.concat([*sides, layers.conv(sides[0], 4, 3)])

    return network(0, 6, body)


MODELS: dict[str, Callable[[], tvm.IRModule]] = {
    "bert": lambda: bert.build(layers=1, heads=2, tokens=4, features=8),
    "nasrnn": lambda: nasrnn.build(steps=2, hidden=4),
    "products": lambda: shared_products(4, 3, 4),
    "batch norm": convolution_with_batch_norm,
    "inception": inception_block,
}


def all_programs(
    module: tvm.IRModule, path: Path, language: RelaxLanguage
) -> tuple[tvm.IRModule, int]:
    """A module that computes the outputs of every program of a path, and how many there are."""
    builder = relax.BlockBuilder()
    emitted: dict[int, relax.Expr] = {}

    def emit(term: int) -> relax.Expr:
        if term not in emitted:
            operator, operands = path.terms.nodes[term]
            emitted[term] = builder.emit(language.call(operator, [emit(each) for each in operands]))
        return emitted[term]

    programs = list(path.programs())
    with builder.function("main", list(module["main"].params)):
        with builder.dataflow():
            outputs = [emit(root) for program in programs for root in program]
            out = builder.emit_output(relax.Tuple(outputs))
        builder.emit_func_output(out)
    return builder.finalize(), len(programs)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", MODELS)
def test_each_rewrite_on_the_way_to_a_random_choice_keeps_the_outputs(name: str, seed: int) -> None:
    module = MODELS[name]()
    [segment] = plan_function(module["main"], {}).segments
    language = RelaxLanguage()
    graph = EGraph(language)
    read = read_segment(segment, language, graph)
    rules = all_rules("real")
    explore(graph, rules, Limits(nodes=1_000, k_multi=2))
    roots = [number for _, number in read.roots]
    path = path_to(graph, rules, roots, any_choice(graph, seed))
    assert len({step.rule for _, step in path.steps}) >= 2
    replay, count = all_programs(module, path, language)
    machine = relax.VirtualMachine(compile_plainly(replay), tvm.cpu())
    results = machine["main"](*map(tvm.runtime.tensor, random_inputs(module)))
    values = [outputs_of(value) for value in results]
    assert len(values) == count * len(roots)
    for k, some in enumerate(values):
        for first, value in zip(values[k % len(roots)], some, strict=True):
            assert np.isfinite(value).all()
            assert differing_numbers(first, value) is None
