"""``tvmc run`` as a process: inputs, outputs, and libraries that are not ours."""

import subprocess

import numpy as np
import pytest

from tests.cli.conftest import WEIGHT
from tests.cost import devices


def _npz(folder, name, **arrays):
    np.savez(folder / name, **arrays)
    return name


def test_outputs_are_those_of_the_inputs_given(tvmc, folder, product_so):
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    inputs = _npz(folder, "x.npz", x=x)
    done = tvmc("run", product_so, "-i", inputs, "-o", "y.npz", "--print-top", 2)
    assert done.returncode == 0, done.stderr
    expected = x @ WEIGHT
    with np.load(folder / "y.npz") as outputs:
        assert outputs.files == ["output_0"]
        np.testing.assert_allclose(outputs["output_0"], expected, rtol=1e-5, atol=1e-6)
    title, first, _ = done.stdout.splitlines()
    assert title == "output_0 [2, 3], the 2 largest of 6:"
    place = [int(i) for i in np.unravel_index(expected.argmax(), expected.shape)]
    assert first.split()[-1] == f"{expected.max():.6g}"
    assert str(place) in first


def test_a_library_runs_on_a_remote_device(tvmc, fails, folder, product_so):
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    inputs = _npz(folder, "x.npz", x=x)
    with devices.farm(folder, servers=1) as (tracker, [server]):
        where = ["--rpc-tracker", tracker, "--rpc-key", tracker.key]
        done = tvmc("run", product_so, *where, "-i", inputs, "-o", "remote.npz", "--print-time")
        assert done.returncode == 0, done.stderr
        assert server.sessions() == 1
        line = fails("run", product_so, "--rpc-tracker", tracker, "--rpc-key", "absent")
    assert "no device with key absent" in line
    with np.load(folder / "remote.npz") as outputs:
        np.testing.assert_allclose(outputs["output_0"], x @ WEIGHT, rtol=1e-5, atol=1e-6)
    mean = float(done.stdout.splitlines()[1].split()[0])
    assert 0 < mean < 100


@pytest.mark.parametrize(("mode", "value"), [("zeros", 0.0), ("ones", 1.0)])
def test_inputs_are_filled(tvmc, folder, product_so, mode, value):
    done = tvmc("run", product_so, "--fill-mode", mode, "-o", f"{mode}.npz")
    assert done.returncode == 0, done.stderr
    with np.load(folder / f"{mode}.npz") as outputs:
        expected = np.full((2, 4), value, np.float32) @ WEIGHT
        np.testing.assert_allclose(outputs["output_0"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({}, "no array 'x'; expected x: float32 [2, 4]"),
        ({"x": np.ones((2, 5), np.float32)}, "array 'x' is float32 [2, 5]; expected x: float32"),
        ({"x": np.ones((2, 4))}, "array 'x' is float64 [2, 4]; expected x: float32"),
        ({"x": np.ones((2, 4), np.float32), "z": np.ones(1)}, "unknown array 'z'"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(fails, folder, product_so, arrays, reason):
    assert reason in fails("run", product_so, "-i", _npz(folder, "bad.npz", **arrays))


def test_a_file_that_is_no_npz_is_refused(fails, folder, product_so):
    (folder / "text.npz").write_text("no archive", encoding="utf-8")
    assert "text.npz: not an .npz file" in fails("run", product_so, "-i", "text.npz")
    assert "absent.npz: no such file" in fails("run", product_so, "-i", "absent.npz")


def test_a_library_that_is_not_ours_is_refused(fails, folder):
    (folder / "text.so").write_text("no library", encoding="utf-8")
    assert "text.so: not a library that tvmc compile wrote" in fails("run", "text.so")
    (folder / "c.c").write_text("int f(void) { return 1; }", encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "c.c", "-o", "c.so"], cwd=folder, check=True)
    assert "c.so: not a library that tvmc compile wrote" in fails("run", "c.so")
    assert "absent.so: no such file" in fails("run", "absent.so")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--repeat", "0"], "'0' is no positive integer"),
        (["--device", "cuda"], "was compiled for cpu"),
        (["--rpc-key", "board"], "expected both or none"),
        (["--rpc-key", "board", "--rpc-tracker", "board"], "expected host:port"),
        (["-o", "absent/y.npz"], "the folder absent does not exist"),
    ],
)
def test_bad_options_are_refused(fails, product_so, arguments, reason):
    assert reason in fails("run", product_so, *arguments)
