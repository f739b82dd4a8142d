"""Models by name: an ONNX file, Relax as text or JSON, or a model of the zoo."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import tvm
from tvm import relax

from tvm_tensat import zoo
from tvm_tensat.cli.errors import CommandError, MissingPackageError, one_line
from tvm_tensat.cli.load_onnx import import_onnx

_EXPECTED = "expected .onnx, .py (TVMScript), .json (TVM's JSON), or zoo:NAME"


def load_model(model: str, input_shapes: str | None = None) -> tvm.IRModule:
    """Load a model.

    Parameters
    ----------
    model : str
        Path or ``zoo:NAME``.
    input_shapes : str, optional
        As ``"x:[1,3,224,224] y:[1,10]"``; for ONNX only.

    Returns
    -------
    tvm.IRModule
        With a Relax function ``main``.

    Raises
    ------
    CommandError
        When there is no such model, or it cannot be read.
    """
    if input_shapes is not None and not model.endswith(".onnx"):
        raise CommandError(
            f"--input-shapes: {model} carries its shapes; the option is for .onnx files only"
        )
    if model.startswith("zoo:"):
        return _from_zoo(model.removeprefix("zoo:"))
    path = Path(model)
    readers = {".onnx": None, ".py": _from_script, ".json": _from_json}
    if path.suffix not in readers:
        raise CommandError(f"{model}: unknown kind of model; {_EXPECTED}")
    if not path.is_file():
        raise CommandError(f"{model}: no such file; check the path")
    reader = readers[path.suffix]
    if reader is None:
        module = import_onnx(path, parse_shapes(input_shapes) if input_shapes else {})
    else:
        module = reader(path)
    names = [variable.name_hint for variable in module.get_global_vars()]
    if "main" not in names or not isinstance(module["main"], relax.Function):
        raise CommandError(f"{model}: has no Relax function main; it has {', '.join(names)}")
    return module


def parse_shapes(text: str) -> dict[str, tuple[int, ...]]:
    """Parse ``"x:[1,3,224,224] y:[1,10]"``.

    Raises
    ------
    CommandError
        When the text has another form, or a dimension is not a positive integer.
    """
    shapes = {}
    rest = text.strip()
    while rest:
        match = re.match(r"([^\s\[\]]+)\s*:\s*\[([\d\s,]*)\][\s,]*", rest)
        dims = [d.strip() for d in match[2].split(",")] if match and match[2].strip() else []
        if match is None or not all(d.isdecimal() and int(d) > 0 for d in dims):
            raise CommandError(
                f'--input-shapes "{text}": cannot read "{rest}"; expected positive integers in the '
                'form "x:[1,3,224,224] y:[1,10]"'
            )
        shapes[match[1]] = tuple(int(d) for d in dims)
        rest = rest[match.end() :]
    return shapes


def _from_zoo(name: str) -> tvm.IRModule:
    try:
        return zoo.load(name)
    except ValueError as error:
        raise CommandError(f"zoo:{name}: {error}") from error
    except ImportError as error:
        raise MissingPackageError(f"zoo:{name}: {error}") from error


def _from_script(path: Path) -> tvm.IRModule:
    """Parse TVMScript, as ``module.script(show_meta=True)`` prints it."""
    try:
        module = tvm.script.from_source(_without_imports(path.read_text(encoding="utf-8")))
    except Exception as error:  # the parser lets errors of any type through
        hint = (
            "; constants are missing from the text, write it with module.script(show_meta=True)"
            if "Undefined variable: metadata" in str(error)
            else ""
        )
        reason = one_line(error).removeprefix("error: ")
        raise CommandError(f"{path}: not a TVMScript module: {reason}{hint}") from error
    if not isinstance(module, tvm.IRModule):
        raise CommandError(f"{path}: holds no @I.ir_module class; write module.script() to it")
    return module


def _without_imports(text: str) -> str:
    """Blank the imports at the top, which TVM's parser refuses; line numbers stay."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
    return "\n".join(lines)


def _from_json(path: Path) -> tvm.IRModule:
    try:
        module = tvm.ir.load_json(path.read_text(encoding="utf-8"))
    except Exception as error:  # AttributeError, TypeError, ValueError, InternalError, by the fault
        raise CommandError(
            f"{path}: not TVM's JSON ({one_line(error)}); write it with tvm.ir.save_json(module)"
        ) from error
    if not isinstance(module, tvm.IRModule):
        raise CommandError(f"{path}: holds a {type(module).__name__}; expected an IRModule")
    return module
