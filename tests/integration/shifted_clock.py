"""Runs a gateway's command with a system clock that is wrong by what a file says, in seconds, now.

The monotonic clock stays as it is: nobody can set that one.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path


def main() -> None:
    """`shifted_clock.py FILE python -m MODULE ARGUMENTS...`."""
    file = Path(sys.argv[1])
    plain = time.time_ns
    seconds = time.time

    def shift() -> int:
        return int(file.read_text() or "0")

    time.time_ns = lambda: plain() + shift() * 1_000_000_000
    time.time = lambda: seconds() + shift()
    module = sys.argv[4]
    sys.argv[:] = sys.argv[4:]
    sys.path.insert(0, str(Path(__file__).parents[2]))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
