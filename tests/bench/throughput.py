"""``cat`` of 100 MB to one WebSocket client, against a raw pty read of the same command in the same run.

Run: ``python tests/bench/throughput.py [MB]``. Exits 1 when the median ratio is below its bound.
"""

from __future__ import annotations

import asyncio
import os
import pty
import statistics
import sys
import tempfile
import time

from bench_server import Ours, Peer, Server, running_server, verdict

BOUND = 0.75
ROUNDS = 5


def raw(path: str) -> float:
    """MB/s of a plain loop that reads the same command's pty."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat", path])
    count, start = 0, 0.0
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        start = start or time.perf_counter()
        count += len(data)
    os.waitpid(pid, 0)
    os.close(fd)
    return count / 1e6 / (time.perf_counter() - start)


async def ours(server: Server, path: str) -> float:
    """MB/s that reach a client of ours, which keeps no text: it looks at the frames' ends only."""
    terminal = await Ours.open(server, max_queue=None)
    await terminal.type(f"cat {path}; echo E''ND\r")
    start, count = 0.0, 0
    while True:
        frame = await terminal.socket.recv(decode=False)
        if not start and b"xxxxxxx" in frame:
            start = time.perf_counter()
        count += len(frame)
        if b"END" in frame[-400:]:
            break
    speed = count / 1e6 / (time.perf_counter() - start)
    await terminal.close()
    return speed


async def peer(server: Server, path: str) -> float:
    """MB/s that reach a client of Jupyter Server's own terminals."""
    terminal = await Peer.open(server, max_queue=None)
    await terminal.type(f"cat {path}; echo E''ND\r")
    start, count = 0.0, 0
    while True:
        frame = await terminal.socket.recv(decode=False)
        if not start and b"xxxxxxx" in frame:
            start = time.perf_counter()
        count += len(frame)
        if b"END" in frame[-400:]:
            break
    speed = count / 1e6 / (time.perf_counter() - start)
    await terminal.close()
    return speed


async def main() -> bool:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with running_server() as server, tempfile.NamedTemporaryFile("w") as file:
        file.write(("x" * 99 + "\n") * (megabytes * 10_000))
        file.flush()
        ratios, peers = [], []
        for _ in range(ROUNDS):
            base, our, other = raw(file.name), await ours(server, file.name), await peer(server, file.name)
            ratios.append(our / base)
            peers.append(other / base)
            print(f"raw {base:.1f} MB/s, ours {our:.1f} ({our / base:.2f}), peer {other:.1f} ({other / base:.2f})", flush=True)
    print(f"     peer's median ratio: {statistics.median(peers):.3f}")
    return verdict("median ratio to a raw pty read", statistics.median(ratios), BOUND, at_least=True)


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main()) else 1)
