"""``tvmc compile``: a model becomes a shared library, optimized on the way if asked."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tvm

from tvm_tensat.cli.errors import CommandError, one_line
from tvm_tensat.cli.files import check_writable
from tvm_tensat.cli.load import load_model
from tvm_tensat.cli.signature import signature_of, with_signature
from tvm_tensat.cli.target import parse_target
from tvm_tensat.cli.tensat_options import tensat_options
from tvm_tensat.cost import MeasureError
from tvm_tensat.files import replacing
from tvm_tensat.passes import optimize
from tvm_tensat.passes.options import TensatOptions
from tvm_tensat.passes.user_rules import UserRules
from tvm_tensat.schedule import build_pipeline
from tvm_tensat.taso import RuleFileError


def execute(args: argparse.Namespace) -> None:
    """Compile the model that the arguments name.

    Raises
    ------
    CommandError
        When the model cannot be read, built or written.
    """
    options = tensat_options(args)
    _check_rules(options)
    output = _output_path(args.model, args.output)
    for path in (output, args.tensat_report):
        check_writable(path)
    if args.tuning_records is not None and not args.tuning_records.is_dir():
        raise CommandError(
            f"--tuning-records {args.tuning_records}: no such folder; expected one with "
            "database_workload.json and database_tuning_record.json"
        )
    target = parse_target(args.target)
    seconds: dict[str, float] = {}
    say = _Verbose(args.verbose)
    say(f"target: {json.dumps(_exported(target))}")

    with _timed(seconds, "load"):
        module = load_model(args.model, args.input_shapes)
    report = None
    if args.tensat:
        try:
            with _timed(seconds, "tensat"):
                result = optimize(module, target, options)
        except MeasureError as error:  # in strict mode
            raise CommandError(str(error)) from error
        module, report = result.module, result.report
        if args.tensat_report is not None:
            with replacing(args.tensat_report) as file:
                file.write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
    signature = signature_of(module, target)
    with _timed(seconds, "build"):
        executable = _build(module, signature, target, args)
    with _timed(seconds, "export"):
        _export(executable, output, args.cross_compiler)
    for phase, value in seconds.items():
        say(f"{phase}: {value:.2f} s")

    if args.json:
        print(
            json.dumps(
                {
                    "model": args.model,
                    "target": _exported(target),
                    "output": str(output),
                    "seconds": seconds,
                    "signature": asdict(signature),
                    "tensat": None if report is None else report.to_json(),
                }
            )
        )
        return
    if report is not None:
        print(report)
    print(f"{args.model} -> {output}, {sum(seconds.values()):.1f} s")


def _check_rules(options: TensatOptions) -> None:
    """Refuse a file of rules that does not parse before anything takes time."""
    try:
        UserRules((), options.rules)
    except RuleFileError as error:
        raise CommandError(f"--tensat-rules {one_line(error)}") from error


def _output_path(model: str, given: Path | None) -> Path:
    output = given or Path(Path(model.removeprefix("zoo:")).stem + ".so")
    if output.suffix != ".so":
        raise CommandError(f"-o {output}: expected a name that ends in .so")
    return output


def _build(
    module: tvm.IRModule, signature: Any, target: tvm.target.Target, args: argparse.Namespace
) -> Any:
    pipeline = build_pipeline(target, args.tuning_records)
    try:
        return tvm.compile(with_signature(module, signature), target, relax_pipeline=pipeline)
    except Exception as error:  # a compiler has no closed set of errors
        raise CommandError(
            f"{args.model}: TVM cannot build it for {target.kind.name}: {type(error).__name__}: "
            f"{one_line(error)}; -v shows where"
        ) from error


def _export(executable: Any, output: Path, cross_compiler: str | None) -> None:
    linker = {} if cross_compiler is None else {"cc": cross_compiler}
    try:
        with replacing(output) as file:
            executable.export_library(str(file), **linker)
    except (OSError, RuntimeError) as error:
        raise CommandError(
            f"{output}: cannot be linked or written ({one_line(error)}); linking needs a C++ "
            "compiler (g++ or clang++) on the PATH, or --cross-compiler"
        ) from error


def _exported(target: tvm.target.Target) -> dict[str, Any]:
    """Return the target as plain JSON data."""
    return json.loads(str(target))  # type: ignore[no-any-return]


class _Verbose:
    """Say things on stderr when asked to."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str) -> None:
        if self.on:
            print(text, file=sys.stderr)


@contextlib.contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[phase] = time.perf_counter() - start
