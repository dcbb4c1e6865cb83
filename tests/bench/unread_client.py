"""Memory that a client which never reads costs the server in 8 s of ``yes``.

Run: ``python tests/bench/unread_client.py``. Exits 1 when it is 16 MB or more.

2026-12-01, two cores, Python 3.11, four runs: 3.5 to 4.9 MB.
"""

from __future__ import annotations

import asyncio
import sys

from bench_server import Ours, running_server, verdict

BOUND_MB = 16.0


async def main() -> bool:
    with running_server() as server:
        warm = await Ours.open(server)
        await warm.type("head -c 5000000 /dev/zero | tr '\\0' x\r")
        for _ in range(40):
            await warm.output()
        await warm.close()
        lazy = await Ours.open(server, max_queue=1)
        before = server.rss_mb
        await lazy.type("yes 0123456789abcdef0123456789abcdef\r")
        most = before
        for _ in range(80):
            await asyncio.sleep(0.1)
            most = max(most, server.rss_mb)
        await lazy.socket.close()
        print(f"     server: {before:.1f} MB before, {most:.1f} MB at most")
        return verdict("growth in MB", most - before, BOUND_MB, at_least=False)


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main()) else 1)
