"""A drain that dies at a step of its own: `python -m tests.proofs.drain.victim before 3 drain --bootstrap …`.

`before` and `after`: SIGKILL to it and its Java process before or after its third acknowledgement, the one at its start
included.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping

from pipeline.cli import main
from pipeline.group import QueueGroup


def die_at(step: str, number: int) -> None:
    """From now on the process dies there; whoever starts it gives it a process group of its own."""
    commit = QueueGroup.commit
    left = number

    def commits(self: QueueGroup, offsets: Mapping[int, int], metadata: str) -> None:
        nonlocal left
        left -= 1
        if step == "before" and left == 0:
            os.killpg(0, signal.SIGKILL)
        commit(self, offsets, metadata)
        if step == "after" and left == 0:
            os.killpg(0, signal.SIGKILL)

    QueueGroup.commit = commits  # type: ignore[method-assign]


if __name__ == "__main__":
    die_at(sys.argv[1], int(sys.argv[2]))
    main(sys.argv[3:], prog_name="magnetar-pipeline")
