"""The product as its user sees it: the first lesson, the panel, the terminal's own tab, a second browser, no scripts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LESSON = "01-first-terminal.ipynb"
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SHELL_CELLS = [
    at
    for at, cell in enumerate(json.loads((NOTEBOOKS / LESSON).read_text())["cells"])
    if "".join(cell["source"]).startswith("%%terminal")
]
COMMAND_MIME = "application/vnd.jupyter-ahp.command+json"

CELL_OUTPUTS = """() => {
  const model = window.jupyterapp.shell.currentWidget?.content?.model;
  return Array.from(model?.cells ?? [], cell => (cell.outputs ? cell.outputs.toJSON() : []));
}"""
EXECUTION_COUNTS = """() => Array.from(window.jupyterapp.shell.currentWidget.content.model.cells)
  .filter(cell => cell.type === 'code').map(cell => cell.executionCount)"""
TERMINAL_TEXT = """() => [...window.jupyterapp.shell.widgets('main')].filter(w => w.content?._term).map(w => {
  const buffer = w.content._term.buffer.active;
  return Array.from({ length: buffer.length }, (_, i) => buffer.getLine(i).translateToString(true)).join('\\n');
}).join('\\n')"""


@pytest.fixture
def lesson(lab_server) -> str:
    shutil.copy(NOTEBOOKS / LESSON, lab_server.root / LESSON)
    return LESSON


def run_all(page: Any, command: Any) -> list[list[dict[str, Any]]]:
    """Run all cells; the outputs of each cell, once the last one has ended and its part is the saved form."""
    command("notebook:run-all-cells")
    page.wait_for_function(f"() => ({EXECUTION_COUNTS})().every(count => count !== null)", timeout=60_000)
    kernel = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
    page.wait_for_function(f"() => {kernel}.status === 'idle'", timeout=60_000)
    return page.evaluate(CELL_OUTPUTS)


def bundles(outputs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [o["data"] for cell in outputs for o in cell if COMMAND_MIME in o.get("data", {})]


def part_of(page: Any, command_line: str) -> Any:
    """A command's part, scrolled to: cells that are far off are not drawn."""
    page.evaluate(
        """line => {
          const { content } = window.jupyterapp.shell.currentWidget;
          const at = Array.from(content.model.cells).findIndex(cell => cell.sharedModel.source.includes(line));
          content.activeCellIndex = at;
          return content.scrollToItem(at);
        }""",
        command_line,
    )
    part = page.locator(".jp-AhpCommand-part").filter(has=page.get_by_text(command_line, exact=True))
    part.wait_for(state="visible")
    return part


def show_panel(page: Any) -> Any:
    page.evaluate("() => window.jupyterapp.shell.activateById('jupyter-ahp-panel')")
    panel = page.locator("#jupyter-ahp-panel")
    panel.wait_for(state="visible")
    return panel


def test_the_first_lesson(open_lab, lesson, command, page, screenshot, lab_server, browser):
    open_lab(lesson)
    panel = show_panel(page)
    panel.locator("text=No terminals yet").wait_for()
    outputs = run_all(page, command)

    # Every part has its exit code and duration, as the page shows it and as the file will have it.
    assert not [o for cell in outputs for o in cell if o["output_type"] == "error"]
    saved = bundles([outputs[at] for at in SHELL_CELLS])
    commands = [c for bundle in saved for c in bundle[COMMAND_MIME]["commands"]]
    assert [len(outputs[at]) for at in SHELL_CELLS] == [1] * len(SHELL_CELLS) == [1] * len(saved)
    assert all(c["isComplete"] and c["exitCode"] in (0, 1) and c["durationMs"] >= 0 for c in commands)
    assert [c["exitCode"] for c in commands if c["commandLine"] == "grep cherries fruit.txt"] == [1]
    assert "application/vnd.jupyter.widget-view+json" not in json.dumps(outputs)
    assert "\\u001b" not in json.dumps(outputs)
    failed = part_of(page, "grep cherries fruit.txt")
    assert failed.get_attribute("data-condition") == "failed"
    assert failed.locator(".jp-AhpCommand-outcome").inner_text().startswith("exit 1 · ")
    screenshot("first-lesson-failure")
    first = part_of(page, 'echo "Hello from the shell"')
    assert first.locator(".jp-AhpCommand-output").inner_text().strip() == "Hello from the shell"
    assert re.fullmatch(r"exit 0 · \d+(\.\d+)? m?s", first.locator(".jp-AhpCommand-outcome").inner_text())
    screenshot("first-lesson")

    # The panel shows the shell, its holder, folder and last command.
    row = panel.locator('li[data-ahp-terminal="ahp-terminal:/01-first-terminal"]')
    row.wait_for()
    text = row.inner_text()
    assert "01-first-terminal" in text
    assert "exit 0" in text
    # Its own tab: what is typed there runs in the same shell.
    row.locator(".jp-AhpPanel-open").click()
    page.wait_for_function(f"() => ({TERMINAL_TEXT})().includes('nothing is left')")

    # A second browser sees the same live, also what is typed in the first.
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    other = context.new_page()
    other.goto(f"{lab_server.url}lab?token={lab_server.token}&reset")
    other.wait_for_function("window.jupyterapp !== undefined")
    other.evaluate("window.jupyterapp.restored.then(() => true)")
    other_row = show_panel(other).locator('li[data-ahp-terminal="ahp-terminal:/01-first-terminal"]')
    other_row.locator(".jp-AhpPanel-open").click()
    other.wait_for_function(f"() => ({TERMINAL_TEXT})().includes('nothing is left')")

    page.locator(".jp-Terminal").first.click()
    page.keyboard.type("echo typed-in-$((1000 + 1)); sleep 2; (exit 7)\n")
    page.wait_for_function(f"() => ({TERMINAL_TEXT})().includes('typed-in-1001')")
    row.locator("text=sleep 2").wait_for()  # the row changes while it runs ...
    screenshot("terminal-tab")
    row.locator("text=exit 7").wait_for()  # ... and when it has ended
    other.wait_for_function(f"() => ({TERMINAL_TEXT})().includes('typed-in-1001')")
    other_row.locator("text=exit 7").wait_for()
    screenshot("panel-and-terminal")
    context.close()
    assert page.errors == []


def test_a_running_command_is_live_and_can_be_interrupted_while_the_cell_blocks(open_lab, lab_server, command, page, screenshot):
    name = lab_server.write_notebook("live.ipynb", "%load_ext jupyter_ext", "%%terminal\necho begun; sleep 60", "print('never')")
    open_lab(name)
    command("notebook:run-all-cells")
    part = page.locator(".jp-AhpCommand-part.jp-mod-live")
    part.locator(".jp-AhpCommand-output >> text=begun").wait_for()
    assert part.locator(".jp-AhpCommand-outcome").inner_text().startswith("running…")
    screenshot("running")
    part.locator(".jp-AhpCommand-interrupt").click()
    page.wait_for_function(f"() => ({CELL_OUTPUTS})()[1].some(o => o.output_type === 'error')", timeout=5_000)
    outputs = page.evaluate(CELL_OUTPUTS)
    (saved,) = bundles(outputs)
    assert saved[COMMAND_MIME]["commands"][0]["exitCode"] == 130
    assert "begun" in saved["text/plain"]
    assert outputs[2] == []
    assert page.errors == []


def test_the_stop_button_interrupts_the_job_and_not_the_shell(open_lab, lab_server, command, page):
    cells = ["%load_ext jupyter_ext", "%%terminal\nX=kept; echo begun; sleep 60", "print('never')", "%%terminal\necho $X"]
    open_lab(lab_server.write_notebook("stop.ipynb", *cells))
    command("notebook:run-all-cells")
    page.locator(".jp-mod-live .jp-AhpCommand-output >> text=begun").wait_for()
    command("notebook:interrupt-kernel")
    page.wait_for_function(f"() => ({CELL_OUTPUTS})()[1].some(o => o.output_type === 'error')", timeout=5_000)
    outputs = page.evaluate(CELL_OUTPUTS)
    assert [o["ename"] for o in outputs[1] if o["output_type"] == "error"] == ["KeyboardInterrupt"]
    assert outputs[2] == []
    assert outputs[3] == []
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 3; }")
    command("notebook:run-cell")
    page.wait_for_function(f"() => JSON.stringify(({CELL_OUTPUTS})()[3] ?? []).includes('kept')")
    assert page.errors == []


def test_a_reloaded_page_shows_what_ended_meanwhile(open_lab, lab_server, command, page):
    cells = ["%load_ext jupyter_ext", "%%terminal\necho begun; sleep 5; echo ended"]
    name = lab_server.write_notebook("reload.ipynb", *cells)
    open_lab(name)
    command("notebook:run-all-cells")
    page.locator(".jp-mod-live .jp-AhpCommand-output >> text=begun").wait_for()
    page.reload()
    page.wait_for_function("window.jupyterapp !== undefined")
    page.evaluate("window.jupyterapp.restored.then(() => true)")
    page.wait_for_function(f"() => JSON.stringify(({CELL_OUTPUTS})()).includes('{COMMAND_MIME}')", timeout=20_000)
    (saved,) = bundles(page.evaluate(CELL_OUTPUTS))
    assert "ended" in saved["text/plain"]
    page.locator(".jp-AhpCommand-output >> text=ended").wait_for()


def test_notebook_7_shows_parts_panel_and_terminal(open_lab, lesson, command, page, screenshot):
    open_lab(lesson, app="notebook")
    outputs = run_all(page, command)
    assert all(len(bundles([outputs[at]])) == 1 for at in SHELL_CELLS)
    assert part_of(page, 'echo "Hello from the shell"').locator(".jp-AhpCommand-outcome").inner_text().startswith("exit 0 · ")
    panel = show_panel(page)
    panel.locator('li[data-ahp-terminal="ahp-terminal:/01-first-terminal"] .jp-AhpPanel-open').click()
    page.locator(".jp-Terminal").first.wait_for(state="visible")
    screenshot("notebook-7")


def test_a_page_without_scripts_shows_every_command(browser, tmp_path, private_env, screenshot_of):
    """What nbconvert makes of a batch run, as a code host or a mail program shows it."""
    shutil.copy(NOTEBOOKS / LESSON, tmp_path / LESSON)
    arguments = ["nbconvert", "--to", "html", "--execute", LESSON]
    done = subprocess.run(
        [sys.executable, "-m", "jupyter", *arguments], cwd=tmp_path, env=private_env, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    html = (tmp_path / LESSON).with_suffix(".html")
    source = html.read_text()
    assert "\x1b" not in source
    assert "Loading widget" not in source
    assert "vnd.jupyter.widget" not in source
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1000, "height": 1200})
    page = context.new_page()
    page.goto(html.as_uri())
    text = page.locator("body").inner_text()
    for expected in (
        'echo "Hello from the shell"',
        "Hello from the shell",
        "Good morning, Ada. You are in",
        "plums 12",
        "20 pieces",
        "most of all: plums",
        "grep cherries fruit.txt",
        "step 4 of 4",
        "copied 100 %",
        "orange",
        "exit 1",
    ):
        assert expected in text, expected
    assert "copied  20 %" not in text
    assert len(re.findall(r"exit 0 · \d+(?:\.\d+)? m?s", text)) >= 12
    screenshot_of(page, "without-scripts")
    context.close()


def test_a_new_terminal_is_there_after_a_reload(open_lab, command, page, lab_server):
    open_lab()
    panel = show_panel(page)
    with page.expect_response(lambda response: "api/workspaces" in response.url and response.request.method == "PUT"):
        panel.locator("text=New").first.click()
        page.locator(".jp-AhpTerminal .xterm-screen").wait_for()
        page.locator(".jp-Terminal").first.click()
        page.keyboard.type("echo kept-$((40 + 2))\n")
        page.wait_for_function(f"() => ({TERMINAL_TEXT})().includes('kept-42')")
    page.goto(f"{lab_server.url}lab?token={lab_server.token}")
    page.wait_for_function("window.jupyterapp !== undefined")
    page.evaluate("window.jupyterapp.restored.then(() => true)")
    show_panel(page).locator("li .jp-AhpPanel-open >> text=terminal-").first.click()
    page.wait_for_function(f"() => ({TERMINAL_TEXT})().includes('kept-42')")
    page.locator(".jp-AhpTerminal .xterm-screen").wait_for(state="visible")
    assert page.errors == []
