"""Terminal, its runs and their results, against a host without a shell; real shells are in test_embedded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_ext.client.terminal import terminal_uri, terminals
from jupyter_ext.protocol.messages import ErrorCode, ProtocolError
from jupyter_ext.protocol.terminal import (
    TerminalClaimedAction,
    TerminalClientClaim,
    TerminalResizedAction,
)

URI = "ahp-terminal:/t"
STRANGER = TerminalClientClaim(client_id="stranger")


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("build", "ahp-terminal:/build"),
        ("my data/été", "ahp-terminal:/my%20data%2F%C3%A9t%C3%A9"),
        ("a?b#c%", "ahp-terminal:/a%3Fb%23c%25"),
        ("it's (1)!*", "ahp-terminal:/it's%20(1)!*"),
        ("agenthost-terminal://shell/1", "agenthost-terminal://shell/1"),
    ],
)
def test_a_name_is_its_uris_path_as_javascript_encodes_it(name, uri, terminal):
    assert terminal_uri(name) == uri
    assert terminal(name).name == name


def test_a_terminal_is_made_once_and_then_attached_to(host, terminal):
    first, second = terminal("t"), terminal("t")
    assert (first.is_new, second.is_new) == (True, False)
    assert [call.method for call in host.calls] == ["createTerminal"]
    assert "Terminal 't' on the fake host" in repr(first)


def test_of_two_that_make_it_at_once_the_slower_attaches(host, terminal, client):
    def create(call: Any) -> None:
        host.create(call.channel, STRANGER)
        call.fail(ProtocolError(ErrorCode.ALREADY_EXISTS, "the terminal exists"))

    perform = host.perform
    host.perform = lambda call: create(call) if call.method == "createTerminal" else perform(call)
    assert not terminal("t").is_new


def test_what_a_new_terminal_is_given_goes_to_the_host(host, terminal, tmp_path, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "lessons/one.ipynb")
    terminal("t", shell="fish", cwd=tmp_path, env={"A": "1", "B": None}, cols=132, rows=40)
    params = host.calls[0].params
    options = params.meta.x_terminal
    assert (params.cwd, params.cols, params.rows, params.name) == (tmp_path.as_uri(), 132, 40, "t")
    assert (options.shell, options.origin) == ("fish", "lessons/one.ipynb")
    assert options.env["A"] == "1"
    assert options.env["B"] is None


def test_the_interpreters_own_folder_is_first_in_path_in_an_environment_and_only_there(host, terminal, monkeypatch):
    monkeypatch.setattr("sys.executable", "/venv/bin/python")
    monkeypatch.setenv("PATH", "/usr/bin:/venv/bin:/bin")
    monkeypatch.setattr("sys.prefix", "/venv")
    terminal("a")
    monkeypatch.setattr("sys.prefix", "/usr")
    monkeypatch.setattr("sys.base_prefix", "/usr")
    terminal("b")
    terminal("c", env={"PATH": "/mine"})
    envs = [call.params.meta.x_terminal.env or {} for call in host.calls]
    assert [env.get("PATH") for env in envs] == ["/venv/bin:/usr/bin:/bin", None, "/mine"]


def test_a_kernels_pager_is_passed_on(host, terminal, monkeypatch):
    monkeypatch.setenv("PAGER", "cat")
    terminal("t")
    assert host.calls[0].params.meta.x_terminal.env["PAGER"] == "cat"


def test_a_host_elsewhere_is_told_of_no_folder_of_this_machine(host, terminal):
    host.is_local = False
    terminal("t")
    params = host.calls[0].params
    assert params.cwd is None
    assert params.meta.x_terminal.env is None


def test_where_the_folder_is_gone_it_starts_at_home_and_says_so(host, terminal, monkeypatch):
    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr("os.getcwd", gone)
    with pytest.warns(UserWarning, match="folder is gone"):
        terminal("t")
    assert host.calls[0].params.cwd == Path.home().as_uri()


def test_an_unknown_shell_is_a_value_error_that_names_those_there_are(terminal):
    with pytest.raises(ValueError, match="no shell nosuch: there are bash, fish"):
        terminal("t", shell="nosuch")


def test_another_shell_than_the_one_that_runs_is_a_value_error(terminal):
    terminal("t")
    with pytest.raises(ValueError, match="runs bash already"):
        terminal("t", shell="zsh")
    assert not terminal("t", shell="bash").is_new


# --- the holder -----------------------------------------------------------------------------------------------------------


def test_a_run_takes_the_terminal_back_from_a_person(host, terminal, client):
    t = terminal("t")
    host.on(client, host.publish, URI, TerminalClaimedAction(claim=STRANGER))
    assert t.run("one").exit_code == 0
    assert t.state.claim == TerminalClientClaim(client_id=client.client_id)


def test_a_run_in_a_terminal_that_is_held_says_by_whom(host, terminal, client, monkeypatch):
    t = terminal("t")
    host.on(client, host.publish, URI, TerminalClaimedAction(claim=STRANGER))
    monkeypatch.setattr(host.state, "claim_refusal", lambda *_: "held by Ada, and a command runs")
    for act in (lambda: t.run("x"), lambda: t.send("x"), t.claim):
        with pytest.raises(PermissionError, match="terminal 't' is held by Ada, and a command runs"):
            act()


def test_input_size_and_clearing_go_to_the_host(host, terminal):
    t = terminal("t")
    t.send("y")
    t.sendline("yes")
    t.sendcontrol("c")
    t.sendcontrol("[")
    t.sendcontrol("?")
    t.resize(cols=90, rows=20)
    t.clear()
    assert host.typed == ["y", "yes\r", "\x03", "\x1b", "\x7f"]
    assert (t.state.cols, t.state.rows, t.state.content) == (90, 20, ())
    assert isinstance(host.calls[-2].params, TerminalResizedAction)
    with pytest.raises(ValueError, match="no control key"):
        t.sendcontrol("é")
    with pytest.raises(ValueError, match="size outside"):
        t.resize(cols=0, rows=20)


def test_commands_are_what_the_host_keeps_of_them(terminal):
    t = terminal("t")
    t.run("one")
    t.run("two")
    assert [(c.command_line, c.output, c.exit_code) for c in t.commands] == [("one", "one\n", 0), ("two", "two\n", 0)]
    assert t.title == "t"


def test_a_detached_object_does_nothing_more_and_the_terminal_lives_on(terminal):
    t = terminal("t")
    t.detach()
    with pytest.raises(RuntimeError, match="was detached"):
        t.run("x")
    assert terminal("t").run("x").exit_code == 0


def test_close_ends_it_for_good_and_its_name_is_free(terminal):
    t = terminal("t")
    assert t.close() == ()
    assert t.close() == ()
    with pytest.raises(RuntimeError, match="detached"):
        t.run("x")
    assert terminal("t").is_new


def test_with_closes_what_it_made_and_leaves_what_was_there(terminal, host):
    with terminal("t"):
        with terminal("t"):
            pass
        assert URI in host.state.terminals
    assert URI not in host.state.terminals


def test_the_list_of_terminals_names_them(terminal, host):
    terminal("my build")
    (entry,) = terminals()
    assert (entry.name, entry.title, entry.uri, entry.shell) == ("my build", "t", "ahp-terminal:/my%20build", "bash")
    assert (entry.has_ended, entry.exit_code, entry.running, entry.holder) == (False, None, None, None)
