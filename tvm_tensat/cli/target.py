"""``--target``: a kind, a tag or JSON, made into a `tvm.target.Target` that can be built here."""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm.target import Target, codegen

from tvm_tensat.cli.errors import CommandError, one_line

_EXPECTED = (
    "expected a kind (llvm, cuda), a tag (nvidia/nvidia-h100), or JSON "
    '(\'{"kind": "llvm", "mcpu": "znver3"}\')'
)


def parse_target(text: str) -> Target:
    """Make a target from what the user gave.

    A bare ``llvm`` means the CPU of this machine, so its name is filled in: without one, LLVM
    generates code for the oldest x86-64. A device target gets this machine as its host.

    Raises
    ------
    CommandError
        When the text names no target, or one for which this TVM or machine cannot build.
    """
    target = _host() if text == "llvm" else _parse(text)
    if tvm.get_global_func(f"target.build.{target.kind.name}", allow_missing=True) is None:
        raise CommandError(
            f"--target {text}: this installation of TVM generates no code for {target.kind.name}; "
            "use llvm or cuda"
        )
    if target.kind.name == "llvm":
        _check_cpu(text, target)
        return target
    if text == "cuda" and not tvm.cuda().exist:
        raise CommandError(
            "--target cuda: means this machine's GPU, and none was found; name one, such as "
            'nvidia/nvidia-h100 or \'{"kind": "cuda", "arch": "sm_90"}\''
        )
    return target if target.host is not None else target.with_host(_host())


def _host() -> Target:
    return Target({"kind": "llvm", "mcpu": str(codegen.llvm_get_system_cpu())})


def _parse(text: str) -> Target:
    spec: Any = text
    if text.lstrip().startswith("{"):
        try:
            spec = json.loads(text)
        except json.JSONDecodeError as error:
            raise CommandError(f"--target {text}: not JSON ({error}); {_EXPECTED}") from error
    elif " -" in text:
        raise CommandError(
            f"--target {text}: TVM no longer reads options in this form; "
            f"give JSON: --target '{_as_json(text)}'"
        )
    try:
        return Target(spec)
    except (ValueError, TypeError, AttributeError, RuntimeError) as error:
        reason = one_line(error).partition(". Target creation from ")[0]
        if not isinstance(spec, dict):
            reason += f"; {_EXPECTED}"
        raise CommandError(f"--target {text}: {reason}") from error


def _as_json(text: str) -> str:
    """Rewrite ``llvm -mcpu=x -mattr=a,b`` as JSON."""
    kind, *options = text.split()
    spec: dict[str, object] = {"kind": kind}
    for option in options:
        name, _, value = option.lstrip("-").partition("=")
        if name == "mattr":
            spec[name] = value.split(",")
        else:
            spec[name] = int(value) if value.isdecimal() else (value or True)
    return json.dumps(spec)


def _check_cpu(text: str, target: Target) -> None:
    """Refuse a CPU that LLVM does not know: it would warn and build for the oldest one."""
    cpu = target.attrs.get("mcpu")
    triple = str(target.attrs.get("mtriple") or codegen.llvm_get_system_triple())
    if cpu and not codegen.llvm_is_valid_cpu(str(cpu), triple):
        raise CommandError(
            f"--target {text}: LLVM knows no CPU {str(cpu)!r} for {triple}; this machine's is "
            f"{codegen.llvm_get_system_cpu()!r}"
        )
