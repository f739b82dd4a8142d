"""Equality saturation over whole Relax models, as a pass for Apache TVM.

The names below are imported when they are first used, so that ``import tvm_tensat`` costs
milliseconds and does not import TVM.

`Tensat`
    The pass; ``tvm_tensat.passes.Tensat``.
`optimize`
    A module and its report in one call.
`Report`
    What the pass did and why.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from tvm_tensat import compat

if TYPE_CHECKING:
    # Mapped by package-dir, which type checkers do not follow in the source tree.
    from tvm_tensat.passes import Report, Tensat, optimize  # type: ignore[import-not-found]

try:
    __version__ = version("tvm-tensat")
except PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0+unknown"

compat.check()

__all__ = ["Report", "Tensat", "__version__", "optimize"]


def __getattr__(name: str) -> Any:
    if name in ("Report", "Tensat", "optimize"):
        return getattr(import_module("tvm_tensat.passes"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
