"""HostClient: calls from any thread, echoes, lost links, the end."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

import pytest

from jupyter_ext.client.client import HostClient, HostGone, HostMissing, HostRefused, LinkLost, Rejected
from jupyter_ext.protocol.messages import ProtocolError
from jupyter_ext.protocol.terminal import (
    ROOT_URI,
    RootState,
    RunParams,
    TerminalClaimedAction,
    TerminalClientClaim,
    TerminalDataAction,
    TerminalResizedAction,
    TerminalState,
    TerminalUnclassifiedPart,
)

URI = "ahp-terminal:/t"
STRANGER = TerminalClientClaim(client_id="stranger")


def make(host: Any, client: HostClient) -> None:
    host.on(client, host.create, URI, TerminalClientClaim(client_id=client.client_id))
    client.call(client.subscribe(URI))


def test_a_client_introduces_itself_and_announces_our_extension(host, client):
    record = host.state.clients[client.client_id]
    assert record.title == "a notebook"
    assert record.x_terminal


def test_a_subscription_mirrors_the_state_and_tells_of_each_change(host, client, wait_until):
    make(host, client)
    seen: list[Any] = []
    client.post(client.listen, URI, lambda state, envelope: seen.append((state, envelope.action, threading.current_thread())))
    host.on(client, host.publish, URI, TerminalDataAction(data="hi"))
    wait_until(lambda: seen)
    state, action, thread = seen[0]
    assert state.content == (TerminalUnclassifiedPart(value="hi"),)
    assert action == TerminalDataAction(data="hi")
    assert thread.name == "jupyter-ahp-client"
    assert client.state(URI) is state


def test_a_listener_that_fails_does_not_stop_the_others(host, client, wait_until, caplog):
    make(host, client)
    seen: list[Any] = []

    def fail(state: Any, envelope: Any) -> None:
        raise RuntimeError("mine")

    client.post(client.listen, URI, fail)
    client.post(client.listen, URI, lambda state, envelope: seen.append(state))
    host.on(client, host.publish, URI, TerminalDataAction(data="hi"))
    wait_until(lambda: seen)
    assert "mine" in caplog.text


def test_a_refused_request_is_an_error(client):
    with pytest.raises(ProtocolError, match="no such"):
        client.call(client.subscribe(URI))


def test_a_dispatched_action_is_answered_by_its_echo(host, client):
    make(host, client)
    envelope = client.call(client.dispatch(URI, TerminalResizedAction(cols=90, rows=30)))
    assert envelope.action == TerminalResizedAction(cols=90, rows=30)
    assert isinstance(state := client.state(URI), TerminalState)
    assert (state.cols, state.rows) == (90, 30)


def test_a_rejected_action_is_an_error_and_leaves_the_state(host, client):
    host.on(client, host.create, URI, STRANGER)
    client.call(client.subscribe(URI))
    with pytest.raises(Rejected, match="held by"):
        client.call(client.dispatch(URI, TerminalResizedAction(cols=90, rows=30)))
    assert isinstance(state := client.state(URI), TerminalState)
    assert state.cols == 80


def test_calls_from_many_threads_get_their_own_answers(client):
    answers: list[Any] = []

    def ask(number: int) -> None:
        async def answer() -> int:
            await client.subscribe(ROOT_URI)
            return number

        answers.append(client.call(answer()) == number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 20


def test_a_blocking_call_on_the_clients_own_loop_is_an_error(client):
    async def call() -> None:
        client.call(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="own loop"):
        client.call(call())


def test_ctrl_c_ends_a_blocking_call(client, interrupt_after):
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        client.call(forever())
    assert cancelled.wait(5)


def test_a_broken_link_is_mended_and_nothing_is_missed(host, client, wait_until):
    make(host, client)
    host.is_down = True
    host.on(client, host.drop_links)
    host.on(client, host.publish, URI, TerminalDataAction(data="while away"))
    host.is_down = False
    wait_until(lambda: client.state(URI).content)
    assert client.state(URI).content == (TerminalUnclassifiedPart(value="while away"),)
    host.on(client, host.publish, URI, TerminalDataAction(data=", and after"))
    wait_until(lambda: client.state(URI).content == (TerminalUnclassifiedPart(value="while away, and after"),))


def test_a_request_that_a_broken_link_swallows_is_an_error_and_the_next_waits_for_the_new_link(host, client, wait_until):
    make(host, client)
    host.scripts["lost"] = lambda call: None
    pending = client.submit(client.request("x-terminal/run", RunParams(channel=URI, text="lost", run_id="r")))
    wait_until(lambda: any(call.method == "x-terminal/run" for call in host.calls))
    host.is_down = True
    host.on(client, host.drop_links)
    with pytest.raises(LinkLost):
        pending.result(5)
    later = client.submit(client.subscribe(ROOT_URI))
    host.is_down = False
    assert isinstance(later.result(5), RootState)


def test_a_host_that_stays_away_is_given_up_and_everybody_is_told(host, client, wait_until):
    make(host, client)
    seen: list[Any] = []
    client.post(client.listen, URI, lambda state, envelope: seen.append(state))
    host.is_down = True
    host.on(client, host.drop_links)
    with pytest.raises(HostGone, match="could not reach it again within 1 s"):
        client.call(client.subscribe(ROOT_URI))
    wait_until(lambda: not client.is_usable)
    assert seen == [None]
    with pytest.raises(HostGone):
        client.call(client.subscribe(ROOT_URI))


def test_a_host_that_refuses_on_return_is_given_up_at_once(host, client, wait_until):
    host.refusal = HostRefused("not a token of this kernel")
    started = time.monotonic()
    host.on(client, host.drop_links)
    wait_until(lambda: not client.is_usable)
    assert time.monotonic() - started < 0.9
    with pytest.raises(HostRefused, match="not a token"):
        client.call(client.subscribe(ROOT_URI))


def test_a_restarted_host_knows_nothing_and_the_channels_are_told_gone(host, client, wait_until):
    make(host, client)
    seen: list[Any] = []
    client.post(client.listen, URI, lambda state, envelope: seen.append(state))
    host.is_down = True
    host.on(client, host.drop_links)
    host.state = type(host.state)()
    host.is_down = False
    wait_until(lambda: seen)
    assert seen == [None]
    assert client.state(URI) is None


@pytest.mark.parametrize("error", [HostMissing("no AHP socket"), HostRefused("no"), ConnectionRefusedError("down")])
def test_a_start_that_fails_says_why_and_leaves_no_thread(host, error):
    host.refusal = error
    client = HostClient(host)
    with pytest.raises(type(error), match=str(error)):
        client.start()
    assert not any(thread.name == "jupyter-ahp-client" for thread in threading.enumerate())


def test_closing_ends_the_host_and_those_who_wait(host):
    client = HostClient(host)
    client.start()
    waiting = client.submit(asyncio.sleep(60))
    client.close()
    assert host.is_shut_down
    assert waiting.cancelled()
    client.close()
    with pytest.raises(HostGone):
        client.call(asyncio.sleep(0))
    client.post(print)


def test_a_claim_that_is_taken_is_told(host, client, wait_until):
    make(host, client)
    host.on(client, host.publish, URI, TerminalClaimedAction(claim=STRANGER))
    wait_until(lambda: client.state(URI).claim == STRANGER)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_to_make_its_own(client):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            client.call(asyncio.sleep(0))
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"RuntimeError: made in the parent process" in os.read(reader, 200)
    os.close(reader)
    os.close(writer)
