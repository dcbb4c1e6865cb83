"""TerminalHost with real shells, over the protocol's two ends in one loop."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from jupyter_ext.core.connection import Answer, Changed, ClientConnection, HostConnection
from jupyter_ext.host.terminals import TerminalHost
from jupyter_ext.protocol.messages import Implementation, ProtocolError
from jupyter_ext.protocol.terminal import (
    ROOT_URI,
    CreateTerminalParams,
    DisposeTerminalParams,
    RunEndedAction,
    RunParams,
    SignalParams,
    StateAction,
    TerminalClaimedAction,
    TerminalClearedAction,
    TerminalClientClaim,
    TerminalCommandPart,
    TerminalCreationMeta,
    TerminalCreationOptions,
    TerminalExitedAction,
    TerminalInputAction,
    TerminalResizedAction,
    TerminalState,
    TerminalTitleChangedAction,
)

pytestmark = pytest.mark.asyncio
URI = f"ahp-terminal:/t-{os.getpid()}"  # of this run alone: what has left a terminal's session is found by it
DEADLINE_S = 20.0


class Client:
    """A client of a host in the same loop."""

    def __init__(self, host: TerminalHost, client_id: str = "c1", role: str = "person") -> None:
        self.host = host
        self.actions: list[StateAction] = []
        self.conversation = ClientConnection(client_id=client_id, client_info=Implementation(name=client_id))
        self._answers: dict[Any, asyncio.Future[Any]] = {}
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.link: HostConnection = host.connect(user=None, role=role, title=client_id, wakeup=self._wakeup)
        self.conversation.initialize([ROOT_URI])
        self._send()
        self._receive()

    def _wakeup(self) -> None:
        self._loop.call_soon(self._receive)

    def _send(self) -> None:
        for frame in self.conversation.data_to_send():
            self.host.receive(self.link, frame)

    def _receive(self) -> None:
        for frame in self.link.data_to_send(1 << 30):
            for event in self.conversation.receive(frame):
                if isinstance(event, Answer) and event.id in self._answers:
                    future = self._answers.pop(event.id)
                    if not future.done():
                        future.set_exception(event.error) if event.error else future.set_result(event.result)
                elif isinstance(event, Changed) and event.envelope is not None and event.uri != ROOT_URI:
                    self.actions.append(event.envelope.action)
        self._changed.set()

    def request(self, method: str, params: Any) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self._answers[self.conversation.request(method, params)] = future
        self._send()
        return future

    async def ask(self, method: str, params: Any) -> Any:
        return await asyncio.wait_for(self.request(method, params), DEADLINE_S)

    async def create(self, uri: str = URI, *, subscribe: bool = True, **kwargs: Any) -> None:
        options = {k: kwargs.pop(k) for k in ("shell", "login", "env", "origin") if k in kwargs}
        meta = TerminalCreationMeta(x_terminal=TerminalCreationOptions(**options)) if options else None
        claim = TerminalClientClaim(client_id=self.conversation.client_id)
        await self.ask("createTerminal", CreateTerminalParams(channel=uri, claim=claim, meta=meta, **kwargs))
        if subscribe:
            await self.ask("subscribe", DisposeTerminalParams(channel=uri))

    def dispatch(self, action: StateAction, uri: str = URI) -> None:
        self.conversation.dispatch(uri, action)
        self._send()

    def type(self, text: str, uri: str = URI) -> None:
        self.dispatch(TerminalInputAction(data=text), uri)

    def state(self, uri: str = URI) -> TerminalState:
        state = self.conversation.state(uri)
        assert isinstance(state, TerminalState)
        return state

    def text(self, uri: str = URI) -> str:
        return "".join(getattr(p, "output", "") or getattr(p, "value", "") for p in self.state(uri).content)

    async def until(self, condition: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
        """Wait until a condition of what has been received holds."""
        end = self._loop.time() + deadline_s
        while not (value := condition()):
            self._changed.clear()
            left = end - self._loop.time()
            assert left > 0, f"not within {deadline_s} s; the terminal shows {self.text()[-2000:]!r}"
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except asyncio.TimeoutError:
                continue
        return value

    async def run(self, text: str, run_id: str = "r", uri: str = URI, **more: Any) -> tuple[list[TerminalCommandPart], str]:
        """Run a text; its parts and the reason of its end."""
        await self.ask("x-terminal/run", RunParams(channel=uri, text=text, run_id=run_id, **more))
        end = await self.until(lambda: self.ended(run_id))
        return [p for p in self.commands(uri) if p.command_id in end.command_ids], end.reason

    def ended(self, run_id: str) -> RunEndedAction | None:
        return next((a for a in self.actions if isinstance(a, RunEndedAction) and a.run_id == run_id), None)

    def commands(self, uri: str = URI) -> list[TerminalCommandPart]:
        return [p for p in self.state(uri).content if isinstance(p, TerminalCommandPart)]

    async def ready(self) -> None:
        """Wait for the first prompt."""
        await self.until(lambda: self.state().supports_command_detection)


@pytest_asyncio.fixture
async def host(private_env):
    host = TerminalHost(grace_s=1.0)
    yield host
    await host.shutdown()


@pytest_asyncio.fixture
async def client(host):
    return Client(host)


async def refused(awaitable) -> tuple[int, str]:
    with pytest.raises(ProtocolError) as error:
        await awaitable
    return error.value.code, error.value.message


# --- creation -------------------------------------------------------------------------------------------------------------


async def test_a_terminal_starts_with_what_was_asked_for(client, tmp_path):
    folder = tmp_path / "my data été"
    folder.mkdir()
    await client.create(cols=132, rows=40, cwd=folder.as_uri(), name="build", env={"MINE": "yes"}, origin="a.ipynb")
    assert (client.state().title, client.state().cols, client.state().rows) == ("build", 132, 40)
    assert client.state().cwd == folder.as_uri()
    parts, reason = await client.run('stty size; pwd; echo "$MINE $TERM $JUPYTER_AHP_TERMINAL"')
    assert reason == "done"
    assert parts[0].output == f"40 132\r\n{folder}\r\nyes xterm-256color {URI}\r\n"
    details = await client.until(lambda: (d := client.state().meta.x_terminal).tracking == "yes" and d)
    assert (details.shell, details.origin) == ("bash", "a.ipynb")
    assert details.holder.title == "c1"
    assert details.pid > 0


async def test_the_servers_own_keys_are_not_in_the_environment(client, monkeypatch):
    for name in ("JUPYTER_TOKEN", "JPY_API_TOKEN", "JUPYTERHUB_API_TOKEN", "JUPYTER_AHP_TOKEN", "JUPYTER_AHP_KERNEL_TOKEN"):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("USERS_OWN", "kept")
    await client.create()
    parts, _ = await client.run("env")
    assert "s3cret" not in parts[0].output
    assert "USERS_OWN=kept" in parts[0].output
    assert "PATH=" in parts[0].output


async def test_what_finds_a_terminals_processes_is_not_a_clients_to_choose(client):
    await client.create(env={"JUPYTER_AHP_TERMINAL": "ahp-terminal:/other", "HOME": None})
    parts, _ = await client.run('echo "$JUPYTER_AHP_TERMINAL ${HOME-gone}"')
    assert parts[0].output.startswith(f"{URI} ")


async def test_the_private_folder_is_gone_once_the_shell_has_read_it(client, private_env, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    await client.create()
    await client.ready()
    assert list(tmp_path.glob("jupyter-ahp-*")) == []
    await client.create("ahp-terminal:/closed-at-once", subscribe=False)
    await client.ask("disposeTerminal", DisposeTerminalParams(channel="ahp-terminal:/closed-at-once"))
    assert list(tmp_path.glob("jupyter-ahp-*")) == []


async def test_a_shell_whose_files_cannot_be_written_starts_as_a_plain_one(client, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.mkdtemp", lambda **kwargs: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    await client.create()
    assert "could not be written" in client.state().meta.x_terminal.tracking
    _, reason = await client.run("echo pl''ain")
    assert reason == "untracked"
    await client.until(lambda: "plain\r\n" in client.text())


async def test_a_uri_is_taken_once(client):
    await client.create()
    assert await refused(client.create()) == (-32010, "the terminal exists")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"cwd": "file:///no/such/folder"}, "cwd is no folder on this machine"),
        ({"cwd": "file:///etc/passwd"}, "cwd is no folder on this machine"),
        ({"cwd": "relative"}, "cwd is no local file: URI"),
        ({"cwd": "file://[x/"}, "cwd is no local file: URI"),
        ({"cwd": "file://example.org/tmp"}, "cwd is no local file: URI"),
        ({"cwd": "file:///tmp%00"}, "cwd is no local file: URI"),
        ({"cols": 0}, "size outside 1 to 1000"),
        ({"cols": 1001}, "size outside 1 to 1000"),
        ({"rows": -1}, "size outside 1 to 1000"),
        ({"env": {"A=B": "c"}}, "env holds what cannot be a variable"),
        ({"env": {"": "c"}}, "env holds what cannot be a variable"),
        ({"env": {"A": "c\0"}}, "env holds what cannot be a variable"),
    ],
)
async def test_bad_creation_is_refused_with_a_reason(client, bad, message):
    assert await refused(client.create(**bad)) == (-32602, message)
    assert client.host.terminals == {}


async def test_an_unknown_shell_is_named_with_those_there_are(client):
    code, message = await refused(client.create(shell="nosuch"))
    assert code == -32602
    assert "nosuch" in message
    assert "bash" in message


async def test_a_claim_for_somebody_else_is_refused(client):
    claim = TerminalClientClaim(client_id="other")
    code, _ = await refused(client.ask("createTerminal", CreateTerminalParams(channel=URI, claim=claim)))
    assert code == -32602


async def test_terminals_are_counted_and_may_be_turned_off(client):
    client.host.max_terminals = 1
    await client.create()
    assert (await refused(client.create("ahp-terminal:/u")))[0] == -32009
    client.host.enabled = False
    assert await refused(client.create("ahp-terminal:/v")) == (-32009, "terminals are turned off by the administrator")


async def test_a_folder_that_has_gone_is_not_where_a_terminal_starts(client, tmp_path):
    client.host.start_folder = str(tmp_path / "gone")
    assert client.host.default_folder() == "/"
    client.host.start_folder = str(tmp_path)
    await client.create()
    assert client.state().cwd == tmp_path.as_uri()


# --- commands -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "outputs", "codes"),
    [
        ("true", [""], [0]),
        ("(exit 42)", [""], [42]),
        ("printf x", ["x"], [0]),
        ("echo a; echo b && false", ["a\r\nb\r\n"], [1]),
        ("sh -c 'kill -9 $$'", [None], [137]),
        ("echo p1\necho p2", ["p1\r\n", "p2\r\n"], [0, 0]),
        ("cat <<E\n$(echo x)'\"\nE", ["x'\"\r\n"], [0]),
        ("for i in 1 2\ndo\n echo $i\ndone", ["1\r\n2\r\n"], [0]),
        ("f() {\n\techo tab\n}\nf", ["", "tab\r\n"], [0, 0]),
        ("echo a \\\nb", ["a b\r\n"], [0]),
        ("echo crlf\r\necho two\r\n", ["crlf\r\n", "two\r\n"], [0, 0]),
        ("# only a comment", [], []),
        ("", [], []),
        ("echo é中😀", ["é中😀\r\n"], [0]),
        ("echo \x1b[201~; echo evil", None, None),
        ("echo one\n\n\ncat <<E\n\nin\nE\n\necho two", ["one\r\n", "\r\nin\r\n", "two\r\n"], [0, 0, 0]),
    ],
)
async def test_a_run_has_the_parts_that_were_written(client, text, outputs, codes):
    await client.create()
    parts, reason = await client.run(text)
    assert reason == "done"
    if codes is not None:
        assert [p.exit_code for p in parts] == codes
        assert [p.output for p, o in zip(parts, outputs, strict=True) if o is not None] == [o for o in outputs if o is not None]
    assert all(p.is_complete and p.duration_ms >= 0 and p.meta.x_terminal.run_id == "r" for p in parts)
    assert all(p.meta.x_terminal.by.client_id == "c1" for p in parts)


async def test_state_stays_from_run_to_run(client, tmp_path):
    await client.create()
    for number, text in enumerate((f"cd {tmp_path}", "export A=1", "f() { echo f-$A; }", "alias g=f")):
        await client.run(text, str(number))
    parts, _ = await client.run("g; pwd")
    assert parts[0].output == f"f-1\r\n{tmp_path}\r\n"
    assert client.state().cwd == tmp_path.as_uri()


async def test_runs_wait_for_each_other_and_for_what_was_typed(client):
    await client.create()
    await client.ready()
    client.type("sleep 0.5; echo typed\r")
    await client.until(client.commands)
    runs = [client.run(f"echo {n}", f"r{n}") for n in range(5)]
    results = await asyncio.gather(*runs)
    assert [p.output for parts, _ in results for p in parts] == [f"{n}\r\n" for n in range(5)]
    assert client.commands()[0].command_line == "sleep 0.5; echo typed"
    assert client.commands()[0].meta is None


async def test_a_run_right_after_creation_waits_for_slow_start_up_files(client, private_env):
    Path(private_env["HOME"], ".bashrc").write_text("echo starting; sleep 1; read -t 0.1 x; echo started\n")
    await client.create()
    parts, reason = await client.run("echo first")
    assert reason == "done"
    assert [(p.command_line, p.output) for p in parts] == [("echo first", "first\r\n")]
    assert "started" in client.text()
    assert len(client.commands()) == 1


async def test_a_line_that_somebody_types_is_neither_run_nor_erased(client, monkeypatch):
    monkeypatch.setattr("jupyter_ext.host.terminals.TYPING_PATIENCE_S", 0.3)
    await client.create()
    await client.ready()
    client.type("echo unfinish")
    await client.until(lambda: "unfinish" in client.text())
    assert await refused(client.run("echo no")) == (-32011, "a line is being typed in this terminal")
    client.type("ed\r")
    await client.until(lambda: client.commands() and client.commands()[-1].is_complete)
    assert client.commands()[-1].output == "unfinished\r\n"
    parts, _ = await client.run("echo yes", "r2")
    assert parts[0].output == "yes\r\n"


async def test_a_typed_line_can_be_discarded_on_request(client):
    await client.create()
    await client.ready()
    client.type("echo unfinished")
    await client.until(lambda: "unfinished" in client.text())
    parts, reason = await client.run("echo yes", discard_typed=True)
    assert (reason, [p.output for p in parts]) == ("done", ["yes\r\n"])
    await client.until(lambda: client.state().meta.x_terminal.discarded_typed)


async def test_a_shell_whose_editor_does_not_say_that_it_runs_is_sent_to_all_the_same(client, private_env, monkeypatch):
    monkeypatch.setattr("jupyter_ext.host.terminals.EDITOR_PATIENCE_S", 0.3)
    Path(private_env["HOME"], ".inputrc").write_text("set enable-bracketed-paste off\n")
    await client.create()
    for number in range(3):
        parts, reason = await client.run(f"echo {number}\n\techo 'a\tb'", f"r{number}")
        assert (reason, [p.output for p in parts]) == ("done", [f"{number}\r\n", "a\tb\r\n"])


async def test_an_incomplete_text_is_a_continuation(client):
    await client.create()
    parts, reason = await client.run("for i in 1 2; do")
    assert (reason, parts) == ("continuation", [])
    client.type("\x03")
    parts, reason = await client.run("echo on", "r2")
    assert (reason, parts[0].output) == ("done", "on\r\n")


async def test_a_shell_that_ignores_ctrl_c_is_sent_to_all_the_same(client):
    await client.create()
    await client.run("trap '' INT")
    client.type("\x03")
    parts, reason = await client.run("echo on", "r2")
    assert (reason, parts[0].output) == ("done", "on\r\n")


async def test_an_incomplete_end_after_a_complete_line_is_a_continuation_too(client):
    await client.create()
    parts, reason = await client.run('echo one\necho "two')
    assert (reason, [(p.output, p.exit_code) for p in parts]) == ("continuation", [("one\r\n", 0)])
    client.type("\x03")
    for number in range(20):
        _, reason = await client.run("x=(1", f"i{number}")
        assert reason == "continuation"
        client.type("\x03")
        parts, reason = await client.run(f"echo on {number}", f"r{number}")
        assert (reason, parts[0].output) == ("done", f"on {number}\r\n")


async def test_stopping_a_run_leaves_nothing_of_it_to_be_run(client, tmp_path):
    await client.create()
    running = asyncio.ensure_future(client.run(f"sleep 60\ntouch {tmp_path}/left\necho more"))
    await client.until(client.commands)
    await client.ask("x-terminal/signal", SignalParams(channel=URI, signal="interrupt"))
    parts, reason = await running
    assert (reason, [p.exit_code for p in parts]) == ("done", [130])
    parts, _ = await client.run("echo next", "r2")
    assert parts[0].output == "next\r\n"
    assert list(tmp_path.glob("left")) == []


async def test_what_is_left_of_a_run_is_not_typed_for_somebody_who_has_taken_the_terminal(client, host):
    other = Client(host, "c2")
    await client.create()
    await other.ask("subscribe", DisposeTerminalParams(channel=URI))
    running = asyncio.ensure_future(client.run("sleep 0.4\necho left"))
    await client.until(client.commands)
    client.dispatch(TerminalClaimedAction(claim=TerminalClientClaim(client_id="c2")))
    _, reason = await running
    assert reason == "lost"
    parts, _ = await other.run("echo mine", "r2")
    assert parts[0].output == "mine\r\n"
    assert "left" not in other.text()


async def test_a_command_is_stopped_also_right_after_its_start(client):
    await client.create()
    for number in range(5):
        running = asyncio.ensure_future(client.run("sleep 60", f"r{number}"))
        await client.until(lambda number=number: len(client.commands()) > number)
        await client.ask("x-terminal/signal", SignalParams(channel=URI, signal="interrupt"))
        parts, _ = await asyncio.wait_for(running, 5)
        assert parts[0].exit_code == 130


@pytest.mark.parametrize("control", ["\0", "\x03", "\x13", "\x1a", "\x1c", "\x7f"])
async def test_a_text_that_a_terminal_would_act_on_is_refused(client, control):
    await client.create()
    code, message = await refused(client.run(f"echo a{control}b"))
    assert (code, message) == (-32602, "the text holds control characters, which a terminal acts on")


async def test_a_failure_of_our_own_is_answered_without_its_details(client, monkeypatch):
    monkeypatch.setattr("jupyter_ext.host.terminals.launch_spec", lambda *args, **kwargs: 1 / 0)
    assert await refused(client.create()) == (-32603, "internal error")
    monkeypatch.undo()


async def test_a_rejected_text_has_a_part_with_its_code(client):
    await client.create()
    parts, reason = await client.run("echo )")
    assert reason == "done"
    assert [(p.command_line, p.exit_code) for p in parts] == [("echo )", 2)]


async def test_exit_ends_the_run_and_then_the_terminal(client):
    await client.create()
    parts, reason = await client.run("exit 7")
    assert reason == "exited"
    assert [(p.command_line, p.exit_code, p.is_complete) for p in parts] == [("exit 7", None, True)]
    await client.until(lambda: client.state().lifecycle.status == "exited")
    assert client.state().lifecycle.exit_code == 7
    assert isinstance(client.actions[-1], TerminalExitedAction)
    assert (await refused(client.run("echo x", "r2")))[0] == -32011
    assert client.state().meta.x_terminal.pid == 0


async def test_runs_that_wait_when_the_shell_ends_are_answered(client):
    await client.create()
    first = client.run("sleep 0.3; exit", "r1")
    second = refused(client.run("echo never", "r2"))
    (_, reason), (code, _) = await asyncio.gather(first, second)
    assert (reason, code) == ("exited", -32011)


async def test_a_shell_without_tracking_says_so_and_runs_all_the_same(client):
    await client.create(shell="sh")
    assert client.state().meta.x_terminal.tracking not in ("yes", "pending")
    _, reason = await client.run("echo un''tracked")
    assert reason == "untracked"
    await client.until(lambda: "untracked\r\n" in client.text())
    assert client.commands() == []
    assert client.state().supports_command_detection is None


async def test_what_does_not_fit_into_the_input_queue_is_refused_whole(client):
    await client.create()
    await client.ready()
    client.type("stty raw -echo; sleep 60\r")
    await client.until(client.commands)
    for _ in range(4):
        client.type("z" * 300_000)
    rejected = await client.until(lambda: [a for a in client.actions if isinstance(a, TerminalInputAction)][3:])
    assert len(rejected) >= 1


async def test_a_run_needs_the_claim_also_when_its_turn_comes(client, host):
    other = Client(host, "c2")
    await client.create()
    await client.ready()
    client.type("sleep 0.5\r")
    await client.until(client.commands)
    waiting = client.request("x-terminal/run", RunParams(channel=URI, text="echo x", run_id="r"))
    client.dispatch(TerminalClaimedAction(claim=TerminalClientClaim(client_id="c2")))
    assert (await refused(asyncio.wait_for(waiting, DEADLINE_S)))[0] == -32009
    await other.ask("subscribe", DisposeTerminalParams(channel=URI))
    parts, _ = await other.run("echo mine")
    assert parts[0].output == "mine\r\n"


async def test_what_a_gone_client_had_asked_for_is_not_run(client, host):
    other = Client(host, "c2")
    await client.create()
    await client.ready()
    await other.ask("subscribe", DisposeTerminalParams(channel=URI))
    client.type("sleep 0.5\r")
    await client.until(client.commands)
    client.request("x-terminal/run", RunParams(channel=URI, text="echo late", run_id="r"))
    host.disconnect(client.link)
    await other.until(lambda: other.commands()[-1].is_complete)
    other.dispatch(TerminalClaimedAction(claim=TerminalClientClaim(client_id="c2")))
    parts, _ = await other.run("echo mine")
    assert parts[0].output == "mine\r\n"
    assert "late" not in other.text()


# --- actions --------------------------------------------------------------------------------------------------------------


async def test_a_new_size_reaches_the_program(client):
    await client.create()
    await client.ready()
    client.dispatch(TerminalResizedAction(cols=111, rows=22))
    parts, _ = await client.run("stty size")
    assert parts[0].output == "22 111\r\n"


async def test_a_program_sets_the_title_until_a_person_does(client):
    await client.create()
    await client.ready()
    await client.run(r"printf '\033]0;by program\007'", "r1")
    await client.until(lambda: client.state().title == "by program")
    client.dispatch(TerminalTitleChangedAction(title="mine\x07"))
    await client.until(lambda: client.state().title == "mine")
    await client.run(r"printf '\033]0;again\007'", "r2")
    assert client.state().title == "mine"
    root = client.conversation.state(ROOT_URI)
    assert [info.title for info in root.terminals] == ["mine"]
    await client.until(lambda: client.state().meta.x_terminal.named)


async def test_a_clear_while_a_command_runs_loses_only_text(client):
    await client.create()
    await client.ready()
    running = asyncio.ensure_future(client.run("echo before; read x; echo after; (exit 2)"))
    await client.until(lambda: client.commands() and "before" in client.commands()[0].output)
    client.dispatch(TerminalClearedAction())
    client.type("\r")
    _, reason = await running
    assert reason == "done"
    assert client.commands() == []
    assert "after" in client.text()
    await client.until(lambda: (last := client.state().meta.x_terminal.last) and last.exit_code == 2)


async def test_details_tell_what_runs_and_what_ran_last(client):
    await client.create()
    await client.ready()
    client.type("sleep 0.4; false\r")
    running = await client.until(lambda: client.state().meta.x_terminal.running)
    assert running.command_line == "sleep 0.4; false"
    last = await client.until(lambda: client.state().meta.x_terminal.last)
    assert last.exit_code == 1
    assert last.duration_ms >= 300
    await client.until(lambda: client.state().meta.x_terminal.running is None)
    (info,) = client.conversation.state(ROOT_URI).terminals
    assert info.meta.x_terminal == client.state().meta.x_terminal


async def test_output_that_floods_keeps_every_byte_in_order_for_a_reader_that_keeps_up(client):
    await client.create()
    parts, _ = await client.run("seq 1 20000 | md5sum; seq 1 20000")
    numbers = re.findall(r"^(\d+)\r$", parts[0].output, re.MULTILINE)
    assert numbers == [str(n) for n in range(20001 - len(numbers), 20001)]
    assert len(numbers) > 10_000


# --- signals and ends -----------------------------------------------------------------------------------------------------


def is_alive(start: str) -> bool:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").startswith(start):
                    return True
            except OSError:
                continue
    return False


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@linux_only
@pytest.mark.parametrize(
    ("command", "signal"),
    [("sleep 4@1", "interrupt"), ("sh -c 'sleep 4@2 & sleep 4@3 & wait'", "terminate"), ("trap '' INT TERM; sleep 4@4", "kill")],
)
async def test_a_signal_ends_the_job_and_not_the_shell(client, command, signal):
    seconds = f"4{os.getpid()}"  # of this run alone
    command = command.replace("4@", seconds)
    await client.create()
    running = asyncio.ensure_future(client.run(f"X=1\n{command}"))
    await client.until(lambda: len(client.commands()) == 2)
    await client.until(lambda: is_alive(f"sleep {seconds}"))
    await client.ask("x-terminal/signal", SignalParams(channel=URI, signal=signal))
    parts, reason = await running
    assert reason == "done"
    assert parts[-1].exit_code not in (0, None)
    assert not is_alive(f"sleep {seconds}")
    parts, _ = await client.run("echo $X", "r2")
    assert parts[0].output == "1\r\n"


@linux_only
async def test_dispose_says_exited_first_and_ends_everything(client):
    hung_up, left, background = (f"sleep {n}{os.getpid()}" for n in (1, 2, 3))
    await client.create()
    await client.run(f"nohup {hung_up} >/dev/null 2>&1 & setsid {left} & {background} &")
    await client.until(lambda: is_alive(left) and is_alive(hung_up))
    result = await client.ask("x-terminal/close", DisposeTerminalParams(channel=URI))
    assert isinstance(client.actions[-1], TerminalExitedAction)
    assert not is_alive(hung_up)
    assert not is_alive(background)
    assert b'"name":"sleep"' in bytes(result)
    pid = int(re.search(rb'"pid":(\d+)', bytes(result)).group(1))
    os.kill(pid, 9)
    assert client.conversation.state(ROOT_URI).terminals == ()


async def test_dispose_is_answered_at_once(client):
    await client.create()
    pid = client.host.terminals[URI].transport.pid
    await client.ask("disposeTerminal", DisposeTerminalParams(channel=URI))
    assert client.host.terminals == {}
    await client.host.shutdown()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@linux_only
async def test_many_cycles_leave_nothing_behind(client):
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    await client.create()
    await client.ask("x-terminal/close", DisposeTerminalParams(channel=URI))
    before = descriptors()
    for number in range(20):
        client.actions.clear()
        await client.create()
        await client.run("true", f"r{number}")
        await client.ask("x-terminal/close", DisposeTerminalParams(channel=URI))
    assert descriptors() <= before + 2
    assert client.host.state.terminals == {}
