"""Which versions of TVM work, checked once at import.

Only package metadata is read: TVM itself is not imported, and the check takes milliseconds.
"""

from __future__ import annotations

import re
import warnings
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

TVM_RELEASE = (0, 27)
"""The Relax API that this package reads and writes changes with every minor release."""

FFI_FIRST = (0, 1, 14, 0)
FFI_END = (0, 1, 15, -1)
"""From 0.1.15 on, serializing IR (`tvm.ir.save_json`, pickling) ends in a segmentation fault;
before 0.1.14.post0, TVM 0.27 does not import. Numbers are (major, minor, patch, post)."""

PIP_COMMAND = "pip install 'apache-tvm==0.27.*' 'apache-tvm-ffi>=0.1.14.post0,<0.1.15'"


def check() -> None:
    """Check the installed versions of apache-tvm and apache-tvm-ffi.

    Raises
    ------
    ImportError
        When TVM is not installed, or in a version that is known not to work.

    Warns
    -----
    UserWarning
        When a package `tvm` is there whose version cannot be told, as after a build from source.
    """
    tvm_version = _installed("apache-tvm", module="tvm")
    ffi_version = _installed("apache-tvm-ffi", module="tvm_ffi")
    if tvm_version is not None and _numbers(tvm_version)[:2] != TVM_RELEASE:
        raise ImportError(
            f"apache-tvm {tvm_version} is installed; tvm-tensat works with 0.27.*: {PIP_COMMAND}"
        )
    if ffi_version is not None and not FFI_FIRST <= _numbers(ffi_version) < FFI_END:
        raise ImportError(
            f"apache-tvm-ffi {ffi_version} is installed; tvm-tensat works with 0.1.14.post0 up to, "
            f"not including, 0.1.15, which crashes when TVM serializes IR: {PIP_COMMAND}"
        )


def _installed(distribution: str, module: str) -> str | None:
    """Return the version of a distribution, or None where only a module without version is."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        if find_spec(module) is None:
            raise ImportError(f"{distribution} is not installed: {PIP_COMMAND}") from None
    warnings.warn(
        f"the version of the installed module {module} cannot be told (no metadata of "
        f"{distribution}); tvm-tensat works with that of: {PIP_COMMAND}",
        UserWarning,
        stacklevel=4,
    )
    return None


def _numbers(text: str) -> tuple[int, int, int, int]:
    """Split a version into (major, minor, patch, post); post is -1 without a post release."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?(?:.*?\.post(\d+))?", text)
    if match is None:
        return (0, 0, 0, -1)
    major, minor, patch, post = match.groups()
    return (int(major), int(minor), int(patch or 0), -1 if post is None else int(post))
