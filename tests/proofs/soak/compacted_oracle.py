"""What must hold of a topic that is compacted while transactions write to it. Pure.

Every write of a key has a number, and each key one writer. The last value that was committed is there, or a later one,
or nothing behind a tombstone. What was aborted is never shown. An offset keeps its record, and what is gone stays gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Found(NamedTuple):
    """A record that a reader of committed records was given."""

    offset: int
    key: str
    number: int


@dataclass
class _Key:
    # the last write that is committed, as was told
    last: int = -1
    aborted: set[int] = field(default_factory=set)
    # tombstones that are not known to be aborted
    tombstones: set[int] = field(default_factory=set)


@dataclass
class _Log:
    # what lies at each offset that is still there
    at: dict[int, Found] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    read_to: int = 0


class CompactedOracle:
    """`wrong` is told of each violation."""

    def __init__(self, wrong: Callable[[str], None]) -> None:
        self._wrong = wrong
        self._keys: dict[str, _Key] = defaultdict(_Key)
        self._logs: dict[int, _Log] = defaultdict(_Log)
        self.removed = 0

    def sending(self, key: str, number: int, *, tombstone: bool) -> None:
        """A write is about to be part of a transaction. Numbers of a key ascend."""
        if tombstone:
            self._keys[key].tombstones.add(number)

    def ended(self, writes: Sequence[tuple[str, int]], committed: bool | None) -> None:
        """How the transaction of these writes ended, as was told; None: nobody knows."""
        for key, number in writes:
            its = self._keys[key]
            if committed:
                its.last = max(its.last, number)
                its.tombstones = {each for each in its.tombstones if each >= its.last}
            elif committed is False:
                its.aborted.add(number)
                its.tombstones.discard(number)

    def must(self) -> dict[str, int]:
        """The last committed write of each key by now."""
        return {key: its.last for key, its in self._keys.items() if its.last >= 0}

    def read(self, partition: int, found: Sequence[Found]) -> None:
        """All that is there, from the first record on."""
        log = self._logs[partition]
        newest: dict[str, int] = {}
        for each in found:
            offset, key, number = each
            known = log.at.get(offset)
            if known is not None and known != each:
                self._wrong(f"{partition}@{offset} was {known}, and is {each}")
            elif offset in log.gone:
                self._wrong(f"{each} was compacted away in {partition}, and is there again")
            elif known is None and offset < log.read_to:
                self._wrong(f"{each} is in {partition}, which was read to {log.read_to} without it")
            if number in self._keys[key].aborted:
                self._wrong(f"{each} was read in {partition}, and was aborted")
            if number <= newest.get(key, -1):
                self._wrong(f"{each} of {partition} lies behind write {newest[key]}")
            newest[key] = max(newest.get(key, -1), number)
        now = {each.offset: each for each in found}
        vanished = log.at.keys() - now.keys()
        self.removed += len(vanished)
        log.gone |= vanished
        log.at = now
        log.read_to = max([log.read_to, *(offset + 1 for offset in now)])

    def check(self, must: Mapping[str, int]) -> None:
        """All partitions were read since `must` was asked for."""
        top: dict[str, int] = {}
        for log in self._logs.values():
            for each in log.at.values():
                top[each.key] = max(top.get(each.key, -1), each.number)
        for key, number in must.items():
            if key in top:
                if top[key] < number:
                    self._wrong(
                        f"write {number} of {key} was committed, and the last that is there is {top[key]}"
                    )
            elif not any(each >= number for each in self._keys[key].tombstones):
                self._wrong(f"write {number} of {key} was committed, and nothing of it is there")
