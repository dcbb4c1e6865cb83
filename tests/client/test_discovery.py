"""Which host is found, and that a process shares its clients."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from jupyter_ext.client import discovery
from jupyter_ext.client.client import HostMissing, HostRefused
from jupyter_ext.client.discovery import Server, find_server, kernel_name, notebook_path, shared_client, take_kernel_server

pytestmark = pytest.mark.usefixtures("no_server")

KERNEL = {
    "JUPYTER_AHP_KERNEL_URL": "http://127.0.0.1:8888/user/ann@x/",
    "JUPYTER_AHP_KERNEL_ID": "k-1",
    "JUPYTER_AHP_KERNEL_TOKEN": "secret",
}
HUB = {"JUPYTERHUB_SERVICE_URL": "http://127.0.0.1:9000/user/ann/", "JUPYTERHUB_API_TOKEN": "hub"}


@pytest.fixture
def setenv(monkeypatch: pytest.MonkeyPatch) -> Any:
    def setenv(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return setenv


@pytest.fixture
def server_file(tmp_path, setenv):
    """``server_file(url=..., token=...)`` writes what a server of this user has written about itself."""

    def write(**info: Any) -> None:
        (tmp_path / "jpserver-4711.json").write_text(json.dumps(info))
        setenv(JUPYTER_RUNTIME_DIR=str(tmp_path), JPY_PARENT_PID="4711")

    return write


def test_where_nothing_is_told_the_host_is_embedded():
    assert find_server() is None
    with pytest.raises(ConnectionError, match="JUPYTER_AHP_URL"):
        find_server("server")


def test_an_explicit_address_wins_over_all(setenv):
    setenv(JUPYTER_AHP_URL="https://example.org/lab/", JUPYTER_AHP_TOKEN="tok", **KERNEL, **HUB)
    server = find_server()
    assert server == Server("wss://example.org/lab/ahp", (("Authorization", "token tok"),))
    assert "tok" not in repr(server)
    assert find_server("embedded") is None


def test_the_server_that_started_the_kernel_comes_next_and_its_token_leaves_the_environment(setenv):
    setenv(**KERNEL, **HUB)
    server = find_server()
    assert server == Server("ws://127.0.0.1:8888/user/ann@x/ahp/kernel/k-1", (("X-Jupyter-AHP-Token", "secret"),))
    assert not any(name.startswith("JUPYTER_AHP_KERNEL") for name in os.environ)
    assert find_server("server") is server
    assert take_kernel_server() is server


def test_a_hub_comes_next_then_the_servers_own_file(setenv, server_file):
    server_file(url="http://localhost:8890/base/", token="t0")
    assert find_server() == Server("ws://localhost:8890/base/ahp", (("Authorization", "token t0"),), is_certain=False)
    setenv(**HUB)
    assert find_server() == Server("ws://127.0.0.1:9000/user/ann/ahp", (("Authorization", "token hub"),), is_certain=False)


@pytest.mark.parametrize("text", ["", "not json", "[]", "{}"])
def test_a_servers_file_that_cannot_be_read_is_none(tmp_path, setenv, text):
    (tmp_path / "jpserver-4711.json").write_text(text)
    setenv(JUPYTER_RUNTIME_DIR=str(tmp_path), JPY_PARENT_PID="4711")
    assert find_server() is None
    setenv(JPY_PARENT_PID="not a number")
    assert find_server() is None


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("http://h:1", Server("ws://h:1/ahp")),
        ("http://h:1/base/ahp", Server("ws://h:1/base/ahp")),
        ("ws://h:1/base/ahp", Server("ws://h:1/base/ahp")),
        ("https://h/base?token=abc", Server("wss://h/base/ahp", (("Authorization", "token abc"),))),
        ("http+unix://%2Ftmp%2Fs.sock/base/", Server("ws://localhost/base/ahp", socket_path="/tmp/s.sock")),
    ],
)
def test_an_address_may_have_many_forms(url, server):
    assert find_server(url) == server


@pytest.mark.parametrize("url", ["nonsense", "ftp://h", "http://", "http+tcp://h"])
def test_what_is_no_address_is_a_value_error(url):
    with pytest.raises(ValueError, match="not the URL of a Jupyter server"):
        find_server(url)


def test_the_token_goes_only_to_the_address_that_it_came_with(setenv):
    setenv(JUPYTER_AHP_TOKEN="tok")
    assert find_server("http://h:1").headers == (("Authorization", "token tok"),)
    setenv(JUPYTER_AHP_URL="http://h:1/lab")
    assert find_server("http://h:1/lab").headers == (("Authorization", "token tok"),)
    assert find_server("http://other:1/lab").headers == ()


# --- shared clients -------------------------------------------------------------------------------------------------------


@pytest.fixture
def connectors(monkeypatch, host):
    """The fake host stands for every host; what was asked for is recorded."""
    asked: list[str] = []

    def websocket(url: str, **settings: Any) -> Any:
        asked.append(url)
        return host

    def embedded(**settings: Any) -> Any:
        asked.append("embedded")
        return type(host)()

    monkeypatch.setattr(discovery, "WebSocketConnector", websocket)
    monkeypatch.setattr("jupyter_ext.client.embedded.EmbeddedConnector", embedded)
    return asked


def test_a_process_shares_one_client_per_host(connectors):
    first = shared_client()
    assert shared_client("auto") is first
    assert shared_client("embedded") is first
    assert shared_client("http://h:1") is not first
    assert connectors == ["embedded", "ws://h:1/ahp"]


@pytest.mark.parametrize(
    ("program", "title"),
    [("/opt/make_report.py", "make_report.py"), ("-c", "Python"), ("", "Python"), ("/lib/ipykernel_launcher.py", "a notebook")],
)
def test_a_client_has_a_title_for_people(connectors, host, monkeypatch, program, title):
    monkeypatch.setattr("sys.argv", [program])
    client = shared_client("http://h:1")
    assert host.state.clients[client.client_id].title == title


def test_a_client_that_has_ended_is_replaced(connectors):
    first = shared_client()
    first.close()
    assert shared_client() is not first


@pytest.mark.parametrize("error", [HostMissing("404"), ConnectionRefusedError("down"), ConnectionError("cannot be reached")])
def test_a_server_that_was_only_found_and_lacks_the_extension_gives_way_to_the_embedded_host(setenv, host, connectors, error):
    setenv(**HUB)
    host.refusal = error
    assert shared_client().is_usable
    assert connectors == ["ws://127.0.0.1:9000/user/ann/ahp", "embedded"]
    with pytest.raises(type(error)):
        shared_client("server")


def test_a_server_that_refuses_is_an_answer(setenv, host, connectors):
    host.refusal = HostRefused("terminals are turned off")
    setenv(**HUB)
    with pytest.raises(HostRefused, match="turned off"):
        shared_client()
    assert "embedded" not in connectors


def test_a_server_that_was_named_is_never_replaced(setenv, host, connectors):
    host.refusal = HostMissing("404")
    setenv(**KERNEL)
    with pytest.raises(HostMissing):
        shared_client()
    assert "embedded" not in connectors


# --- the notebook ---------------------------------------------------------------------------------------------------------


def test_a_notebooks_name_is_its_path_below_the_servers_root_without_the_suffix(tmp_path, setenv, server_file):
    assert (notebook_path(), kernel_name()) == (None, "notebook")
    setenv(JPY_SESSION_NAME="lessons/one.ipynb")
    assert (notebook_path(), kernel_name()) == ("lessons/one.ipynb", "lessons/one")
    setenv(JPY_SESSION_NAME=str(tmp_path / "root" / "my data" / "two.ipynb"))
    assert kernel_name() == "two"
    server_file(url="http://h:1", root_dir=str(tmp_path / "root"))
    assert (notebook_path(), kernel_name()) == ("my data/two.ipynb", "my data/two")
    setenv(JPY_SESSION_NAME=str(tmp_path / "elsewhere.ipynb"))
    assert kernel_name() == "elsewhere"
