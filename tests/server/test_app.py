"""AgentHostApp: wiring, what kernels are told, and the end of the server."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from jupyter_ext.server.app import AgentHostApp, KernelTokens


def test_a_token_is_good_for_its_kernel_and_its_start_only():
    tokens = KernelTokens()
    first = tokens.issue("k1")
    assert tokens.check("k1", first)
    assert not tokens.check("k2", first)
    second = tokens.issue("k1")
    assert not tokens.check("k1", first)
    assert tokens.check("k1", second)
    assert not KernelTokens().check("k1", second)


async def test_the_extension_is_an_app_with_a_host(agent_host_app):
    assert isinstance(agent_host_app, AgentHostApp)
    assert agent_host_app.name == "jupyter_ahp"
    assert agent_host_app.host.start_folder == agent_host_app.serverapp.root_dir


@pytest.mark.parametrize(
    "jp_server_config",
    [{"TerminalHost": {"retained_chars": 12_345, "environment": {"A": "b"}}}],
    indirect=True,
)
async def test_traits_are_set_by_the_classes_that_use_them(agent_host_app):
    assert agent_host_app.host.retained_chars == 12_345
    assert agent_host_app.host.state.retained_chars == 12_345
    assert agent_host_app.host.environment == {"A": "b"}


async def test_a_kernel_is_told_the_way_and_given_its_own_token(agent_host_app, jp_fetch):
    seen: list[dict[str, str]] = []
    manager = agent_host_app.serverapp.kernel_manager
    start = manager.kernel_manager_factory

    def spy(*args, **kwargs):
        km = start(*args, **kwargs)
        original = km.start_kernel

        async def start_kernel(**kw):
            seen.append(kw["env"])
            return await original(**kw)

        km.start_kernel = start_kernel
        return km

    manager.kernel_manager_factory = spy
    answer = await jp_fetch("api", "kernels", method="POST", body=json.dumps({"name": "python3"}))
    kernel_id = json.loads(answer.body)["id"]
    (env,) = seen
    assert env["JUPYTER_AHP_KERNEL_ID"] == kernel_id
    assert env["JUPYTER_AHP_KERNEL_URL"] == f"http://127.0.0.1:{agent_host_app.serverapp.port}{agent_host_app.serverapp.base_url}"
    assert agent_host_app.tokens.check(kernel_id, env["JUPYTER_AHP_KERNEL_TOKEN"])
    assert "JUPYTER_AHP_KERNEL_TOKEN" not in os.environ
    await jp_fetch("api", "kernels", kernel_id, method="DELETE")


@pytest.mark.parametrize(
    ("traits", "url"),
    [
        ({"sock": "", "ip": "0.0.0.0"}, "http://127.0.0.1:{port}{base}"),
        ({"sock": "", "ip": "::1"}, "http://[::1]:{port}{base}"),
        ({"sock": "", "ip": "10.0.0.7"}, "http://10.0.0.7:{port}{base}"),
        ({"sock": "/run/a.sock"}, "http+unix://%2Frun%2Fa.sock{base}"),
        ({"sock": "", "ip": "localhost", "certfile": "x.pem"}, "https://127.0.0.1:{port}{base}"),
    ],
)
async def test_the_way_follows_how_the_server_listens(agent_host_app, traits, url):
    server = agent_host_app.serverapp
    with server.hold_trait_notifications():
        for name, value in traits.items():
            server._trait_values[name] = value
    assert agent_host_app._kernel_url() == url.format(port=server.port, base=server.base_url)


async def test_the_environment_can_say_to_host_nothing(monkeypatch, jp_configurable_serverapp, jp_fetch):
    monkeypatch.setenv("JUPYTER_AHP_DISABLE", "1")
    server = jp_configurable_serverapp()
    (app,) = server.extension_manager.extension_apps["jupyter_ext"]
    assert app.host is None
    await app.stop_extension()


async def test_a_server_that_stops_ends_its_terminals(agent_host_app):
    host = agent_host_app.host
    connection = host.connect(user=None, role="person", title="t", wakeup=lambda: None)
    claim = {"kind": "client", "clientId": "c1"}
    for number, (method, params) in enumerate(
        [
            ("initialize", {"protocolVersions": ["1.0.0"], "clientId": "c1"}),
            ("createTerminal", {"channel": "ahp-terminal:/t1", "claim": claim}),
        ]
    ):
        host.receive(connection, json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
    pid = host.terminals["ahp-terminal:/t1"].transport.pid
    os.kill(pid, 0)
    await asyncio.wait_for(agent_host_app.stop_extension(), 10)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert host.terminals == {}
