"""Kernels that are built once in a process, whatever modules call them.

Nearly all the time of a build goes into LLVM, kernel by kernel. The forms of a module that are
built to be raced, and built again to confirm the race, have most kernels in common.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.script import tirx as T

# Parts of the work for each thread, so that all end at about the same time.
PARTS = 4
MOST_THREADS = 8  # more were not tried; the passes before LLVM call into Python

# By target and symbol: the kernel and the module that has it. Kept until the process ends.
_built: dict[tuple[str, str], tuple[tirx.PrimFunc, tvm.runtime.Module]] = {}


def build_with_kernels_apart(module: tvm.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
    """Build a lowered module for a CPU, of its scheduled kernels those that are new.

    Parameters
    ----------
    module : tvm.IRModule
        As a Relax pipeline leaves it, ready for `relax.build`.
    target : tvm.target.Target
        A CPU.

    Returns
    -------
    relax.VMExecutable
        It calls kernels by symbol and imports the modules that have them.
    """
    symbols: dict[tvm.ir.GlobalVar, str] = {}
    missing: dict[str, tirx.PrimFunc] = {}
    for variable, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc) and "tirx.is_scheduled" in (function.attrs or {}):
            symbols[variable] = _symbol(function, target, missing)
    for part, code in _compile(missing, target):
        _built.update({(str(target), name): (missing[name], code) for name in part})
    caller = _Caller({variable: relax.ExternFunc(name) for variable, name in symbols.items()})
    rest = tvm.IRModule({}, attrs=module.attrs)
    for variable, function in module.functions_items():
        if variable not in symbols:
            is_relax = isinstance(function, relax.Function)
            rest[variable] = caller.visit_expr(function) if is_relax else function
    # Without any kernel of its own TVM gives the module some C, which must be compiled and linked;
    # so it does with modules in the attribute `external_mods`.
    rest["tvm_tensat_nothing"] = _nothing
    executable = relax.build(rest, target, relax_pipeline=None)
    used = [_built[str(target), name][1] for name in symbols.values()]
    for code in {id(code): code for code in used}.values():
        executable.mod.import_module(code)
    return executable


def _compile(
    kernels: Mapping[str, tirx.PrimFunc], target: tvm.target.Target
) -> list[tuple[list[str], tvm.runtime.Module]]:
    """Compile kernels in threads, one for each core; TVM lets Python's lock go in LLVM."""
    workers = min(os.cpu_count() or 1, MOST_THREADS)
    names = list(kernels)
    parts = [part for k in range(PARTS * workers) if (part := names[k :: PARTS * workers])]
    context = tvm.transform.PassContext.current()

    def compile_part(part: list[str]) -> tvm.runtime.Module:
        functions = {name: kernels[name].with_attr("global_symbol", name) for name in part}
        # Threads begin with TVM's defaults. Instruments are not theirs to share.
        with tvm.transform.PassContext(
            opt_level=context.opt_level,
            required_pass=list(context.required_pass),
            disabled_pass=list(context.disabled_pass),
            config=dict(context.config),
        ):
            library = tvm.compile(tvm.IRModule(functions), target)
        return getattr(library, "mod", library)

    with ThreadPoolExecutor(workers) as pool:
        return list(zip(parts, pool.map(compile_part, parts), strict=True))


def _symbol(
    function: tirx.PrimFunc, target: tvm.target.Target, missing: dict[str, tirx.PrimFunc]
) -> str:
    """Name a kernel by what it is, and note it in `missing` where it has not been built."""
    bare = function.without_attr("global_symbol")
    number = tvm_ffi.structural_hash(bare) % 2**64
    while True:
        name = f"kernel_{number:016x}"
        known = _built[str(target), name][0] if (str(target), name) in _built else missing.get(name)
        if known is None:
            missing[name] = bare
            return name
        if tvm_ffi.structural_equal(known, bare):
            return name
        number = (number + 1) % 2**64  # two kernels of one hash


@T.prim_func(s_tir=True)
def _nothing() -> None:
    T.evaluate(0)


@mutator
class _Caller(PyExprMutator):  # type: ignore[misc]
    """Call kernels by symbol."""

    def __init__(self, symbols: Mapping[tvm.ir.GlobalVar, relax.ExternFunc]) -> None:
        super().__init__()
        self.symbols = symbols

    def visit_global_var_(self, variable: tvm.ir.GlobalVar) -> Any:
        """Visit one name; see `PyExprMutator`."""
        return self.symbols.get(variable, variable)
