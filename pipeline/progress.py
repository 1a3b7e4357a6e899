"""What a job says while it works (a bar for a person, lines for a log), and how it is told to stop."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType
from typing import Any

import click
from tqdm import tqdm

LINE_EVERY = 5.0
"""Seconds between two lines where there is no terminal."""


class Stop:
    """SIGINT or SIGTERM asks the job to stop in order; a second one ends it at once."""

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        """Take the signals. Call again after Spark has started, since it installs a handler of its own."""
        signal.signal(signal.SIGINT, self._handle)
        signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def sleep(self, seconds: float) -> None:
        """Sleep, but wake within a tenth of a second when asked to stop."""
        end = time.monotonic() + seconds
        while not self.asked and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))


def how_it_ended(swept: int, finished: bool) -> str:
    """The end of a job's last line: how many files of a killed run were removed first, and whether it was stopped."""
    text = f"; {swept} files of an unfinished batch were removed first" if swept else ""
    return text if finished else f"{text}; stopped: the same command goes on from here"


class Progress:
    """Counts rows on standard error: a bar when that is a terminal, else a line every few seconds."""

    def __init__(self, verb: str, total: int | None = None) -> None:
        self.rows = 0
        self._verb = verb
        self._started = self._spoke = time.monotonic()
        self._bar: tqdm[Any] | None = None
        if sys.stderr.isatty():
            self._bar = tqdm(
                total=total, desc=verb, unit=" rows", unit_scale=True, dynamic_ncols=True, leave=False
            )
        self._total = total

    def expect(self, total: int) -> None:
        """How many rows there will be, as soon as that is known."""
        self._total = total
        if self._bar is not None:
            self._bar.total = total
            self._bar.refresh()

    def add(self, rows: int, note: str = "") -> None:
        """So many more rows are done; `note` (the lag) stands at the end of the line."""
        self.rows += rows
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(rows)
        elif time.monotonic() - self._spoke >= LINE_EVERY:
            self._spoke = time.monotonic()
            click.echo(self.line(note), err=True)

    def say(self, text: str) -> None:
        """A line of its own, now."""
        tqdm.write(f"{text}.", file=sys.stderr)

    def line(self, note: str = "") -> str:
        """Rows, rows a second since the start, and the note."""
        of = f" of {self._total:,}" if self._total else ""
        return f"{self._verb} {self.rows:,}{of} rows, {self.speed:,.0f} rows/s" + (
            f", {note}" if note else ""
        )

    @property
    def speed(self) -> float:
        """Rows a second since the start."""
        return self.rows / max(self.seconds, 0.001)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
