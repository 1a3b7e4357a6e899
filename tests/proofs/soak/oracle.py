"""What must hold after every kill, held against what clients were told. Pure: it is fed, and answers violations.

Three kinds of truth come in: what a client was told (`acknowledged`, `delivered`), what is in the logs (`ends`,
`stored`), and what the cluster says of itself (offsets of groups, topics, epochs). Of each log the oracle keeps who
wrote which offset, as long as the offset is there: an offset keeps its record for ever, so a second reading must
find the same.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from tests.proofs.soak import records

WINDOW = 5_000
"""So many of a plain producer's last records in a partition are remembered, to know a double when it comes."""
SHOWN = 40
"""Violations that are spelled out; the others are counted."""

Place = tuple[str, int]
"""Topic and partition."""


@dataclass
class Producer:
    """What an oracle must know of a producer."""

    name: str
    idempotent: bool


@dataclass
class Log:
    """One partition as it was read so far."""

    # offset of the first entry below; entries are (producer, sequence, leader epoch)
    base: int = 0
    producers: array[int] = field(default_factory=lambda: array("H"))
    sequences: array[int] = field(default_factory=lambda: array("Q"))
    epochs: array[int] = field(default_factory=lambda: array("i"))
    # the highest ends and starts anybody was told of
    end: int = 0
    start: int = 0
    # the highest start that anybody asked for
    asked_start: int = 0
    # acknowledged above what was read: offset -> (producer, sequence)
    waiting: dict[int, tuple[int, int]] = field(default_factory=dict)
    # by producer: the last sequence, the highest, and of plain producers the last ones with their epochs
    last: dict[int, int] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)
    window: dict[int, OrderedDict[int, int]] = field(default_factory=dict)

    @property
    def read_to(self) -> int:
        return self.base + len(self.sequences)


class Oracle:
    """See the module. Not thread-safe: the thread that checks owns it."""

    def __init__(self, producers: dict[int, Producer]) -> None:
        self.producers = producers
        self.logs: dict[Place, Log] = {}
        self.violations: list[str] = []
        self.seen: Counter[str] = Counter()
        # where each key of each producer lives: (producer, topic, key) -> partition
        self._keys: dict[tuple[int, str, int], int] = {}
        # (group, topic, partition) -> the offset up to which everything was delivered to some member
        self._delivered: dict[tuple[str, str, int], int] = {}
        self._epoch = -1

    def wrong(self, text: str) -> None:
        self.seen["violations"] += 1
        if len(self.violations) < SHOWN:
            self.violations.append(text)

    def log(self, place: Place) -> Log:
        return self.logs.setdefault(place, Log())

    # what clients were told

    def acknowledged(self, place: Place, offset: int, producer: int, sequence: int) -> None:
        """A producer was told that a record is at an offset. Call it before the logs' ends are asked for."""
        self.seen["acknowledged"] += 1
        log = self.log(place)
        if offset >= log.read_to:
            known = log.waiting.setdefault(offset, (producer, sequence))
            if known != (producer, sequence):
                self.wrong(
                    f"{_at(place, offset)} was given to {self._name(producer, sequence)} and to "
                    f"{self._name(*known)}"
                )
        else:
            self._compare(log, place, offset, producer, sequence, "acknowledged")

    def delivered(self, group: str, place: Place, offset: int, producer: int, sequence: int) -> None:
        """A member of a group was given a record; calls are in the order of the deliveries."""
        self.seen["delivered"] += 1
        log = self.log(place)
        if offset >= log.read_to:
            known = log.waiting.setdefault(offset, (producer, sequence))
            if known != (producer, sequence):
                self.wrong(
                    f"group {group} read {self._name(producer, sequence)} at {_at(place, offset)}, which was "
                    f"{self._name(*known)}"
                )
        else:
            self._compare(log, place, offset, producer, sequence, f"delivered to group {group}")
        key = (group, *place)
        upto = self._delivered.get(key, 0)
        if offset > upto:
            self.wrong(f"group {group} was given {_at(place, offset)} and never {upto} to {offset - 1}")
        self._delivered[key] = max(upto, offset + 1)

    def _compare(self, log: Log, place: Place, offset: int, producer: int, sequence: int, how: str) -> None:
        if offset < log.base:
            self.seen["told of a deleted record"] += 1
            return
        at = offset - log.base
        found = log.producers[at], log.sequences[at]
        if found != (producer, sequence):
            self.wrong(
                f"{self._name(producer, sequence)} was {how} at {_at(place, offset)}, where "
                f"{self._name(*found)} is"
            )

    # what the logs say

    def ends(self, place: Place, start: int, end: int) -> None:
        """The log's offsets, after a start or at any time."""
        log = self.log(place)
        if end < log.end:
            self.wrong(f"the end of {_place(place)} went back from {log.end} to {end}")
        if start < log.start:
            self.wrong(f"the start of {_place(place)} went back from {log.start} to {start}")
        if start > log.asked_start:
            self.wrong(f"{_place(place)} starts at {start}, nobody asked for more than {log.asked_start}")
        log.end = max(log.end, end)
        log.start = max(log.start, start)
        for offset in [each for each in log.waiting if each >= end]:
            known = log.waiting.pop(offset)
            self.wrong(
                f"{self._name(*known)} was acknowledged or read at {_at(place, offset)}, and the log ends at {end}"
            )
        self._forget(log, start)

    def _forget(self, log: Log, start: int) -> None:
        """Offsets below the start are gone, and nobody can ask for them any more."""
        gone = min(start, log.read_to) - log.base
        if gone > 0:
            del log.producers[:gone], log.sequences[:gone], log.epochs[:gone]
            log.base += gone
        if start > log.base and not log.sequences:
            log.base = start
        for offset in [each for each in log.waiting if each < log.base]:
            del log.waiting[offset]

    def stored(
        self,
        place: Place,
        offset: int,
        epoch: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]] | None,
        timestamp: int,
    ) -> None:
        """A record as a reader finds it. Offsets come in order, from `read_to` on or once more from the start."""
        self.seen["read"] += 1
        log = self.log(place)
        parsed = records.parse(value)
        if parsed is None or parsed[0] not in self.producers:
            self.wrong(f"nobody sent what is at {_at(place, offset)}: {(value or b'')[:60]!r}")
            parsed = (0xFFFF, 0, 0)
        else:
            wanted = records.make(*parsed)
            if (key, value, headers or [], timestamp) != wanted:
                self.wrong(f"{self._name(*parsed[:2])} at {_at(place, offset)} is not what was sent")
        producer, sequence, _ = parsed
        if offset < log.read_to:
            self.seen["read again"] += 1
            if offset >= log.base and epoch != log.epochs[offset - log.base]:
                self.wrong(
                    f"the epoch of {_at(place, offset)} was {log.epochs[offset - log.base]}, now {epoch}"
                )
            self._compare(log, place, offset, producer, sequence, "read before")
            return
        if offset != log.read_to:
            self.wrong(f"{_place(place)} has no records at {log.read_to} to {offset - 1}")
            while log.read_to < offset:
                self._append(log, place, 0xFFFF, 0, epoch)
        if log.epochs and epoch < log.epochs[-1]:
            self.wrong(f"the epoch went back from {log.epochs[-1]} to {epoch} at {_at(place, offset)}")
        told = log.waiting.pop(offset, None)
        self._append(log, place, producer, sequence, epoch)
        if told is not None:
            self.seen["checked"] += 1
            self._compare(log, place, offset, *told, "acknowledged or delivered")
        if producer in self.producers:
            self._order(log, place, offset, producer, sequence, epoch)

    def _append(self, log: Log, place: Place, producer: int, sequence: int, epoch: int) -> None:
        log.producers.append(producer)
        log.sequences.append(sequence)
        log.epochs.append(epoch)

    def _order(self, log: Log, place: Place, offset: int, producer: int, sequence: int, epoch: int) -> None:
        """Within a partition and producer: ascending, and nothing twice but what a kill explains."""
        key = (producer, place[0], sequence % records.KEYS)
        if self._keys.setdefault(key, place[1]) != place[1]:
            self.wrong(f"{self._name(producer, sequence)} is in partition {place[1]}, its key's is another")
        highest = log.highest.get(producer, -1)
        log.highest[producer] = max(highest, sequence)
        last, log.last[producer] = log.last.get(producer, -1), sequence
        if self.producers[producer].idempotent:
            if sequence <= last:
                self.wrong(
                    f"{self._name(producer, sequence)}, idempotent, is at {_at(place, offset)} behind {last}: twice or "
                    f"out of order"
                )
            return
        window = log.window.setdefault(producer, OrderedDict())
        if sequence <= highest:
            earlier = window.get(sequence)
            if earlier is None:
                self.wrong(
                    f"{self._name(producer, sequence)} is at {_at(place, offset)} behind {highest}: out of order"
                )
            elif earlier >= epoch:
                self.wrong(
                    f"{self._name(producer, sequence)} is twice in {_place(place)}, again at {offset}, and no restart "
                    f"between explains it"
                )
            else:
                self.seen["doubles of plain producers"] += 1
        window[sequence] = epoch
        if len(window) > WINDOW:
            window.popitem(last=False)

    # what the cluster says of itself

    def committed(self, group: str, place: Place, found: int, acked: int, sent: int) -> None:
        """A group's offset: `acked` before it was asked for, `sent` after; -1 for none."""
        self.seen["committed offsets checked"] += 1
        if found < acked:
            self.wrong(f"group {group} had committed {acked} in {_place(place)}, and has {found}")
        elif found > sent:
            self.wrong(f"group {group} has {found} in {_place(place)}, and sent no more than {sent}")

    def epoch(self, found: int, *, restarted: bool) -> None:
        """The leader epoch that Metadata answers with. Every start has a new one."""
        if found < self._epoch:
            self.wrong(f"the leader epoch went back from {self._epoch} to {found}")
        elif restarted and found == self._epoch:
            self.wrong(f"two starts share the leader epoch {found}")
        self._epoch = max(found, self._epoch)

    def topics(self, found: dict[str, int], must: dict[str, int], may: dict[str, int]) -> None:
        """Topics with their partitions: what must be there, and what may (asked for, and not answered)."""
        self.seen["topics checked"] += len(must)
        for name, partitions in must.items():
            if name not in found:
                self.wrong(f"the topic {name} was created or kept, and is gone")
            elif found[name] != partitions:
                self.wrong(f"the topic {name} has {found[name]} partitions, not {partitions}")
        for name, partitions in found.items():
            if name not in must and name not in may:
                self.wrong(f"the topic {name} is there, and was deleted or never made")
            elif name not in must and partitions != may[name]:
                self.wrong(f"the topic {name} has {partitions} partitions, not {may[name]}: half made")

    # the end

    def finish(self) -> None:
        """Everything was read to its end: whatever is still waited for is missing."""
        for place, log in self.logs.items():
            if log.read_to < log.end:
                self.wrong(f"{_place(place)} could be read to {log.read_to} only, it ends at {log.end}")
            for offset, known in log.waiting.items():
                self.wrong(f"{self._name(*known)}, acknowledged at {_at(place, offset)}, is missing")
            log.waiting.clear()

    def read_up_to(self, group: str, place: Place) -> int:
        """Below this offset a group has been given everything."""
        return self._delivered.get((group, *place), 0)

    def _name(self, producer: int, sequence: int) -> str:
        known = self.producers.get(producer)
        return f"record {sequence} of {known.name if known is not None else producer}"


def _place(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def _at(place: Place, offset: int) -> str:
    return f"{place[0]}-{place[1]}@{offset}"
