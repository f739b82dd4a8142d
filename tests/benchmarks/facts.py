"""What every benchmark prints first: versions, machine, target."""

from __future__ import annotations

import datetime
import os

import tvm
from tvm.target import Target

from tvm_tensat.cost.machine import facts


def host_target() -> Target:
    """Return LLVM for this machine's own CPU."""
    return Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})


def print_facts(target: Target) -> None:
    """Print date, versions, machine and target."""
    print(f"date: {datetime.date.today()}; TVM_NUM_THREADS={os.environ.get('TVM_NUM_THREADS')}")
    for key, value in facts().items():
        print(f"{key}: {value}")
    print(f"target: {target}\n")
