"""`python -m compat.console`: take the picture of the console that README.md shows."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compat.console.picture import PICTURE, draw


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m compat.console", description=__doc__)
    parser.add_argument("--to", type=Path, default=PICTURE, metavar="FILE", help="default: %(default)s")
    options = parser.parse_args()
    draw(options.to)
    print(f"{options.to}: {options.to.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
