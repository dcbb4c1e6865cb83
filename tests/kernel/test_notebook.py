"""Notebooks run by a real kernel without a page: what is saved, and what stops."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from jupyter_ext.protocol.display import COMMAND_MIME

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="no terminals on Windows"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client"),
]

VIEW_MIME = "application/vnd.jupyter.widget-view+json"
LOAD = "%load_ext jupyter_ext"


@pytest.fixture
def run(private_env: dict[str, str], tmp_path: Any) -> Callable[..., Any]:
    """``run(cell, ...)`` is the notebook after a batch run; the extension is loaded first."""
    folder = tmp_path / "notebooks"
    folder.mkdir()

    def run(*cells: str, **settings: Any) -> Any:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (LOAD, *cells)])
        client = NotebookClient(
            notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(folder)}}, **settings
        )
        client.execute()
        notebook.cells = notebook.cells[1:]
        return notebook

    return run


def bundles(cell: Any) -> list[Any]:
    return [output.data[COMMAND_MIME] for output in cell.outputs if COMMAND_MIME in output.get("data", {})]


def texts(cell: Any) -> list[str]:
    return [output.get("text") or output["data"]["text/plain"] for output in cell.outputs if output.output_type != "error"]


def test_a_cell_leaves_one_bundle_without_a_widget_or_an_escape(run):
    notebook = run("%%terminal\nprintf '\\033[31mred\\033[0m\\n'; printf '\\r 1%%\\r 2%%\\n'")
    (cell,) = notebook.cells
    (output,) = cell.outputs
    assert output.output_type == "display_data"
    assert {COMMAND_MIME, "text/html", "text/plain"} <= output.data.keys()
    assert VIEW_MIME not in output.data
    assert "widgets" not in notebook.metadata
    assert "\\u001b" not in json.dumps(notebook)
    assert "red" in output.data["text/plain"]
    assert "1%" not in output.data["text/plain"]
    (command,) = output.data[COMMAND_MIME]["commands"]
    assert (command["isComplete"], command["exitCode"]) == (True, 0)
    nbformat.validate(notebook)


def test_state_is_kept_between_cells_and_a_line_magic_uses_the_same_shell(run):
    notebook = run("%%terminal\ncd /tmp\nX=1", "%terminal echo $X $PWD")
    (bundle,) = bundles(notebook.cells[1])
    assert bundle["commands"][0]["output"]["head"] == [[{"text": "1 /tmp"}]]
    assert bundle["title"] == "notebook"


def test_output_stands_in_order_with_pythons_own(run):
    (cell,) = run("print(1)\n%terminal echo 2\nprint(3)").cells
    one, two, three = texts(cell)
    assert (one.strip(), three.strip()) == ("1", "3")
    assert "2" in two


def test_a_failure_is_an_error_with_its_code_and_the_rest_does_not_run(run):
    with pytest.raises(CellExecutionError, match="CommandError") as caught:
        run("%%terminal\necho out; false", "%%terminal\necho two")
    assert "exit code 1" in str(caught.value)
    notebook = run("%%terminal\necho out; false", "%%terminal\necho two", allow_errors=True)
    failed, after = notebook.cells
    assert bundles(failed)[0]["commands"][0]["exitCode"] == 1
    error = failed.outputs[-1]
    assert (error.output_type, error.ename) == ("error", "CommandError")
    assert error.traceback == ["CommandError: echo out; false: exit code 1"]
    assert bundles(after)


def test_a_flag_lets_a_failure_be_no_error_and_variables_take_result_and_handle(run):
    notebook = run(
        "%%terminal build --no-raise-error --out r --proc h\necho x; (exit 4)",
        "print(r.exit_code, repr(r.output), h.poll() is h.result, r.terminal)",
    )
    assert texts(notebook.cells[1]) == ["4 'x\\n' True build\n"]


def test_only_braced_names_are_replaced(run):
    notebook = run("name = 'my file'", "%%terminal --out r\nA=1; echo '{{name}}' {name} $A '{{.Names}}'", "print(r.output)")
    assert texts(notebook.cells[2]) == ["my file {name} 1 {{.Names}}\n\n"]
    with pytest.raises(CellExecutionError, match="nosuch"):
        run("%terminal echo {{nosuch}}")


def test_a_time_limit_is_an_error_and_keeps_what_was_printed(run):
    notebook = run("%%terminal --timeout 0.5\necho 1; sleep 60", "%terminal echo on", allow_errors=True)
    (bundle,) = bundles(notebook.cells[0])
    assert bundle["commands"][-1]["end"] == "timeout"
    assert bundle["commands"][-1]["output"]["head"] == [[{"text": "1"}]]
    assert notebook.cells[0].outputs[-1].ename == "CommandError"
    assert notebook.cells[1].outputs[-1].output_type == "display_data"


def test_a_background_command_is_brought_up_to_date_in_its_own_cell(run):
    notebook = run("%%terminal --bg --proc h\nsleep 0.4; echo late; (exit 9)", "import time; time.sleep(1)", "print(h.exit_code)")
    first, second, third = notebook.cells
    (bundle,) = bundles(first)
    assert bundle["commands"][0]["exitCode"] == 9
    assert bundle["commands"][0]["output"]["head"] == [[{"text": "late"}]]
    assert second.outputs == []
    assert texts(third) == ["9\n"]


def test_a_background_command_that_ends_between_cells_is_there_after_the_next(run):
    notebook = run("%%terminal --bg --proc h\necho late", "h.wait(20)\nNone", "1")
    (bundle,) = bundles(notebook.cells[0])
    assert bundle["commands"][0]["isComplete"] is True


def test_a_result_as_the_last_value_of_a_cell_is_its_part(run):
    notebook = run("from jupyter_ext import Terminal\nt = Terminal()", "t.run('echo shown')", "x = t.run('echo hidden')")
    (bundle,) = bundles(notebook.cells[1])
    assert bundle["commands"][0]["commandLine"] == "echo shown"
    assert notebook.cells[2].outputs == []


def test_a_long_run_of_python_code_is_shown_once(run):
    notebook = run("from jupyter_ext import Terminal\nt = Terminal()", "t.run('sleep 1.3; echo x')")
    assert len(bundles(notebook.cells[1])) == 1


def test_async_code_runs_commands_too(run):
    notebook = run("from jupyter_ext import Terminal\nr = await Terminal().run_async('echo a')\nprint(r.exit_code, r.output)")
    assert texts(notebook.cells[0]) == ["0 a\n\n"]


def test_what_is_refused_is_one_line(run):
    notebook = run("%%terminal --shell nosuch other\necho x", "%%terminal --nonsense\necho", "%terminal", allow_errors=True)
    for cell, text in zip(notebook.cells, ("nosuch", "--nonsense", "%%terminal runs a whole cell"), strict=True):
        (output,) = cell.outputs
        assert text in output.get("text", "") + output.get("evalue", "")
        assert "Traceback" not in json.dumps(output)


def test_a_large_output_stays_small_in_the_file(run):
    notebook = run("%%terminal\nseq 100000")
    assert len(json.dumps(notebook)) < 330_000
    output = bundles(notebook.cells[0])[0]["commands"][0]["output"]
    assert len(output["head"]) + len(output["tail"]) + output["omittedLines"] == 100_000


def test_an_interrupt_stops_the_command_the_cell_and_the_rest(private_env, tmp_path):
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    try:
        client.execute_interactive(LOAD, timeout=60, allow_stdin=False)
        client.execute_interactive("%%terminal\ncd /tmp; X=1", timeout=60, allow_stdin=False)
        outputs: list[Any] = []

        def interrupt(message: Any) -> None:
            if message["msg_type"] == "display_data":
                manager.interrupt_kernel()
            outputs.append(message["content"])

        started = time.monotonic()
        reply = client.execute_interactive("%%terminal\nsleep 600", timeout=60, allow_stdin=False, output_hook=interrupt)
        assert time.monotonic() - started < 5
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        last = [output["data"][COMMAND_MIME] for output in outputs if COMMAND_MIME in output.get("data", {})][-1]
        assert last["commands"][0]["end"] == "interrupted"
        reply = client.execute_interactive(
            "%%terminal --out r\npwd; echo $X", timeout=60, allow_stdin=False, user_expressions={"o": "r.output"}
        )
        assert reply["content"]["user_expressions"]["o"]["data"]["text/plain"] == "'/tmp\\n1\\n'"
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
