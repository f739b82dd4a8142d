"""The saturation engine: e-graph, patterns, rules, exploration."""

from tvm_tensat.egraph.egraph import FROM_INPUT, EGraph
from tvm_tensat.egraph.explore import Exploration, Limits, RuleStatistics, explore

__all__ = ["FROM_INPUT", "EGraph", "Exploration", "Limits", "RuleStatistics", "explore"]
