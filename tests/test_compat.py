"""The version check at import, and the lazy names of the package."""

import subprocess
import sys

import pytest

from tvm_tensat import compat


@pytest.fixture
def installed(monkeypatch):
    """Pretend that these versions are installed; None means not installed."""

    def pretend(tvm, ffi, modules=True):
        versions = {"apache-tvm": tvm, "apache-tvm-ffi": ffi}

        def version(name):
            if versions[name] is None:
                raise compat.PackageNotFoundError(name)
            return versions[name]

        monkeypatch.setattr(compat, "version", version)
        monkeypatch.setattr(compat, "find_spec", lambda name: object() if modules else None)

    return pretend


@pytest.mark.parametrize("tvm", ["0.27.0", "0.27.0.post1", "0.27.3"])
@pytest.mark.parametrize("ffi", ["0.1.14.post0", "0.1.14.post1"])
def test_versions_that_work_pass(installed, tvm, ffi):
    installed(tvm, ffi)
    compat.check()


@pytest.mark.parametrize("tvm", ["0.26.0", "0.28.0", "0.28.dev0", "1.27.0"])
def test_another_tvm_is_refused(installed, tvm):
    installed(tvm, "0.1.14.post1")
    with pytest.raises(ImportError, match=rf"apache-tvm {tvm} is installed.*0\.27.*pip install"):
        compat.check()


@pytest.mark.parametrize(
    "ffi", ["0.1.15", "0.1.15.post2", "0.1.15rc1", "0.2.0", "0.1.13", "0.1.14"]
)
def test_an_ffi_that_crashes_is_refused(installed, ffi):
    installed("0.27.0", ffi)
    with pytest.raises(ImportError, match=rf"apache-tvm-ffi {ffi} is installed.*pip install"):
        compat.check()


def test_without_tvm_the_command_to_install_it_is_given(installed):
    installed(None, None, modules=False)
    with pytest.raises(ImportError, match=r"apache-tvm is not installed: pip install"):
        compat.check()


def test_a_tvm_of_unknown_version_is_a_warning(installed):
    installed(None, "0.1.14.post1")
    with pytest.warns(UserWarning, match="version of the installed module tvm cannot be told"):
        compat.check()


def test_importing_the_package_does_not_import_tvm():
    code = "import sys, tvm_tensat; print('tvm' in sys.modules, dir(tvm_tensat).count('Tensat'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "1"]


def test_an_unknown_name_is_an_attribute_error():
    import tvm_tensat

    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = tvm_tensat.frobnicate


def test_tvmc_says_in_one_line_that_tvm_does_not_fit():
    code = (
        "import importlib.metadata as m, sys\n"
        "right = m.version\n"
        "m.version = lambda name: '0.26.0' if name == 'apache-tvm' else right(name)\n"
        "import tvm_tensat_launch\n"
        "sys.exit(tvm_tensat_launch.main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 5
    assert done.stderr.startswith("tvmc: error: apache-tvm 0.26.0 is installed")
    assert done.stderr.count("\n") == 1
