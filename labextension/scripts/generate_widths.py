"""Write the table of character widths for the page from jupyter_ext/core/widths.py.

Run it as ``python labextension/scripts/generate_widths.py``; with ``--check`` it writes nothing and exits with 1 when the
committed file is stale.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "labextension" / "src" / "widths.generated.ts"
COMMAND = "python labextension/scripts/generate_widths.py"

sys.path.insert(0, str(ROOT))

from jupyter_ext.core.widths import UNICODE_VERSION, WIDE_RANGES, ZERO_RANGES  # noqa: E402


def generate() -> str:
    """The file's content."""
    parts = [f"// Generated from jupyter_ext/core/widths.py (Unicode {UNICODE_VERSION}) by `{COMMAND}`; do not edit.\n"]
    for name, ranges in (("ZERO_RANGES", ZERO_RANGES), ("WIDE_RANGES", WIDE_RANGES)):
        lines = textwrap.wrap(ranges, 118)
        body = " +\n".join(f"  '{line} '" for line in lines[:-1]) + f" +\n  '{lines[-1]}'"
        parts.append(f"/** Inclusive ranges of code points, in hexadecimal and ascending. */\nexport const {name} =\n{body};\n")
    return "\n".join(parts)


def main() -> int:
    """Write the file, or say whether it is what would be written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file is stale")
    content = generate()
    if not parser.parse_args().check:
        TARGET.write_text(content, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == content:
        return 0
    print(f"{TARGET.name} is stale; run: {COMMAND}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
