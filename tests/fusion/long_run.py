"""Predicted kernels against TVM's, on every model: ``python -m tests.fusion.long_run [MODEL ...]``.

Of each model the input and choices by random costs out of its e-graph are compared, in number of
kernels and in their members.
"""

import argparse
import random
import time
from dataclasses import replace

import numpy as np

from tests.fusion.actual import Explored, agree
from tvm_tensat import zoo
from tvm_tensat.egraph import Limits, explore
from tvm_tensat.fusion import emitted_graph, kernels_of
from tvm_tensat.relax.fold import fold_weights
from tvm_tensat.rules import all_rules


def reordered(nodes, generator: random.Random):
    """Return emitted operators in another order, operands before their users, drawn at random."""
    users = [[] for _ in nodes]
    waiting = [len(set(node.operands)) for node in nodes]
    for number, node in enumerate(nodes):
        for operand in set(node.operands):
            users[operand].append(number)
    ready = [number for number, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        order.append(ready.pop(generator.randrange(len(ready))))
        for user in users[order[-1]]:
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
    place = {number: position for position, number in enumerate(order)}
    return [
        replace(nodes[number], operands=tuple(place[k] for k in nodes[number].operands))
        for number in order
    ]


def counts_by_order(model: Explored, chosen, orders: int) -> set[int]:
    """Return the numbers of kernels that random orders of a graph's bindings give."""
    nodes = emitted_graph(chosen, model.graph, model.row_of).nodes
    return {
        len(kernels_of(reordered(nodes, random.Random(k)), model.language, model.lowering))
        for k in range(orders)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(zoo.names()))
    parser.add_argument("--choices", type=int, default=5, help="random choices of each model")
    parser.add_argument("--orders", type=int, default=0, help="random orders of each choice")
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
            if options.orders:
                print(f"  by order: {counts_by_order(model, choice, options.orders)}")
        kernels, graphs = kernels + sum(counts), graphs + len(counts)
        print(f"{name}: {counts} kernels agree, {time.perf_counter() - began:.0f} s", flush=True)
    print(f"{graphs} graphs, {kernels} kernels: all as TVM makes them")


if __name__ == "__main__":
    main()
