"""How soon terminal B answers while terminal A's program does not read 200 kB of input.

Run: ``python tests/bench/blocked_neighbour.py``. Exits 1 when B takes more than ten times what it takes alone, and more than
50 ms.

2026-12-01, two cores, Python 3.11, three runs: 8 to 10 ms alone, at most 6 to 13 ms beside the blocked terminal.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

from bench_server import Ours, running_server, verdict


async def answer_ms(terminal: Ours) -> float:
    start = time.perf_counter()
    await terminal.type("echo HI''THERE\r")
    seen = ""
    while "HITHERE" not in seen:
        seen += await terminal.output()
    return (time.perf_counter() - start) * 1e3


async def main() -> bool:
    with running_server() as server:
        a, b = await Ours.open(server), await Ours.open(server)
        alone = statistics.median([await answer_ms(b) for _ in range(10)])
        await a.type("stty raw; sleep 30\r")
        await a.output()
        await asyncio.sleep(0.5)  # until the program that does not read is there
        await a.type("z" * 200_000)
        await asyncio.sleep(0.3)
        beside = max([await asyncio.wait_for(answer_ms(b), 10) for _ in range(10)])
        await a.close()
        await b.close()
    print(f"     B alone {alone:.1f} ms, beside the blocked A at most {beside:.1f} ms")
    return verdict("slowest answer in ms", beside, max(50.0, 10 * alone), at_least=False)


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main()) else 1)
