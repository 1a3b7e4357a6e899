"""What finished batches have read is acknowledged to the group of a queue topic."""

from __future__ import annotations

import os
import re
import socket
import time
from typing import TYPE_CHECKING, Protocol

from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipeline.checkpoint import Finished
    from pipeline.group import Stand

CLAIM_S = 5.0
"""How often the group is asked whether another job has begun to drain it, where nothing is acknowledged."""
_MARK = re.compile(r"magnetar-pipeline drain (\S+) (.+)")


class Group(Protocol):
    """What it needs of a `QueueGroup`."""

    topic: str
    name: str
    lanes: int

    def width(self) -> int: ...

    def stands(self) -> list[Stand]: ...

    def ends(self) -> list[int]: ...

    def commit(self, offsets: Mapping[int, int], metadata: str) -> None: ...


class Read(Protocol):
    """What it needs of a `Checkpoint`."""

    def finished(self) -> Finished | None: ...


def marks(stands: Iterable[Stand]) -> list[str]:
    """Who has drained these lanes last, as far as the gateway knows."""
    return sorted({match[2] for stand in stands if (match := _MARK.fullmatch(stand.metadata))})


class Acks:
    """Tells the group what the checkpoint says is done.

    Each of its commits has a mark as metadata: who drains. The gateway gives it back, so two jobs that drain the same
    subscription hear of each other. The one that began last goes on. Raises `PipelineError`, and py4j's `Py4JError`
    where nobody answers.
    """

    def __init__(self, group: Group, checkpoint: Read, name: str) -> None:
        self.group = group
        self.ends: list[int] = []
        """Up to where each lane is acknowledged, as far as this job knows."""
        self.passed: dict[int, int] = {}
        """Lanes that others went on with since the checkpoint was written, and up to where."""
        self.grown = False
        """Whether there are more lanes by now than it was begun with."""
        self._checkpoint = checkpoint
        self._name = name
        self._mark = f"magnetar-pipeline drain {name} process {os.getpid()} on {socket.gethostname()}"
        self._batch = -1
        self._looked = 0.0

    def begin(self) -> list[str]:
        """Acknowledge what an earlier run has finished, and take the subscription. What there is to say."""
        group, stands, finished = self.group, self.group.stands(), self._checkpoint.finished()
        ends = group.ends()
        read = [finished.ends.get(lane, 0) if finished is not None else 0 for lane in range(group.lanes)]
        for lane, (far, end) in enumerate(zip(read, ends, strict=True)):
            if far > end:
                raise PipelineError(
                    f"lane {lane} of {group.topic} ends at {end:,} and the checkpoint has read up to {far:,}: the "
                    "gateway has lost what it had. Drain with another checkpoint."
                )
        self.ends = [max(stand.offset, far) for stand, far in zip(stands, read, strict=True)]
        ready = sum(ends) - sum(self.ends)
        notes = [
            f"group {group.name} has no members; {ready:,} deliveries are ready in {group.lanes} lanes of {group.topic}"
        ]
        if others := [who for stand in stands if (who := self._other(stand))]:
            notes.append(f"another job has drained it before ({others[0]}): if it still runs, it stops soon")
        if late := sum(self.ends) - sum(stand.offset for stand in stands):
            notes.append(f"an earlier run had finished {late:,} deliveries: they are acknowledged now")
        self.passed = {
            lane: stand.offset
            for lane, (stand, far) in enumerate(zip(stands, read, strict=True))
            if stand.offset > far
        }
        if finished is not None and self.passed:
            settled = sum(offset - read[lane] for lane, offset in self.passed.items())
            notes.append(f"others settled {settled:,} deliveries since the checkpoint: they are passed over")
        group.commit(dict(enumerate(self.ends)), self._mark)
        self._batch = finished.batch if finished is not None else -1
        return notes

    def look(self, now: float | None = None) -> int:
        """Acknowledge what was finished since the last look: how many deliveries. Seconds, monotonic."""
        now = time.monotonic() if now is None else now
        finished = self._checkpoint.finished()
        news = finished is not None and finished.batch > self._batch
        if news or now - self._looked >= CLAIM_S:
            self._looked = now
            if others := [who for stand in self.group.stands() if (who := self._other(stand))]:
                raise PipelineError(
                    f"another job drains {self.group.topic} by now ({others[0]}), so this one stops. What its last "
                    "batch had read may be in both outputs."
                )
            self.grown = self.group.width() > self.group.lanes
        if finished is None or not news:
            return 0
        moved = {lane: end for lane, end in finished.ends.items() if end > self.ends[lane]}
        if moved:
            self.group.commit(moved, self._mark)
        rows = sum(end - self.ends[lane] for lane, end in moved.items())
        for lane, end in moved.items():
            self.ends[lane] = end
        self._batch = finished.batch
        return rows

    def _other(self, stand: Stand) -> str | None:
        """Who else has marked a lane."""
        match = _MARK.fullmatch(stand.metadata)
        return match[2] if match and match[1] != self._name else None
