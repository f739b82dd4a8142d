"""What ``tvmc`` starts: the command line, or one line that says which TVM is missing.

Installed as the package ``tvm_tensat_launch`` besides ``tvm_tensat``, whose import fails under a
TVM that does not work: here that failure becomes a message instead of a traceback.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run ``tvmc``; exit code 5 where TVM or a package it needs is missing or does not fit."""
    try:
        from tvm_tensat.cli.main import main as run
    except ImportError as error:
        print(f"tvmc: error: {error}", file=sys.stderr)
        return 5
    return run()
