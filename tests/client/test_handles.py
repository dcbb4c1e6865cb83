"""Runs, their handles and their results, against a host without a shell."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from jupyter_ext.client.handles import CommandError
from jupyter_ext.client.terminal import view_slow_runs
from jupyter_ext.protocol.messages import ErrorCode, ProtocolError
from jupyter_ext.protocol.terminal import (
    RunEndedAction,
    TerminalClearedAction,
    TerminalCommandExecutedAction,
    TerminalDataAction,
    TerminalExitedAction,
)

URI = "ahp-terminal:/t"


def test_a_run_gives_back_its_output_code_and_duration(terminal):
    result = terminal("t").run("one")
    assert (result.command_line, result.output, result.exit_code, result.duration) == ("one", "one\n", 0, 0.25)
    assert (result.timed_out, result.truncated, result.end) == (False, False, None)
    assert repr(result) == "CommandResult('one', exit_code=0, duration=0.25)"
    assert result.bundle.commands[0].command_line == "one"


def test_many_commands_of_one_text_are_one_result_with_the_last_ones_code(host, terminal):
    def script(call: Any) -> None:
        call.respond()
        for line, code in (("false", 1), ("echo x", 0)):
            host.publish(URI, host.executed(call, line), TerminalDataAction(data=f"{line}\r\n"), host.finished(code))
            host.publish(URI, TerminalDataAction(data="$ "))
        host.publish(URI, host.ended(call))

    host.scripts["false\necho x"] = script
    result = terminal("t").run("false\r\necho x", check=True)
    assert (result.output, result.exit_code, result.duration) == ("false\necho x\n", 0, 1.25)
    assert [command.command_line for command in result.bundle.commands] == ["false", "echo x"]


def test_comments_only_are_an_empty_success_without_the_host(host, terminal):
    result = terminal("t").run("# nothing\n\n  # more", check=True)
    assert (result.output, result.exit_code, result.duration) == ("", 0, None)
    assert result.bundle.commands[0].command_line == "# nothing\n\n  # more"
    assert not any(call.method == "x-terminal/run" for call in host.calls)


def test_a_text_that_becomes_no_command_has_no_code(host, terminal):
    def script(call: Any) -> None:
        call.respond()
        host.publish(URI, RunEndedAction(run_id=call.params.run_id, command_ids=(), reason="done"))

    host.scripts["hm"] = script
    result = terminal("t").run("hm")
    assert (result.exit_code, result.output) == (None, "")


def test_check_makes_a_failure_an_error_with_the_last_lines(host, terminal):
    def script(call: Any) -> None:
        call.respond()
        host.publish(URI, host.executed(call), TerminalDataAction(data="oh\r\n\x1b[31mno\x1b[0m\r\n"), host.finished(3))
        host.publish(URI, host.ended(call))

    host.scripts["make\nmore"] = script
    t = terminal("t")
    assert t.run("make\nmore").exit_code == 3
    with pytest.raises(CommandError) as caught:
        t.run("make\nmore", check=True)
    assert str(caught.value) == "make ...: exit code 3\noh\nno"
    assert caught.value.exit_code == 3
    assert caught.value.result.output == "oh\nno\n"
    assert caught.value._render_traceback_() == ["CommandError: make ...: exit code 3"]


def test_output_of_other_commands_is_not_mixed_in(host, terminal):
    def script(call: Any) -> None:
        call.respond()
        host.publish(
            URI,
            host.executed(call),
            TerminalDataAction(data="mine"),
            host.finished(0),
            TerminalDataAction(data="prompt"),
            TerminalCommandExecutedAction(command_id="x1", command_line="theirs", timestamp=0),
            TerminalDataAction(data="theirs"),
            host.ended(call),
        )

    host.scripts["mine"] = script
    assert terminal("t").run("mine").output == "mine"


def test_a_clear_while_it_runs_loses_nothing(host, terminal):
    def script(call: Any) -> None:
        call.respond()
        host.publish(URI, host.executed(call), TerminalDataAction(data="before\r\n"), TerminalClearedAction())
        host.publish(URI, TerminalDataAction(data="after\r\n"), host.finished(2), host.ended(call))

    host.scripts["x"] = script
    result = terminal("t").run("x")
    assert (result.output, result.exit_code) == ("before\nafter\n", 2)


def test_a_run_waits_until_the_shell_has_spoken_and_is_withdrawn_if_it_does_not(host, terminal):
    host.tracking = "pending"
    t = terminal("t")
    result = t.run("one", timeout=0.1)
    assert (result.timed_out, result.exit_code, result.output, result.end) == (True, None, "", "timeout")
    with pytest.raises(CommandError, match="time limit"):
        t.run("one", timeout=0.1, check=True)
    assert not any(call.method == "x-terminal/run" for call in host.calls)


def test_runs_of_one_terminal_take_turns_in_order(host, terminal, client):
    waiting: list[Any] = []

    def script(call: Any) -> None:
        call.respond()
        host.publish(URI, host.executed(call))
        waiting.append(call)

    host.scripts["first"] = script
    t = terminal("t")
    first, second, third = t.start("first"), t.start("second"), t.start("third")
    assert first.poll() is None
    with pytest.raises(TimeoutError, match="still running after"):
        first.wait(0.05)
    assert "runs in terminal 't'" in repr(first)
    third.kill()
    assert third.end == "killed"
    host.on(client, host.publish, URI, TerminalDataAction(data="1"), host.finished(0), host.ended(waiting[0]))
    assert first.wait(5).output == "1"
    assert second.wait(5).output == "second\n"
    assert [call.params.text for call in host.calls if call.method == "x-terminal/run"] == ["first", "second"]
    assert "ended with exit code 0" in repr(first)
    assert first.poll() is first.result


def test_a_handle_tells_what_there_is_so_far(host, terminal, wait_until):
    def script(call: Any) -> None:
        call.respond()
        host.publish(URI, host.executed(call), TerminalDataAction(data="1\r\n2\r\n3\r\n"))

    host.scripts["count"] = script
    handle = terminal("t").start("count")
    wait_until(lambda: handle.output)
    assert (handle.command_line, handle.tail(2), handle.exit_code, handle.duration) == ("count", "2\n3", None, None)
    assert (handle.timed_out, handle.truncated) == (False, False)


def hang(host: Any, until: str) -> None:
    """A command that ends only by a certain signal."""

    def script(call: Any) -> None:
        call.respond()
        host.publish(URI, host.executed(call), TerminalDataAction(data="1\r\n"))

        def on_signal(signal: str) -> None:
            if signal == until:
                host.publish(URI, host.finished(130), host.ended(call))

        host.on_signal = on_signal

    host.scripts["hang"] = script


def signals(host: Any) -> list[str]:
    return [call.params.signal for call in host.calls if call.method == "x-terminal/signal"]


def test_a_time_limit_stops_the_command_and_keeps_what_it_printed(host, terminal):
    hang(host, "interrupt")
    t = terminal("t")
    result = t.run("hang", timeout=0.1)
    assert (result.timed_out, result.output, result.end) == (True, "1\n", "timeout")
    assert result.bundle.commands[0].end == "timeout"
    assert signals(host) == ["interrupt"]
    assert t.run("next").output == "next\n"


def test_a_command_that_ignores_the_interrupt_is_stopped_by_harder_means(host, terminal, monkeypatch):
    monkeypatch.setattr("jupyter_ext.client.runs.STOP", (("interrupt", 0.05), ("terminate", 0.05), ("kill", 5.0)))
    hang(host, "kill")
    assert terminal("t").run("hang", timeout=0.05).timed_out
    assert signals(host) == ["interrupt", "terminate", "kill"]


def test_ctrl_c_stops_the_command_and_is_raised_again(host, terminal, interrupt_after):
    hang(host, "interrupt")
    t = terminal("t")
    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        t.run("hang")
    assert signals(host) == ["interrupt"]
    assert t.run("next").output == "next\n"


def test_ctrl_c_while_it_waits_for_its_turn_withdraws_it(host, terminal, interrupt_after):
    hang(host, "kill")
    t = terminal("t")
    running = t.start("hang")
    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        t.run("second")
    assert signals(host) == []
    running.kill()
    assert [call.params.text for call in host.calls if call.method == "x-terminal/run"] == ["hang"]


def test_ctrl_c_in_wait_lets_the_command_go_on(host, terminal, interrupt_after):
    hang(host, "interrupt")
    handle = terminal("t").start("hang")
    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        handle.wait()
    assert signals(host) == []
    handle.interrupt()
    assert handle.wait(5).exit_code == 130


def test_an_async_run_is_the_same_and_cancelling_it_stops_the_command(host, terminal):
    hang(host, "interrupt")
    t = terminal("t")

    async def work() -> Any:
        result = await t.run_async("one")
        task = asyncio.ensure_future(t.run_async("hang"))
        done, _ = await asyncio.wait([task], timeout=0.1)
        assert not done
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return result, await t.run_async("hang", timeout=0.05)

    result, timed_out = asyncio.run(work())
    assert result.output == "one\n"
    assert timed_out.timed_out
    assert signals(host) == ["interrupt", "interrupt"]


def end(host: Any, reason: str, *, exited: int | None = None) -> None:
    def script(call: Any) -> None:
        call.respond()
        host.publish(URI, host.executed(call), TerminalDataAction(data="x"))
        host.publish(URI, host.ended(call, reason))
        if reason == "exited":
            host.publish(URI, TerminalExitedAction(exit_code=exited))

    host.scripts["x"] = script


def test_an_incomplete_text_is_an_error_and_the_shell_is_left_at_its_prompt(host, terminal):
    end(host, "continuation")
    with pytest.raises(CommandError, match="incomplete"):
        terminal("t").run("x")
    assert host.typed == ["\x03"]


def test_a_shell_that_tells_nothing_gives_no_code_and_says_so(host, terminal):
    end(host, "untracked")
    result = terminal("t").run("x", check=True)
    assert (result.exit_code, result.end) == (None, "untracked")


def test_what_the_host_cannot_tell_is_an_error(host, terminal):
    end(host, "lost")
    with pytest.raises(CommandError, match="how this ended is not known"):
        terminal("t").run("x")


@pytest.mark.parametrize(("code", "problem"), [(3, "the shell ended with exit code 3"), (None, "the shell ended"), (0, None)])
def test_a_shell_that_ends_with_the_command_gives_its_own_code_apart(host, terminal, code, problem):
    end(host, "exited", exited=code)
    t = terminal("t")
    if problem is None:
        result = t.run("x", check=True)
    else:
        with pytest.raises(CommandError, match=problem) as caught:
            t.run("x", check=True)
        result = caught.value.result
    assert (result.exit_code, result.end, result.shell_exit_code) == (None, "exited", code)
    assert t.has_ended
    with pytest.raises(RuntimeError, match=r"has ended.*close\(\) makes room"):
        t.run("y")


def test_a_line_that_somebody_types_is_a_clear_error(host, terminal):
    refusal = ProtocolError(ErrorCode.CONFLICT, "a line is being typed in this terminal")
    host.scripts["x"] = lambda call: call.fail(refusal)
    with pytest.raises(RuntimeError, match="a line is being typed"):
        terminal("t").run("x")


def test_an_outage_while_it_runs_loses_nothing(host, terminal, client):
    calls: list[Any] = []

    def script(call: Any) -> None:
        call.respond()
        host.publish(URI, host.executed(call), TerminalDataAction(data="1\r\n"))
        calls.append(call)

    host.scripts["count"] = script
    handle = terminal("t").start("count")
    with pytest.raises(TimeoutError):
        handle.wait(0.05)
    host.on(client, host.drop_links)
    host.on(client, host.publish, URI, TerminalDataAction(data="2\r\n"), host.finished(7), host.ended(calls[0]))
    result = handle.wait(5)
    assert (result.output, result.exit_code) == ("1\n2\n", 7)


def test_after_a_long_outage_the_snapshot_says_what_became_of_it(host, terminal, client, monkeypatch):
    monkeypatch.setattr("jupyter_ext.client.runs.SETTLE_S", 0.1)
    calls: list[Any] = []

    def script(call: Any) -> None:
        call.respond()
        host.publish(URI, host.executed(call), TerminalDataAction(data="1\r\n"))
        calls.append(call)

    host.scripts["count"] = script
    handle = terminal("t").start("count")
    with pytest.raises(TimeoutError):
        handle.wait(0.05)
    host.on(client, host.drop_links)
    host.state._log._dropped_through = 1 << 30
    host.on(client, host.publish, URI, TerminalDataAction(data="2\r\n"), host.finished(7), host.ended(calls[0]))
    result = handle.wait(5)
    assert (result.output, result.exit_code, result.end) == ("1\n2\n", 7, None)


def test_a_run_whose_hand_over_was_swallowed_is_never_done_twice(host, terminal, client, monkeypatch, wait_until):
    monkeypatch.setattr("jupyter_ext.client.runs.SETTLE_S", 0.1)
    host.scripts["x"] = lambda call: None
    handle = terminal("t").start("x")
    wait_until(lambda: any(call.method == "x-terminal/run" for call in host.calls))
    host.on(client, host.drop_links)
    with pytest.raises(CommandError, match="lost"):
        handle.wait(5)
    assert len([call for call in host.calls if call.method == "x-terminal/run"]) == 1


def test_a_terminal_that_went_with_its_host_is_a_clear_error(host, terminal, client):
    host.scripts["x"] = lambda call: call.respond()
    t = terminal("t")
    handle = t.start("x")
    with pytest.raises(TimeoutError):
        handle.wait(0.05)
    host.on(client, host.drop_links)
    host.state = type(host.state)()
    with pytest.raises(CommandError, match="terminal 't' was lost"):
        handle.wait(5)
    with pytest.raises(LookupError, match="ended with its host"):
        t.run("y")


def test_two_hundred_runs_give_two_hundred_results(terminal):
    t = terminal("t")
    assert [t.run(f"echo {number}").output for number in range(200)] == [f"echo {number}\n" for number in range(200)]


def test_output_beyond_what_is_kept_has_its_start_its_end_and_the_count(host, terminal):
    lines = [f"line {number}" for number in range(100_000)]

    def script(call: Any) -> None:
        call.respond()
        host.publish(URI, host.executed(call))
        for start in range(0, len(lines), 5000):
            host.publish(URI, TerminalDataAction(data="".join(f"{line}\r\n" for line in lines[start : start + 5000])))
        host.publish(URI, host.finished(0), host.ended(call))

    host.scripts["flood"] = script
    result = terminal("t").run("flood")
    assert result.truncated
    assert len(result.output) >= 200_000
    assert result.output.startswith("line 0\nline 1\n")
    assert result.output.endswith("line 99998\nline 99999\n")
    assert "bytes left out" in result.output
    saved = result.bundle.commands[0].output
    assert len(saved.head) + len(saved.tail) + saved.omitted_lines == 100_000


def test_a_slow_run_is_shown_by_the_viewer_that_is_there(host, terminal, monkeypatch):
    monkeypatch.setattr("jupyter_ext.client.terminal.SLOW_S", 0.05)
    hang(host, "interrupt")
    seen: list[Any] = []
    view_slow_runs(lambda handle: seen.append((handle.command_line, threading.current_thread())))
    try:
        t = terminal("t")
        t.run("quick")
        t.run("hang", timeout=0.1)
    finally:
        view_slow_runs(None)
    assert seen == [("hang", threading.main_thread())]


def test_a_blocked_call_of_one_thread_does_not_hold_up_another(host, terminal):
    hang(host, "interrupt")
    t, other = terminal("t"), terminal("other")
    handle = t.start("hang")
    waiter = threading.Thread(target=handle.wait)
    waiter.start()
    started = time.monotonic()
    assert other.run("quick").output == "quick\n"
    assert time.monotonic() - started < 1
    handle.interrupt()
    waiter.join(5)
    assert not waiter.is_alive()
