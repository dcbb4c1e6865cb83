"""Fixtures: a private environment, a real JupyterLab server, a browser.

Test modules are imported by file (``--import-mode=importlib``), so what they share is a fixture, never an import.
Tests with a Jupyter server in this process are in tests/server, whose conftest brings pytest-jupyter's fixtures.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import nbformat
import pytest

hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("default")

CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-3d-apis",  # without WebGL xterm takes its canvas renderer, which is faster where there is no GPU
]

LAB_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    "@jupyterlab/codemirror-extension:plugin": {"defaultConfig": {"autoClosingBrackets": False}},
}

SHELL_VARIABLES = {"BASH_ENV", "ENV", "HISTFILE", "PROMPT_COMMAND", "PS1", "ZDOTDIR"}


def unavailable(reason: str, required_by: str) -> NoReturn:
    """Skip, or fail where the environment says that nothing may be missing."""
    if os.environ.get(required_by) == "1":
        pytest.fail(f"{reason} ({required_by}=1)")
    pytest.skip(reason)


# --- environment --------------------------------------------------------------------------------------------------------


def private_environment(folder: Path) -> dict[str, str]:
    """This process's environment without the user's Jupyter, IPython and shell configuration, all of it below a folder."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("IPYTHON", "JPY_", "JUPYTER", "XDG_")) and name not in SHELL_VARIABLES
    }
    for variable, name in {
        "HOME": "home",
        "IPYTHONDIR": "ipython",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
    }.items():
        path = folder / name
        path.mkdir(parents=True)
        env[variable] = str(path)
    env["SHELL"] = shutil.which("bash") or "bash"
    return env


@pytest.fixture
def private_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Makes this process's environment, which kernels and shells inherit, a private one."""
    env = private_environment(tmp_path / "env")
    for name in os.environ.keys() - env.keys() - {"PYTEST_CURRENT_TEST"}:
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return env


@pytest.fixture(scope="session")
def require_shell() -> Callable[[str], str]:
    """``require_shell("zsh")`` is the shell's path; without it the test skips, or fails under JUPYTER_AHP_REQUIRE_SHELLS=1."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            unavailable(f"no {name} found: install the Debian package {name}", "JUPYTER_AHP_REQUIRE_SHELLS")
        return path

    return find


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures are kept: JUPYTER_AHP_ARTIFACTS, else a folder of pytest's."""
    path = Path(os.environ.get("JUPYTER_AHP_ARTIFACTS") or tmp_path_factory.getbasetemp() / "artifacts")
    path.mkdir(parents=True, exist_ok=True)
    return path


# --- a real server ------------------------------------------------------------------------------------------------------


class LabServer:
    """A JupyterLab server as a user starts it, run by the interpreter of the tests; `root` is the folder that it shows."""

    token = "tok"

    def __init__(self, folder: Path, app: str = "jupyterlab") -> None:
        self.root = folder / "root"
        self.root.mkdir()
        self._log = folder / "server.log"
        env = private_environment(folder / "env")
        overrides = Path(env["JUPYTER_CONFIG_DIR"], "labconfig", "default_setting_overrides.json")
        overrides.parent.mkdir()
        overrides.write_text(json.dumps(LAB_SETTINGS))
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", app, "--no-browser", "--allow-root"),
                    *("--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", f"--ServerApp.root_dir={self.root}"),
                    f"--IdentityProvider.token={self.token}",
                    "--LabApp.expose_app_in_browser=True",
                    "--JupyterNotebookApp.expose_app_in_browser=True",
                    "--LabApp.news_url=None",
                    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
                    "--LabApp.extension_manager=readonly",
                ],
                cwd=self.root,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self.url = self._wait_until_it_answers(Path(env["JUPYTER_RUNTIME_DIR"]))
        except BaseException:
            self.stop()
            raise

    def _wait_until_it_answers(self, runtime_dir: Path, timeout_s: float = 60) -> str:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.process.poll() is None:
            for info in runtime_dir.glob("jpserver-*.json"):
                try:
                    self.url = str(json.loads(info.read_text())["url"])
                    self.api("api/status")
                except (OSError, ValueError):
                    continue
                return self.url
            time.sleep(0.05)
        raise RuntimeError(f"the server does not answer:\n{self.log_tail()}")

    def api(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """What the REST API answers, decoded."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = response.read()
        return json.loads(answer) if answer else None

    def log_tail(self, chars: int = 4000) -> str:
        """The end of the server's log."""
        return self._log.read_text(errors="replace")[-chars:]

    def write_notebook(self, name: str, *cells: str) -> str:
        """Write a notebook of code cells below the root.

        Returns:
            Its name, as `open_lab` takes it.
        """
        kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata={"kernelspec": kernelspec}
        )
        nbformat.write(notebook, self.root / name)
        return name

    def shutdown_kernels(self) -> None:
        """End all kernels, so that no later test joins an old session with its buffered output."""
        for session in self.api("api/sessions"):
            self.api(f"api/sessions/{session['id']}", "DELETE")
        for kernel in self.api("api/kernels"):
            self.api(f"api/kernels/{kernel['id']}", "DELETE")

    def stop(self) -> None:
        """End the server, with force where it does not end by itself."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """One JupyterLab server for all tests. It serves Notebook's pages too: ``open_lab(path, app="notebook")``."""
    server = LabServer(tmp_path_factory.mktemp("lab"))
    yield server
    server.stop()


# --- a browser ----------------------------------------------------------------------------------------------------------


# Not session scope: while sync Playwright is up an event loop runs in this thread, and tests in other modules that run a
# loop of their own would fail.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium: ``$CHROMIUM``, the system's, or Playwright's own; without one the test skips or fails (see `unavailable`)."""
    required_by = "JUPYTER_AHP_REQUIRE_BROWSER"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable('no Playwright found: pip install "jupyter-ahp[test]"', required_by)
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        if path is None and Path(playwright.chromium.executable_path).exists():
            path = playwright.chromium.executable_path
        if path is None:
            unavailable("no Chromium found: install the Debian package chromium, or set CHROMIUM to its path", required_by)
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, lab_server: LabServer, artifacts: Path) -> Iterator[Any]:
    """An empty page of a user of its own. Uncaught errors are collected in ``page.errors``; kernels are ended afterwards."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    yield page
    context.close()
    lab_server.shutdown_kernels()


@pytest.fixture
def open_lab(page: Any, lab_server: LabServer) -> Callable[..., Any]:
    """``open_lab("a.ipynb")`` is the page with JupyterLab (or ``app="notebook"``) restored and the kernel idle."""

    def go(path: str = "", app: str = "lab") -> Any:
        start, below = {"lab": ("lab", "lab/tree/"), "notebook": ("tree", "notebooks/")}[app]
        where = below + urllib.parse.quote(path) if path else start
        page.goto(f"{lab_server.url}{where}?token={lab_server.token}&reset")
        page.wait_for_function("window.jupyterapp !== undefined")
        page.evaluate("window.jupyterapp.restored.then(() => true)")
        if path.endswith(".ipynb"):
            page.wait_for_function(
                "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
            )
        return page

    return go


@pytest.fixture
def command(page: Any) -> Callable[..., None]:
    """``command("notebook:run-all-cells")`` starts a command of the page's app.

    It does not wait for the end (a page's `evaluate` has no timeout): wait for what the command shows.
    """

    def start(name: str, args: dict[str, Any] | None = None) -> None:
        page.evaluate("([name, args]) => void window.jupyterapp.commands.execute(name, args)", [name, args or {}])

    return start


@pytest.fixture
def screenshot_of(artifacts: Path) -> Callable[[Any, str], Path]:
    """``screenshot_of(page, "two-commands")`` keeps a picture of a page among the artifacts."""

    def keep(page: Any, name: str) -> Path:
        path = artifacts / f"{name}.png"
        page.screenshot(path=path)
        return path

    return keep


@pytest.fixture
def screenshot(page: Any, screenshot_of: Callable[[Any, str], Path]) -> Callable[[str], Path]:
    """``screenshot("two-commands")`` keeps a picture of the page among the artifacts."""
    return lambda name: screenshot_of(page, name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A failed test with a page keeps a picture of it; one with a server shows the end of the server's log."""
    report = yield
    fixtures = getattr(item, "funcargs", {})
    if report.when == "call" and report.failed:
        if "page" in fixtures and "artifacts" in fixtures:
            path = fixtures["artifacts"] / f"failed-{re.sub(r'[^A-Za-z0-9_.-]+', '-', item.nodeid)[-150:]}.png"
            try:
                fixtures["page"].screenshot(path=path, timeout=5_000)
                report.sections.append(("Picture of the page", str(path)))
            except Exception as error:
                report.sections.append(("No picture of the page", str(error)))
            report.sections.append(("Errors of the page", "\n".join(fixtures["page"].errors)))
        if "lab_server" in fixtures:
            report.sections.append(("End of the server's log", fixtures["lab_server"].log_tail()))
    return report
