"""Messages that a call chooses: by name, or by a filter over the windows of a subscription. In slices, and bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin import windows
from gateway.admin.exchange import RefusedError, whole_number
from gateway.admin.windows import Batches, Place
from semantics.console.looking import STATES, Wanted, found
from semantics.subscriptions.states import DONE

if TYPE_CHECKING:
    from gateway.admin.messages import Stored
    from gateway.admin.slices import Pace
    from gateway.broker.broker import Broker
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.console.blocking import Heads

FILTERS = ("state", "key", "text", "slot", "consumer")
LONGEST = 4_096


class Sought(NamedTuple):
    """What a filter asks for."""

    wanted: Wanted
    key: bytes | None = None
    text: bytes | None = None
    consumer: str | None = None

    @property
    def reads(self) -> bool:
        """Whether records must be read for it."""
        return self.key is not None or self.text is not None

    def matches(self, stored: Stored) -> bool:
        """Whether a record is asked for, as far as its bytes say. Text is looked for in values, keys and headers."""
        record = stored.record
        if self.key is not None and record.key != self.key:
            return False
        if self.text is None:
            return True
        parts = (record.value, record.key, *(value for _, value in record.headers))
        return any(part is not None and self.text in part for part in parts)


def sought_by_query(query: Mapping[str, str]) -> Sought:
    """The same of a query, in which forms have "" for what nobody has typed."""
    return sought({name: query[name] for name in FILTERS if query.get(name, "") != ""})


def sought(asked: Mapping[str, Any]) -> Sought:
    """Of JSON. Refuses with 400 what makes no sense. "" as a key is the empty key; elsewhere it would mean all."""
    texts: dict[str, str] = {}
    for name in FILTERS:
        if name not in asked:
            continue
        value = asked[name]
        if value is None or (value == "" and name != "key"):
            raise RefusedError(
                400,
                f"{name} of the filter is {'null' if value is None else 'empty'}: leave it out if messages are not to"
                " be chosen by it.",
            )
        if name == "slot" and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if name == "state" and isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = ",".join(value)
        if not isinstance(value, str) or len(value) > LONGEST:
            raise RefusedError(400, f"{name} of a filter is text of at most {LONGEST} characters.")
        texts[name] = value
    states = None
    if "state" in texts:
        states = frozenset(each.strip().lower() for each in texts["state"].split(","))
        if unknown := sorted(states - set(STATES)):
            raise RefusedError(400, f"A state is one of {', '.join(STATES)}; not {unknown[0][:40]!r}.")
    slot = None
    if "slot" in texts:
        slot = whole_number(texts["slot"], 0, 65_535)
        if slot is None:
            raise RefusedError(400, "A slot is a number from 0 to 65535.")
    key, text, consumer = (texts.get(name) for name in ("key", "text", "consumer"))
    if consumer is not None:
        states = frozenset({"acquired"})
    return Sought(
        Wanted(states, slot),
        key.encode("utf-8", "surrogatepass") if key is not None else None,
        text.encode("utf-8", "surrogatepass") if text is not None else None,
        consumer,
    )


class Hit(NamedTuple):
    """A message that was found, and its record where that was read."""

    at: SubscriptionPartition
    offset: int
    stored: Stored | None


class Found(NamedTuple):
    """What a look came to."""

    hits: list[Hit]
    looked: int
    """open messages that were looked at"""
    next: Place | None
    """where to look on; None: that was all"""


class Look:
    """A look for messages: up to `most` hits; where records are read, `most_read` of them; `seconds` of work."""

    def __init__(
        self,
        broker: Broker,
        filter_: Sought,
        pace: Pace,
        *,
        most: int,
        most_read: int = 1 << 60,
        seconds: float = 1e9,
        heads: Heads | None = None,
    ) -> None:
        """`heads`: those of the one partition that is looked at, where they are known."""
        self._broker = broker
        self._sought = filter_
        self._pace = pace
        self._most = most
        self._left = most_read
        self._seconds = seconds
        self._heads = heads
        self._hits: list[Hit] = []
        self._looked = 0

    async def go(self, ats: Sequence[SubscriptionPartition], begin: Place) -> Found:
        """From a place on. Raises KafkaError."""
        for at in ats:
            if at.index < begin.partition:
                continue
            behind = await self._partition(at, begin.offset if at.index == begin.partition else 0)
            if behind is not None:
                return Found(self._hits, self._looked, Place(at.index, behind))
        return Found(self._hits, self._looked, None)

    async def _partition(self, at: SubscriptionPartition, offset: int) -> int | None:
        """One of them: where to look on, None at its end."""
        wanted, pace = self._sought.wanted, self._pace
        cursor = at.ready()
        offset = max(offset, cursor.start)
        batches = Batches(self._broker, at.partition, pace)
        closely = wanted.states is not None and len(wanted.states & {"available", "blocked"}) == 1
        heads = self._heads
        if heads is None and closely:
            heads = await windows.heads_of(cursor, pace)
        codes = wanted.codes
        for piece in cursor.planes(offset, cursor.known):
            begun = self._looked
            for first, last in found(piece, wanted, codes, heads):
                for each in range(first, last + 1):
                    if self._over:
                        self._looked = begun + _open_before(piece.states, each - piece.first)
                        return each
                    await self._meet(at, batches, each)
                    if not each & 31:
                        await pace.rest()
                await pace.rest()
            self._looked = begun + _open_before(piece.states, len(piece.states))
            if self._over:
                return piece.first + len(piece.states)
            await pace.rest()
        if not wanted.unread:
            return None
        return await self._unread(at, batches, max(offset, cursor.known))

    async def _unread(self, at: SubscriptionPartition, batches: Batches, offset: int) -> int | None:
        """What the cursor has not come to: the log says what there is."""
        end = at.partition.high_watermark
        while offset < end:
            if self._over:
                return offset
            if await batches.at(offset) is None:
                # nothing there, or a batch of which nothing is for consumers
                behind = batches.next if not batches.some else offset + 1
                self._looked += behind - offset
                offset = behind
            else:
                self._looked += 1
                await self._meet(at, batches, offset)
                offset += 1
            await self._pace.rest()
        return None

    @property
    def _over(self) -> bool:
        return len(self._hits) >= self._most or self._left <= 0 or self._pace.spent >= self._seconds

    async def _meet(self, at: SubscriptionPartition, batches: Batches, offset: int) -> None:
        """A message in a state that is asked for."""
        wanted = self._sought
        if wanted.consumer is not None and (
            at.cursor is None or not at.cursor.holds(wanted.consumer, [(offset, offset)])
        ):
            return
        stored = None
        if wanted.reads:
            self._left -= 1
            stored = await batches.at(offset)
            if stored is None or not wanted.matches(stored):
                return
        self._hits.append(Hit(at, offset, stored))


def _open_before(states: bytes, end: int) -> int:
    return end - states.count(DONE, 0, end)
