"""Notebooks run by a real kernel without a page: what is saved, and what stops."""

from __future__ import annotations

import ast
import contextlib
import json
import queue
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import nbformat
import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
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
    assert "\n 1%" not in output.data["text/plain"]
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
    assert bundle["commands"][-1]["output"]["head"][0] == [{"text": "1"}]
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


def test_a_folder_is_where_a_new_terminal_starts_and_no_other_terminal_is_moved(run, tmp_path):
    cell = f"%%terminal other --cwd {tmp_path}\npwd"
    notebook = run(cell, cell, "%%terminal other\ncd /", cell, allow_errors=True)
    assert bundles(notebook.cells[1])[0]["commands"][0]["output"]["head"] == [[{"text": str(tmp_path)}]]
    assert bundles(notebook.cells[3]) == []
    assert "use cd in the cell" in json.dumps(notebook.cells[3].outputs)


def test_a_large_output_stays_small_in_the_file(run):
    notebook = run("%%terminal\nseq 100000")
    assert len(json.dumps(notebook)) < 330_000
    output = bundles(notebook.cells[0])[0]["commands"][0]["output"]
    assert len(output["head"]) + len(output["tail"]) + output["omittedLines"] == 100_000


# --- a kernel as a page has it -----------------------------------------------------------------------------------------------


class Page:
    """A kernel and what a page would get of it."""

    def __init__(self, folder: Any) -> None:
        for attempt in range(3):
            try:
                self.manager, self.client = start_new_kernel(kernel_name="python3", cwd=str(folder))
                break
            except RuntimeError:  # jupyter_client picks free ports, and another program may take one before the kernel does
                if attempt == 2:
                    raise
        self.messages: list[Any] = []

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel()

    def run(self, code: str, on_message: Callable[[Any], None] = lambda message: None, **settings: Any) -> Any:
        """Run a cell as a page does, which may be asked; gives the reply's content. Messages of any parent are kept."""
        self.messages.clear()
        request = self.client.execute(code, allow_stdin=True, **settings)
        is_idle = False
        while not is_idle:
            message = self.client.get_iopub_msg(timeout=30)
            self.messages.append(message)
            on_message(message)
            is_idle = message["content"].get("execution_state") == "idle" and message["parent_header"]["msg_id"] == request
        while (reply := self.client.get_shell_msg(timeout=30))["parent_header"]["msg_id"] != request:
            pass
        return reply["content"]

    def value(self, expression: str) -> str:
        reply = self.run("None", user_expressions={"v": expression})
        return str(reply["user_expressions"]["v"]["data"]["text/plain"])

    def of_type(self, kind: str) -> list[Any]:
        return [message["content"] for message in self.messages if message["msg_type"] == kind]

    def frames(self) -> list[Any]:
        return [c["data"]["content"] for c in self.of_type("comm_msg") if c["data"].get("method") == "custom"]

    def send(self, comm_id: str, content: Any, subshell_id: str) -> None:
        session = self.client.session
        message = session.msg("comm_msg", {"comm_id": comm_id, "data": {"method": "custom", "content": content}})
        message["header"]["subshell_id"] = subshell_id
        self.client.shell_channel.send(message)

    def create_subshell(self) -> str:
        message = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(message)
        return str(self.client.control_channel.get_msg(timeout=20)["content"]["subshell_id"])


@pytest.fixture
def page(private_env: dict[str, str], tmp_path: Any) -> Iterator[Page]:
    page = Page(tmp_path)
    page.run(LOAD)
    yield page
    page.close()


def test_an_interrupt_stops_the_command_the_cell_and_keeps_the_shell(page):
    page.run("%%terminal\ncd /tmp; X=1")

    def interrupt(message: Any) -> None:
        if message["msg_type"] == "display_data":
            page.manager.interrupt_kernel()

    started = time.monotonic()
    reply = page.run("%%terminal\nsleep 600", interrupt)
    assert time.monotonic() - started < 5
    assert reply["ename"] == "KeyboardInterrupt"
    assert reply["traceback"] == ["KeyboardInterrupt: sleep 600: stopped"]
    (update,) = page.of_type("update_display_data")
    assert update["data"][COMMAND_MIME]["commands"][0]["end"] == "interrupted"
    page.run("%%terminal --out r\npwd; echo $X")
    assert page.value("r.output") == "'/tmp\\n1\\n'"


def test_a_quick_command_makes_no_widget(page):
    page.run("%terminal echo hi")
    assert not page.of_type("comm_open")
    (display,) = page.of_type("display_data")
    assert COMMAND_MIME in display["data"]


def test_a_longer_command_is_shown_live_and_then_replaced(page):
    page.run("%%terminal\nprintf 'Downloading... '; sleep 0.5; echo done")
    (display,) = page.of_type("display_data")
    assert VIEW_MIME in display["data"]
    assert "Downloading" in display["data"]["text/plain"]
    model = next(c for c in page.of_type("comm_open") if c["data"]["state"].get("_model_name") == "CommandModel")
    state = model["data"]["state"]
    assert state["terminal"] == "ahp-terminal:/notebook"
    assert "done" not in json.dumps(state)
    frames = page.frames()
    assert frames[0]["method"] == "snapshot"
    assert "done" in json.dumps([frame for frame in frames if frame["method"] != "bundle"])
    (bundle,) = [frame for frame in frames if frame["method"] == "bundle"]
    (update,) = page.of_type("update_display_data")
    assert update["transient"] == display["transient"]
    assert VIEW_MIME not in update["data"]
    assert update["data"][COMMAND_MIME] == bundle["mimebundle"][COMMAND_MIME]
    assert {"ended": True} in [c["data"].get("state") for c in page.of_type("comm_msg")]


def test_a_flood_is_sent_in_bounded_frames(page):
    page.run("%%terminal\ntimeout 1 yes 'some spam of no use to anybody'")
    frames = page.frames()
    assert len(frames) < 60
    assert all(len(json.dumps(frame)) < 500_000 for frame in frames)
    assert max(frame.get("omitted", 0) for frame in frames) > 0


def test_the_page_interrupts_and_types_while_the_cell_blocks(page):
    subshell_id = page.create_subshell()
    comm_ids: list[str] = []

    asked: list[str] = []

    def act(message: Any) -> None:
        content = message["content"]
        if message["msg_type"] == "comm_open" and content["data"]["state"].get("_model_name") == "CommandModel":
            comm_ids.append(content["comm_id"])
        text = json.dumps(content)
        if message["msg_type"] == "comm_msg" and '"data": "Name? "' in text and not asked:
            asked.append(text)
            action = {"type": "terminal/input", "data": "Ada\r"}
            params = {"channel": "ahp-terminal:/notebook", "clientSeq": 1, "action": action}
            page.send(comm_ids[0], {"method": "dispatchAction", "params": params}, subshell_id)
        elif message["msg_type"] == "comm_msg" and "hi Ada" in text:
            page.send(comm_ids[0], {"method": "x-terminal/signal", "params": {"signal": "interrupt"}}, subshell_id)

    started = time.monotonic()
    reply = page.run("%%terminal\nsleep 0.3; read -p 'Name? ' n; echo \"hi $n\"; sleep 600", act)
    assert time.monotonic() - started < 10
    assert reply["ename"] == "CommandError"
    assert "exit code 130" in reply["evalue"]


def test_a_background_command_is_replaced_when_it_ends_while_the_kernel_is_idle(page):
    page.run("%%terminal --bg --proc h\nsleep 0.5; echo late")
    (display,) = page.of_type("display_data")
    assert VIEW_MIME in display["data"]
    deadline = time.monotonic() + 20
    updates: list[Any] = []
    while not updates and time.monotonic() < deadline:
        with contextlib.suppress(queue.Empty):
            message = page.client.get_iopub_msg(timeout=1)
            updates += [message["content"]] if message["msg_type"] == "update_display_data" else []
    assert updates[0]["transient"] == display["transient"]
    assert updates[0]["data"][COMMAND_MIME]["commands"][0]["exitCode"] == 0


def test_a_run_of_python_code_that_lasts_is_shown_while_it_lasts(page):
    page.run("from jupyter_ext import Terminal\nt = Terminal()")
    page.run("r = t.run('echo quick')")
    assert not page.of_type("display_data")
    page.run("t.run('sleep 1.4; echo slow')")
    (display,) = page.of_type("display_data")
    assert VIEW_MIME in display["data"]
    (result,) = page.of_type("execute_result")
    assert COMMAND_MIME not in result["data"]
    (update,) = page.of_type("update_display_data")
    assert update["data"][COMMAND_MIME]["commands"][0]["exitCode"] == 0


# --- a kernel of a server ---------------------------------------------------------------------------------------------------


def test_a_kernel_of_a_server_uses_that_servers_terminals_also_after_a_restart(lab_server):
    folder = lab_server.root / "my data"
    folder.mkdir(exist_ok=True)
    notebook = {"path": "my data/one.ipynb", "name": "one.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
    kernel_id = lab_server.api("api/sessions", "POST", notebook)["kernel"]["id"]
    (file,) = (lab_server.root.parent / "env" / "runtime").glob(f"kernel-{kernel_id}.json")
    client = BlockingKernelClient(connection_file=str(file))
    client.load_connection_file()
    client.start_channels()

    def value(code: str, expression: str) -> Any:
        expressions = {"v": f"__import__('json').dumps({expression})"}
        code = f"{LOAD}\nfrom jupyter_ext import Terminal\n{code}"
        request = client.execute(code, allow_stdin=False, user_expressions=expressions)
        while (reply := client.get_shell_msg(timeout=60))["parent_header"]["msg_id"] != request:
            pass
        assert reply["content"]["status"] == "ok", reply
        return json.loads(ast.literal_eval(reply["content"]["user_expressions"]["v"]["data"]["text/plain"]))

    try:
        code = "import os\nt = Terminal()\nr = t.run('X=1; pwd')"
        output, name, told, shown = value(code, "[r.output, t.name, [n for n in os.environ if 'AHP' in n], repr(t)]")
        assert (output, name, told) == (f"{folder}\n", "my data/one", [])
        assert f":{urlsplit(lab_server.url).port}>" in shown
        lab_server.api(f"api/kernels/{kernel_id}/restart", "POST", {})
        assert value("r = Terminal().run('echo $X')", "r.output") == "1\n"
        value("Terminal().close()", "0")
    finally:
        client.stop_channels()
        lab_server.shutdown_kernels()
