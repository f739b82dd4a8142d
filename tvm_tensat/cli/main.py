"""``tvmc`` and ``python -m tvm_tensat``: compile a model, run what was compiled.

Exit codes: 0; 4 on an error, with one line on stderr; 5 when an optional package is missing; 130
after Ctrl-C; 141 when what reads the output has ended, as ``head`` does.
``-v`` adds the traceback and the libraries' own messages.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from tvm_tensat.cli.arguments import build_parser
from tvm_tensat.cli.errors import EXIT_ERROR, CommandError, one_line, quiet


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; by default those of the process.

    Returns
    -------
    int
        The exit code.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    verbose = "-v" in argv or "--verbose" in argv
    with quiet(verbose):  # until the end: objects that die with an exception still warn
        try:
            args = build_parser().parse_args(argv)
            import_module(f"tvm_tensat.cli.{args.command}").execute(args)
            sys.stdout.flush()
            return 0
        except CommandError as error:
            return _fail(one_line(error), error.exit_code, verbose)
        except KeyboardInterrupt as error:
            return _fail(str(error) or "interrupted", 130, verbose=False)
        except BrokenPipeError:  # the reader has enough, as in `tvmc costs show 1 | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is flushed at the end
            return 141
        except Exception as error:
            message = f"{type(error).__name__}: {one_line(error)}"
            hint = "" if verbose else "; -v shows where"
            return _fail(f"unexpected {message}{hint}", EXIT_ERROR, verbose)


def _fail(message: str, code: int, verbose: bool) -> int:
    if verbose:
        traceback.print_exc()
    print(f"tvmc: error: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
