"""Extraction: the cheapest acyclic graph of an e-graph. Usable without TVM."""

from tvm_tensat.extraction.problem import ExtractionError, Problem, Solution
from tvm_tensat.extraction.serialize import problem_from_json
from tvm_tensat.extraction.solve import METHODS, extract

__all__ = ["METHODS", "ExtractionError", "Problem", "Solution", "extract", "problem_from_json"]
