"""The splitter's speed, against one plain regex search for introducers through the same data in the same run.

Run: ``python tests/bench/splitter.py``. Exits 1 when a ratio to the regex is below its bound.

The targets (shell-integration.md 12) are 100 MB/s for output without marks and 20 MB/s for nearly all marks. Where they were set
a regex search makes 130-190 MB/s (3.2 rule 7), here 160, so that they are ratios of 0.63 and 0.125.

2026-12-01, Python 3.11, two cores busy with other work; MB per second of CPU time, best of five, and ratio (bound):

==================================  =====  ============
plain text                          9,800  61   (0.63)
colour-heavy                          800   5.0 (0.63)
CJK                                 5,800  37   (0.63)
hyperlinks                            630   4.1 (0.63)
a command with 4 kB of output         370   2.3 (0.63)
nearly all marks, ours                 29   0.18 (0.125)
nearly all marks, unsigned             23   0.15 (0.125)
nearly all marks, another dialect's    36   0.23 (0.125)
==================================  =====  ============
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable

from jupyter_ext.core.shell_integration import ShellIntegrationParser

NONCE = "0123456789abcdef" * 2
SIZE = 8 << 20
READ = 64 << 10
ROUNDS = 5
INTRODUCER = re.compile(rb"\x1b\]|\xc2\x9d")


def marks(*subcommands: bytes) -> list[bytes]:
    return [b"\x1b]633;" + subcommand + b";" + NONCE.encode() + b"\x07" for subcommand in subcommands]


A, E, C, D = marks(b"A", b"E;ls", b"C", b"D;0")
TEXT = b"the quick brown fox jumps over the lazy dog 0123456789\r\n"
COLOUR = b"\x1b[32mok\x1b[0m \x1b[1;34mdir\x1b[0m \x1b[38;5;200mx\x1b[m\r\n"
CJK = "漢字かな交じり文 ©é\r\n".encode()
LINK = b"\x1b]8;;http://a/b\x1b\\name\x1b]8;;\x1b\\ and the text that comes after it\r\n"
CYCLE = A + b"$ " + E + C + b"f\r\n" + D
FOREIGN = b"\x1b]133;A\x07$ \x1b]133;B\x07ls\r\n\x1b]133;C\x07f\r\n\x1b]133;D;0\x07"
UNSIGNED = b"\x1b]633;A\x07$ \x1b]633;E;ls\x07\x1b]633;C\x07f\r\n\x1b]633;D;0\x07"

# name: a piece of the stream, the least ratio to the regex
STREAMS: dict[str, tuple[bytes, float]] = {
    "plain text": (TEXT, 0.63),
    "colour-heavy": (COLOUR, 0.63),
    "CJK": (CJK, 0.63),
    "hyperlinks": (LINK, 0.63),
    "a command with 4 kB of output": (A + b"$ " + E + C + TEXT * 40 + COLOUR * 40 + D, 0.63),
    "nearly all marks, ours": (CYCLE, 0.125),
    "nearly all marks, unsigned": (UNSIGNED, 0.125),
    "nearly all marks, another dialect's": (FOREIGN, 0.125),
}


def in_reads(piece: bytes) -> list[bytes]:
    stream = (piece * (SIZE // len(piece) + 1))[:SIZE]
    return [stream[at : at + READ] for at in range(0, SIZE, READ)]


def mb_per_s(work: Callable[[bytes], object], reads: list[bytes]) -> float:
    start = time.process_time()
    for read in reads:
        work(read)
    return SIZE / (time.process_time() - start) / 1e6


def search(read: bytes) -> None:
    at = 0
    while (match := INTRODUCER.search(read, at)) is not None:
        at = match.end()


def main() -> bool:
    good = True
    plain_reads = in_reads(TEXT)
    for name, (piece, bound) in STREAMS.items():
        reads = in_reads(piece)
        rounds = [(mb_per_s(ShellIntegrationParser(NONCE).feed, reads), mb_per_s(search, plain_reads)) for _ in range(ROUNDS)]
        ours, regex = (max(speeds) for speeds in zip(*rounds, strict=True))
        is_met = ours / regex >= bound
        good = good and is_met
        print(
            f"{name:38} {ours:7.0f} MB/s, regex {regex:4.0f}: {ours / regex:6.2f} ({bound}) {'' if is_met else 'MISSED'}".rstrip()
        )
    return good


if __name__ == "__main__":
    sys.exit(not main())
