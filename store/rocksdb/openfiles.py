"""The segment files that appends have open: a bounded number; those of idle logs are closed first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from store.rocksdb.append import LogWriter
from store.rocksdb.files import TOO_MANY, Files

T = TypeVar("T")


class OpenFiles:
    """The logs whose active segment is open for appends; `LogWriter.descriptor` is -1 for the others."""

    def __init__(self, files: Files, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._logs: dict[int, LogWriter] = {}
        # above so many it is looked for idle ones. What a group writes to stays open until it is done, and a group may
        # write to very many: they are not all looked at for each more.
        self._look_above = limit
        # left by their logs, but the group at work may still write to them or sync them
        self.closing: list[int] = []

    def __len__(self) -> int:
        return len(self._logs)

    def attempt(self, opening: Callable[[], T]) -> T:
        """Open a file; when there are too many, close another log's and try once more. Raises OSError."""
        try:
            return opening()
        except OSError as error:
            other = next((each for each in self._logs.values() if not each.touched), None)
            if other is None or error.errno not in TOO_MANY:
                raise
            self.forget(other)
            return opening()

    def hold(self, log: LogWriter, descriptor: int) -> None:
        """From now on this file takes what comes into the log."""
        self.leave(log)
        log.descriptor = descriptor
        self._logs[log.partition] = log
        if len(self._logs) > self._look_above:
            self._close_idle()
            self._look_above = max(self._limit, len(self._logs) + self._limit // 4)

    def leave(self, log: LogWriter) -> None:
        """The log's file takes no more appends: it is closed when the current group is done."""
        if log.descriptor >= 0:
            self.closing.append(log.descriptor)
            log.descriptor = -1
            self._logs.pop(log.partition, None)

    def forget(self, log: LogWriter) -> None:
        """Close the log's file now."""
        if log.descriptor >= 0:
            self._files.close(log.descriptor)
            log.descriptor = -1
            self._logs.pop(log.partition, None)

    def close_old(self) -> None:
        """The group is done: close what its logs have left."""
        for descriptor in self.closing:
            self._files.close(descriptor)
        self.closing.clear()
        self._look_above = self._limit

    def close(self) -> None:
        for log in list(self._logs.values()):
            self.forget(log)

    def _close_idle(self) -> None:
        """Close a quarter of the files, those first that were not used since the last time."""
        want = self._limit * 3 // 4
        for second in (False, True):
            for log in list(self._logs.values()):
                if len(self._logs) <= want:
                    return
                if not log.touched and (second or not log.recent):
                    self.forget(log)
                elif not second:
                    log.recent = False
