"""Ctrl-C for commands that take long: one sentence, exit code 130, and no process left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing import resource_tracker


@contextlib.contextmanager
def stoppable(*, at_once: bool = False) -> Iterator[None]:
    """Around all that a command does, or as its decorator: Ctrl-C ends it when what it started is gone.

    With `at_once` nobody waits for threads, e.g. those of clients that still hope for a server which is gone.
    """
    try:
        yield
    except KeyboardInterrupt:
        print("\nstopped; nothing was proven", file=sys.stderr)
        if at_once:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(130)
        sys.exit(130)


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Processes that are started meanwhile do not hear Ctrl-C: who started them ends them, and nothing complains.

    The signal is blocked, which they inherit from their first moment; one that comes meanwhile is not lost here.
    """
    # its first use starts a process of its own, and ends with the signal let through
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
