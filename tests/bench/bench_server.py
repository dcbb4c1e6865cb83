"""A Jupyter server for the benchmark scripts: our terminals and, as the peer, Jupyter Server's own, in one process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websockets

ROOT = "ahp-root://"


class Server:
    """A running server; `rss_mb` is its resident memory."""

    def __init__(self, folder: Path) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "JPY_"))}
        for name in ("home", "config", "runtime", "root"):
            (folder / name).mkdir()
        env |= {
            "SHELL": "/bin/bash",
            "HOME": str(folder / "home"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        }
        self.log = folder / "server.log"
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"),
                *("--ServerApp.port=0", "--IdentityProvider.token=tok", f"--ServerApp.root_dir={folder / 'root'}"),
                "--ServerApp.jpserver_extensions={'jupyter_ext': True, 'jupyter_server_terminals': True}",
            ],
            env=env,
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + 60
        while not (info := list((folder / "runtime").glob("jpserver-*.json"))):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(self.log.read_text())
            time.sleep(0.1)
        self.address = json.loads(info[0].read_text())["url"].removeprefix("http://")
        while True:
            try:
                self.api("GET", "api/status")
                break
            except OSError:
                time.sleep(0.1)

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """What the REST API answers."""
        request = urllib.request.Request(
            f"http://{self.address}{path}",
            method=method,
            headers={"Authorization": "token tok", "Content-Type": "application/json"},
            data=None if body is None else json.dumps(body).encode(),
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            answer = response.read()
        return json.loads(answer) if answer else None

    @property
    def rss_mb(self) -> float:
        """Resident memory, in MB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("no VmRSS")


@contextmanager
def running_server():
    """A server that is ended afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        try:
            yield server
        finally:
            server.process.send_signal(signal.SIGTERM)
            try:
                server.process.wait(15)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()


class Ours:
    """One of our terminals over one WebSocket of its own."""

    _count = 0

    @classmethod
    async def open(cls, server: Server, **kwargs: Any) -> Ours:
        """Create a terminal, subscribe to it, and wait for its first prompt."""
        self = cls()
        Ours._count += 1
        self.uri = f"ahp-terminal:/bench-{Ours._count}"
        client_id = f"bench-{Ours._count}"
        self.socket = await websockets.connect(f"ws://{server.address}ahp?token=tok", max_size=None, **kwargs)
        await self._send(1, "initialize", {"channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": client_id})
        await self._send(2, "createTerminal", {"channel": self.uri, "claim": {"kind": "client", "clientId": client_id}})
        await self._send(3, "subscribe", {"channel": self.uri})
        while b'"supportsCommandDetection":true' not in (frame := await self.socket.recv(decode=False)) and (
            b"commandDetectionAvailable" not in frame
        ):
            pass
        return self

    async def _send(self, id: int, method: str, params: Any) -> None:
        await self.socket.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))

    output_mark = b'"terminal/data"'

    def input_frame(self, text: str) -> str:
        """The message that types a text."""
        action = {"type": "terminal/input", "data": text}
        params = {"channel": self.uri, "clientSeq": 1, "action": action}
        return json.dumps({"jsonrpc": "2.0", "method": "dispatchAction", "params": params})

    async def type(self, text: str) -> None:
        """Send input."""
        await self.socket.send(self.input_frame(text))

    async def output(self) -> str:
        """The next output."""
        while True:
            action = json.loads(await self.socket.recv()).get("params", {}).get("action", {})
            if action.get("type") == "terminal/data":
                return str(action["data"])

    async def close(self) -> None:
        """End the terminal."""
        await self._send(9, "disposeTerminal", {"channel": self.uri})
        await self.socket.close()


class Peer:
    """One of Jupyter Server's own terminals, by the same interface."""

    @classmethod
    async def open(cls, server: Server, **kwargs: Any) -> Peer:
        """Create a terminal and wait for its first output."""
        self = cls()
        self.server = server
        self.name = server.api("POST", "api/terminals", {})["name"]
        url = f"ws://{server.address}terminals/websocket/{self.name}?token=tok"
        self.socket = await websockets.connect(url, max_size=None, **kwargs)
        await self.output()
        return self

    output_mark = b'"stdout"'

    def input_frame(self, text: str) -> str:
        """The message that types a text."""
        return json.dumps(["stdin", text])

    async def type(self, text: str) -> None:
        """Send input."""
        await self.socket.send(self.input_frame(text))

    async def output(self) -> str:
        """The next output."""
        while True:
            message = json.loads(await self.socket.recv())
            if message[0] == "stdout":
                return str(message[1])

    async def close(self) -> None:
        """End the terminal."""
        await self.socket.close()
        self.server.api("DELETE", f"api/terminals/{self.name}")


async def quiet(terminal: Ours | Peer, seconds: float = 0.5) -> None:
    """Read until nothing has come for so long."""
    try:
        while True:
            await asyncio.wait_for(terminal.output(), seconds)
    except asyncio.TimeoutError:
        pass


def verdict(name: str, value: float, bound: float, *, at_least: bool) -> bool:
    """Print a figure beside its bound; whether it holds."""
    holds = value >= bound if at_least else value <= bound
    print(f"{'ok  ' if holds else 'MISS'} {name}: {value:.3f} ({'>=' if at_least else '<='} {bound})", flush=True)
    return holds
