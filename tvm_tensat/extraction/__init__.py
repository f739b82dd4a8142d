"""Extraction: the cheapest acyclic graph of an e-graph. Usable without TVM."""

from tvm_tensat.extraction.pool import extract_pool
from tvm_tensat.extraction.problem import ExtractionError, Problem, Solution
from tvm_tensat.extraction.program import SOLVERS
from tvm_tensat.extraction.serialize import named_problem_from_json, problem_from_json
from tvm_tensat.extraction.solve import METHODS, extract

__all__ = [
    "METHODS",
    "SOLVERS",
    "ExtractionError",
    "Problem",
    "Solution",
    "extract",
    "extract_pool",
    "named_problem_from_json",
    "problem_from_json",
]
