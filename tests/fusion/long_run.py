"""Predicted kernels against TVM's, on every model: ``python -m tests.fusion.long_run [MODEL ...]``.

Of each model the input and choices by random costs out of its e-graph are compared, in number of
kernels and in their members.
"""

import argparse
import time

import numpy as np

from tests.fusion.actual import Explored, agree
from tvm_tensat import zoo
from tvm_tensat.egraph import Limits, explore
from tvm_tensat.relax.fold import fold_weights
from tvm_tensat.rules import all_rules


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(zoo.names()))
    parser.add_argument("--choices", type=int, default=5, help="random choices of each model")
    options = parser.parse_args()
    kernels = graphs = 0
    for name in options.models:
        began = time.perf_counter()
        model = Explored(fold_weights(zoo.load(name)))
        nodes = len(model.graph.node_operator)
        costs = [np.ones(nodes)]
        counts = []
        for seed in range(options.choices + 1):
            if seed == 1:
                explore(model.graph, all_rules("real"), Limits(k_multi=1))
                nodes = len(model.graph.node_operator)
                costs += [np.random.default_rng(k).random(nodes) for k in range(options.choices)]
            choice = model.choose(costs[seed])
            predicted = model.predicted(choice)
            agree(predicted, fold_weights(model.written(choice)))
            counts.append(sum(predicted.values()))
        kernels, graphs = kernels + sum(counts), graphs + len(counts)
        print(f"{name}: {counts} kernels agree, {time.perf_counter() - began:.0f} s", flush=True)
    print(f"{graphs} graphs, {kernels} kernels: all as TVM makes them")


if __name__ == "__main__":
    main()
