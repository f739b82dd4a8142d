"""The installed program and ``python -m tvm_tensat``."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import tvm_tensat
from tvm_tensat.passes.options import TensatOptions

INSTALLED = [str(Path(sys.executable).with_name("tvmc"))]


def _call(program, *arguments):
    return subprocess.run([*program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("program", [INSTALLED, [sys.executable, "-m", "tvm_tensat"]])
def test_an_error_is_one_line_and_exit_code_4(program):
    done = _call(program, "run", "absent.so")
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "tvmc: error: absent.so: no such file; check the path, or compile the model first"
    ]


def test_version_is_that_of_the_package():
    assert _call(INSTALLED, "--version").stdout == f"tvm-tensat {tvm_tensat.__version__}\n"


def test_help_offers_every_option_of_the_pass():
    done = _call(INSTALLED, "compile", "--help")
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    for field in dataclasses.fields(TensatOptions):
        assert f"--tensat-{field.name.replace('_', '-')}" in text
        assert " ".join(field.metadata["help"].split()) in text
