"""The saturation engine: e-graph, patterns, rules, exploration."""

from tvm_tensat.egraph.egraph import FROM_INPUT, EGraph
from tvm_tensat.egraph.explore import Exploration, Iteration, Limits, Memo, RuleStatistics, explore
from tvm_tensat.egraph.serialize import egraph_data, write_egraph

__all__ = [
    "FROM_INPUT",
    "EGraph",
    "Exploration",
    "Iteration",
    "Limits",
    "Memo",
    "RuleStatistics",
    "egraph_data",
    "explore",
    "write_egraph",
]
