"""The teaching notebooks: kept without outputs, and right in a batch run and in the page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from jupyter_ext.protocol.display import COMMAND_MIME

NOTEBOOKS = sorted(Path(__file__).parents[1].joinpath("notebooks").glob("*.ipynb"))
VIEW_MIME = "application/vnd.jupyter.widget-view+json"

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def processes_with(variable: str, value: str) -> list[str]:
    """The command lines of the running processes that have a value in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(variable) == value:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook["cells"] for output in cell.get("outputs", [])]


def run_cells(notebook: Any) -> list[str]:
    """The ids of the cells that give a command to a terminal by magic."""
    return [cell["id"] for cell in notebook["cells"] if "".join(cell["source"]).startswith("%%terminal")]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@each_notebook
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert outputs(notebook) == []
    assert all(cell.get("execution_count") is None for cell in notebook.cells)
    assert "widgets" not in notebook.metadata


@each_notebook
def test_a_notebook_runs_without_a_page_and_leaves_nothing_behind(
    path: Path, private_env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    folder = tmp_path / "notebooks"
    folder.mkdir()

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()

    with_bundle = [
        cell["id"] for cell in notebook.cells if any(COMMAND_MIME in o.get("data", {}) for o in outputs({"cells": [cell]}))
    ]
    assert with_bundle == run_cells(notebook)
    assert not any(VIEW_MIME in output.get("data", {}) for output in outputs(notebook))
    assert "widgets" not in notebook.metadata
    assert list(folder.iterdir()) == []
    assert not list(temporary.glob("tmp.*")), "the lesson's folder is still there"

    deadline = time.monotonic() + 10
    while (left := processes_with("HOME", private_env["HOME"])) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


@each_notebook
def test_a_notebook_runs_in_the_page(
    path: Path, open_lab: Callable[..., Any], lab_server: Any, command: Callable[..., None], screenshot: Callable[[str], Path]
) -> None:
    shutil.copy(path, lab_server.root / path.name)
    page = open_lab(path.name)
    command("notebook:run-all-cells")
    # Off-screen cells are not in the DOM: read the model. The last cell has run when it has a number and the kernel is idle.
    page.wait_for_function(
        """() => {
          const {content, sessionContext} = window.jupyterapp.shell.currentWidget;
          const cells = [...content.model.cells].filter(cell => cell.type === 'code');
          return cells.every(cell => cell.executionCount) && sessionContext.session.kernel.status === 'idle';
        }""",
        timeout=90_000,
    )
    screenshot(path.stem)
    notebook = page.evaluate("window.jupyterapp.shell.currentWidget.content.model.toJSON()")
    assert [output for output in outputs(notebook) if output["output_type"] == "error"] == []
    page.wait_for_function(
        f"""() => [...window.jupyterapp.shell.currentWidget.content.model.cells].flatMap(cell => cell.outputs?.toJSON() ?? [])
          .every(output => !output.data?.['{VIEW_MIME}'])"""
    )
    assert page.errors == []
