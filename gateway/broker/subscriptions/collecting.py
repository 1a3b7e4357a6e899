"""Dying records are read again and become letters, by the topic whose dead letters they are: see `letters.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from gateway.broker.message_ids import id_at
from gateway.broker.subscriptions import letter_names
from gateway.broker.subscriptions.scanning import AT_ONCE
from gateway.broker.subscriptions.stored import Stored, walk
from gateway.wire import delivery, letters, properties
from gateway.wire.batch import BatchError
from semantics.group_names import bare
from semantics.message_id import MessageId
from semantics.names import dotted
from semantics.subscriptions.states import Dying
from store.api import Corrupt, StoreError
from store.pending import Asking

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog
    from gateway.broker.subscriptions.ports import Place
    from gateway.wire.batch import Buffer

BYTES = 1024 * 1024
"""Records that are buried in one go; a larger one goes alone."""

_OVERHEAD = 400
"""What a letter takes beside its key and its value, on the whole."""


class Impossible(Exception):
    """Why a dead letter cannot be stored, for a person."""


class Collecting(Protocol):
    """A node, for those who collect letters."""

    @property
    def catalog(self) -> Catalog: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def decompression_limit(self) -> int:
        """Bytes that one batch may unfold to."""
        ...


class Making(Protocol):
    """A kind of letters: `letter_kinds.LetterKind`, as far as it makes them."""

    def letter(
        self, source: letters.Source, found: delivery.Found, part: Dying, message_id: str | None, /
    ) -> letters.Letter:
        """The letter of a record."""
        ...

    def whole(
        self, source: letters.Source, batch: Buffer, part: Dying, message_id: str | None, /
    ) -> letters.Letter:
        """The letter of a batch that cannot be opened. Raises Impossible, BatchError."""
        ...


class Collected:
    """Letters for one topic, and the ranges they settle."""

    __slots__ = ("letters", "ranges")

    def __init__(self) -> None:
        self.letters: list[letters.Letter] = []
        self.ranges: list[tuple[int, int]] = []


class Collector:
    """Reads what is dying."""

    def __init__(self, node: Collecting) -> None:
        self._node = node

    def collect(
        self, at: Place, dying: list[Dying], by_base: dict[str, Collected], kind: Making
    ) -> Asking[int]:
        """Read what is first among the dying, and take it from them: how many bytes. Raises Impossible."""
        first, last, count, reason = dying[0]
        partition = at.partition
        start = partition.log_start
        if last < start:
            dying.pop(0)
            return 0
        first = max(first, start)
        try:
            data = partition.log.read(first, BYTES // 4)
            if not isinstance(data, list):
                data = yield data
        except Corrupt as error:
            problem = at.corrupt(error)
            if problem is not None:
                raise Impossible(f"it cannot be read: {error}") from error
            # by the topic's policy it is passed over
            end = min(error.next_offset, last + 1)
            lost = by_base.setdefault(_base(at, None, self._node), Collected())
            lost.ranges.append((first, end - 1))
            self._shorten(dying, end)
            return 0
        except StoreError as error:
            raise Impossible(f"it cannot be read: {error}") from error
        except IndexError:
            raise Impossible("it is no longer there") from None
        stored = walk(data, first)
        if not stored:
            raise Impossible("it cannot be read")
        size = 0
        for batch in stored:
            # of this batch, all that is dying
            parts: list[Dying] = []
            while dying and dying[0].first < batch.next:
                first, last, count, reason = dying[0]
                if first < batch.base:
                    # no record is there
                    nothing = by_base.setdefault(_base(at, None, self._node), Collected())
                    nothing.ranges.append((first, min(last, batch.base - 1)))
                    self._shorten(dying, batch.base)
                    continue
                parts.append(Dying(first, min(last, batch.next - 1), count, reason))
                self._shorten(dying, batch.next)
            if parts:
                size += yield from self._take(at, batch, parts, by_base, kind)
            if not dying or size >= BYTES:
                break
        return size

    @staticmethod
    def _shorten(dying: list[Dying], end: int) -> None:
        """The first of the dying is dealt with up to `end`."""
        first, last, count, reason = dying[0]
        if last < end:
            dying.pop(0)
        else:
            dying[0] = Dying(max(first, end), last, count, reason)

    def _take(
        self,
        at: Place,
        batch: Stored,
        parts: Sequence[Dying],
        by_base: dict[str, Collected],
        kind: Making,
    ) -> Asking[int]:
        """Letters for those records of a batch: how many bytes."""
        raw = batch.raw()
        ranges = [each[:2] for each in parts]
        # the id of a retry letter is not that of the message which it repeats
        origin = None if at.retries else self._origin(at, batch.base)
        try:
            found = yield from self._opened(batch, ranges)
        except delivery.Unreadable:
            collected = by_base.setdefault(_base(at, None, self._node), Collected())
            try:
                letter = kind.whole(
                    self._source(at, _base(at, None, self._node)), raw, parts[0], origin and str(origin)
                )
            except BatchError as error:
                collected.ranges += ranges
                raise Impossible(f"it is no batch: {error}") from error
            collected.ranges += ranges
            collected.letters.append(letter)
            return len(raw)
        size = index = 0
        fixed = None if at.retries else at.subscription.topic
        for each in found:
            while parts[index].last < each.offset:
                index += 1
            base = fixed or _base(at, each.headers, self._node)
            collected = by_base.setdefault(base, Collected())
            message_id = origin._replace(batch_index=each.offset - batch.base) if origin else None
            letter = kind.letter(self._source(at, base), each, parts[index], message_id and str(message_id))
            collected.letters.append(letter)
            collected.ranges.append((each.offset, each.offset))
            size += len(each.value or b"") + len(each.key or b"") + _OVERHEAD
        there = {each.offset for each in found}
        missing = [(n, n) for first, last in ranges for n in range(first, last + 1) if n not in there]
        if missing:
            by_base.setdefault(_base(at, None, self._node), Collected()).ranges += missing
        return size

    def _opened(self, batch: Stored, ranges: Sequence[tuple[int, int]]) -> Asking[list[delivery.Found]]:
        """Some records of a batch; a thread unfolds one that would keep the loop for long. Raises Unreadable."""
        raw, limit = batch.raw(), self._node.decompression_limit
        if limit > AT_ONCE:
            try:
                return delivery.records_at(raw, ranges, AT_ONCE)
            except delivery.TooLarge:
                run = self._node.loop.run_in_executor
                found: list[delivery.Found] = yield run(None, delivery.records_at, bytes(raw), ranges, limit)
                return found
        return delivery.records_at(raw, ranges, limit)

    def _origin(self, at: Place, offset: int) -> MessageId | None:
        """The message id of the first record of a batch."""
        try:
            return id_at(at.partition, offset)._replace(batch_index=0)
        except (StoreError, LookupError):
            return None

    def _source(self, at: Place, base: str) -> letters.Source:
        subscription = at.subscription
        full = letter_names.full_name(self._node.catalog, base)
        return letters.Source(dotted(subscription.topic), at.index, bare(subscription.group), full)


def _base(at: Place, headers: properties.HeaderList | None, node: Collecting) -> str:
    """The topic whose dead letters these are: of retries, the one that the records came from."""
    subscription = at.subscription
    base = subscription.base
    if base is None:
        return subscription.topic
    if base == subscription.topic:
        # a RETRY topic with a name of its own: its records say whose they are
        for name, value in headers or ():
            if name == properties.REAL_TOPIC and value is not None:
                said = letter_names.name_of(value.decode("utf-8", "replace"))
                if (
                    said is not None
                    and node.catalog.get(said) is not None
                    # whoever writes a header does not send letters into another home
                    and node.catalog.namespaces.may_subscribe(subscription.group, said)
                ):
                    return said
    return base
