"""Echo of one key through ``cat``, ours against Jupyter Server's own terminals in the same run, taken by turns.

Run: ``python tests/bench/latency.py``. Exits 1 when p50 or p99 is worse than the peer's by more than the noise allowed for.
"""

from __future__ import annotations

import asyncio
import sys
import time

from bench_server import Ours, Peer, quiet, running_server, verdict

KEYS = 400
NOISE = 1.15
"""Two runs of the peer against itself differ by up to this."""


async def keys(terminal: Ours | Peer, count: int) -> list[float]:
    times = []
    for number in range(count):
        start = time.perf_counter()
        await terminal.type(chr(97 + number % 26))
        await terminal.output()
        times.append((time.perf_counter() - start) * 1e3)
        await asyncio.sleep(0.004)
    return times


async def main() -> bool:
    with running_server() as server:
        ours, peer = await Ours.open(server), await Peer.open(server)
        for terminal in (ours, peer):
            await terminal.type("cat\r")
            await quiet(terminal)
        mine: list[float] = []
        others: list[float] = []
        for _ in range(10):
            mine += await keys(ours, KEYS // 10)
            others += await keys(peer, KEYS // 10)
        for terminal in (ours, peer):
            await terminal.close()
    mine.sort()
    others.sort()
    result = True
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        a, b = mine[int(KEYS * share)], others[int(KEYS * share)]
        print(f"     {name}: ours {a:.2f} ms, peer {b:.2f} ms")
        if name != "p95":
            result &= verdict(f"{name} ours / peer", a / b, NOISE, at_least=False)
    return result


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main()) else 1)
