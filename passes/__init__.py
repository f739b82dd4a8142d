"""The pass, its options and report, and the pipeline named ``tensat``."""

from tvm_tensat.passes.api import Result, fill_store, optimize
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.pipeline import tensat_pipeline
from tvm_tensat.passes.report import Report
from tvm_tensat.passes.tensat import Tensat

__all__ = [
    "Report",
    "Result",
    "Tensat",
    "TensatOptions",
    "fill_store",
    "optimize",
    "tensat_pipeline",
]
