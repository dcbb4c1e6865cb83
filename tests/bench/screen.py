"""How fast a flood is resolved: core.screen on text in chunks of 64 KiB, as a kernel gets it.

``python tests/bench/screen.py [megabytes]`` prints MB/s and, as machines differ, the share of ``str.splitlines`` on the same
text in the same run. Bound: `yes` at 20 MB/s or more, and at a tenth of splitlines or more.

2026-12-01, Python 3.11, on two cores that others kept busy (load 8):

    yes                 46.5 MB/s    0.257 of splitlines (181 MB/s)
    lines of 80         44.9 MB/s    0.148 of splitlines (303 MB/s)
    colours             20.3 MB/s    0.060 of splitlines (340 MB/s)
    tabs                29.9 MB/s    0.311 of splitlines (96 MB/s)
    wide characters     63.9 MB/s    0.168 of splitlines (381 MB/s)
    one line            12.1 MB/s    0.009 of splitlines (1346 MB/s)
    redrawn line         8.8 MB/s    0.042 of splitlines (210 MB/s)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from jupyter_ext.core.screen import Screen

CHUNK_CHARS = 64 << 10

FLOODS = {
    "yes": "y\r\n",
    "lines of 80": "x" * 80 + "\r\n",
    "colours": "\x1b[1;32mPASSED\x1b[0m tests/test_things.py::test_a_thing \x1b[36m[ 42%]\x1b[0m\r\n",
    "tabs": "a\t1.5\tb\t2\r\n",
    "wide characters": "漢字かな交じり文の行がここにあります\r\n",
    "one line": "x" * 1000,
    "redrawn line": "\r 42%|####      | 42/100",
}


def resolve(text: str) -> None:
    """Feed it in chunks."""
    screen = Screen()
    for start in range(0, len(text), CHUNK_CHARS):
        screen.feed(text[start : start + CHUNK_CHARS])
    screen.saved_output()


def rate(work: Callable[[], object], size_bytes: int) -> float:
    """MB per second of processor time, the best of three: what others do on the machine counts little."""
    times_s = []
    for _ in range(3):
        begun = time.process_time()
        work()
        times_s.append(time.process_time() - begun)
    return size_bytes / min(times_s) / 1e6


def main() -> int:
    """Measure all floods; 1 if `yes` is below its bound."""
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    is_within = True
    for name, unit in FLOODS.items():
        text = unit * int(megabytes * 1e6 / len(unit.encode()))
        size_bytes = len(text.encode())
        screen, split = rate(lambda text=text: resolve(text), size_bytes), rate(text.splitlines, size_bytes)
        print(f"{name:16} {screen:7.1f} MB/s   {screen / split:6.3f} of splitlines ({split:.0f} MB/s)")
        if name == "yes":
            is_within = screen >= 20 and screen >= split / 10
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
