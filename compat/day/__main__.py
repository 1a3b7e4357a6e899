"""`make demo-queue`."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from compat.day.run import Day, DayError
from compat.demo import say
from compat.peers.magnetar import PeerError
from compat.tools import PROJECT

PICTURE = PROJECT / ".cache" / "demo-queue.svg"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when the day was as it should be."""
    parser = argparse.ArgumentParser(
        prog="make demo-queue",
        description="A day in the life of a queue topic, in a minute: eight members in three languages, a crash, a "
        "poisonous order, a gateway that is killed.",
    )
    parser.add_argument(
        "--picture", type=Path, default=PICTURE, metavar="FILE", help="where the picture goes"
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    started = time.monotonic()
    try:
        with contextlib.ExitStack() as stack:
            outcome = Day(stack).run()
    except (DayError, PeerError) as error:
        print(f"\nThe day ended early: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; everything is cleaned up.", file=sys.stderr)
        return 130
    print()
    for line in outcome.lines:
        say(line)
    wrong = outcome.findings.out_of_order + outcome.findings.acknowledged_again
    for line in wrong[:10]:
        say(line)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    options.picture.write_text(outcome.picture)
    say(f"the picture of it: {options.picture}")
    print(f"\n  {time.monotonic() - started:.0f} s in all.")
    return 0 if outcome.findings.good else 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
