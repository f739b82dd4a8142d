"""CPU schedules for the kernels that TVM leaves unscheduled, and the pipeline that uses them."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from .pipeline import build_pipeline, cpu_rules

__all__ = ["build_pipeline", "cpu_rules", "fingerprint"]


@cache
def fingerprint() -> str:
    """Return the SHA-256 of this package's source.

    Measured times of kernels hold only for the schedules they were measured with, so they are
    keyed by it.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
