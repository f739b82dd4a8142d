"""The same input gives the same e-graph, bit for bit, in any process and with any hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

DIGEST = """
import hashlib
import numpy as np
from tvm_tensat.egraph import EGraph, Limits, explore
from tvm_tensat.extraction import extract
from tvm_tensat.extraction.egraph import problem_of
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.relax.plan import plan_function
from tvm_tensat.relax.reader import read_segment
from tvm_tensat.rules import all_rules
from tvm_tensat.zoo import bert, nasrnn

digest = hashlib.sha256()
models = nasrnn.build(steps=2, hidden=16), bert.build(layers=2, heads=2, tokens=8, features=16)
for module in models:
    [segment] = plan_function(module["main"], {}).segments
    language = RelaxLanguage()
    graph = EGraph(language)
    read = read_segment(segment, language, graph)
    explore(graph, all_rules("real"), Limits(k_multi=2, nodes=4_000))
    for column in (
        graph.node_operator, graph.node_class, graph.node_rule, graph.node_iteration,
        graph.node_filtered, graph.node_alive, graph.operands, graph.class_type,
    ):
        digest.update(np.ascontiguousarray(column).tobytes())
    for number in range(len(graph.operator_arity)):
        digest.update(str(language.operator(number)).encode())
    roots = [number for _, number in read.roots]
    problem, _, _ = problem_of(graph, roots, 1.0 + np.arange(len(graph.node_operator)) % 7)
    digest.update(extract(problem, "greedy-dag").choice.tobytes())
print(digest.hexdigest())
"""


def digest(hash_seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", DIGEST]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_hash_seeds_do_not_matter() -> None:
    assert digest(1) == digest(4711)
