"""Extraction: the cheapest acyclic graph of an e-graph. Usable without TVM.

`problem` says what is given and wanted, `solve.extract` takes one apart, `pool.extract_pool`
returns several. Methods: `greedy`, `local` (search), `formulations` and `tensat` (the published
integer programs), `exact` (the default). The exact method's pieces: `reductions` on a `graph` with
`must` sets; `split` into parts, `twins` among them, `tiny` ones enumerated; for each `part` the
`strong` program, its `relaxation`, `separation` of violated rows. `program` talks to solvers, in
the process that `process` starts and `worker` is. `serialize` reads files, `egraph` our own
e-graphs.
"""

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
