"""The tutorials run, and are committed as they ran."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "tutorials"
NAMES = sorted(file.name for file in FOLDER.glob("*.ipynb"))


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(FOLDER / name, as_version=4)


def texts(notebook: nbformat.NotebookNode, kind: str) -> str:
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == kind)


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cost store for all, as a reader has: the machine is calibrated once."""
    return tmp_path_factory.mktemp("costs") / "costs.sqlite"


# Kernels wait for each other where other processes measure too.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_it_runs(name, costs, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TVM_TENSAT_COSTS", str(costs))
    place = {"metadata": {"path": str(tmp_path)}}
    notebook = NotebookClient(read(name), timeout=600, resources=place).execute()
    # On another machine figures differ, but what was drawn or printed is so again.
    for before, after in zip(read(name).cells, notebook.cells, strict=True):
        assert _kinds(before) <= _kinds(after), before.source


def _kinds(cell: nbformat.NotebookNode) -> set[str]:
    """What a code cell shows, by kind."""
    kinds: set[str] = set()
    for output in cell.get("outputs", []):
        kinds |= set(output["data"]) if "data" in output else {output.get("name", "error")}
    return kinds


@pytest.mark.parametrize("name", NAMES)
def test_it_is_committed_as_it_ran_without_errors_or_warnings(name) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    kinds = set().union(*map(_kinds, code))
    assert "image/svg+xml" in kinds or name.startswith("4")
    assert not kinds & {"error", "stderr"}
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


@pytest.mark.parametrize("name", NAMES)
def test_its_text_has_no_measured_figures_and_its_links_lead_somewhere(name) -> None:
    markdown = texts(read(name), "markdown")
    assert not re.search(r"\d\s*(ms|µs|s|%|×|times)\b", markdown)
    for link in re.findall(r"\]\(([^)#]+)\)", markdown):
        assert link.startswith("https://") or (FOLDER / link).exists(), link


def test_readme_lists_them_all() -> None:
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    assert NAMES and set(re.findall(r"\(tutorials/(\S+)\)", readme)) == set(NAMES)
