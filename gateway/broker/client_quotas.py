"""Quotas of users, client ids and addresses: their rows, and the buckets of the clients that they bind (KIP-546).

Which row binds whom is `semantics/quotas.py`. A connection is looked up when it opens, when it calls itself otherwise
and when rows change; in between a request finds its buckets at its peer, None where nothing binds it. Clients of one
quota share a bucket. One that nobody uses any more stays until what was taken is filled again: who comes back owes what
it owed.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from gateway.broker.errors import KafkaError, from_store
from gateway.client_bounds import ClientBounds, Shared
from gateway.peer import canonical
from gateway.wire.errors import Error
from semantics import quotas
from semantics.quotas import Binding, Bucket, Entity, Whose
from store.api import Delete, Family, Put, StoreError, Write

if TYPE_CHECKING:
    from gateway.broker.node import Node
    from gateway.peer import Peer

_PREFIX = b"client-quota/"
_key_decoder = msgspec.msgpack.Decoder(tuple[tuple[str, str | None], ...])
_decoder = msgspec.msgpack.Decoder(dict[str, float])

MOST_ROWS = 20_000
"""Entities that have quotas."""
MOST_IDLE = 100_000
"""Buckets that are kept of clients that are gone, and as many of addresses. Beyond that the oldest are forgotten."""
_SLICE = 500
"""Changes that are looked at, and connections that are looked up, in a turn of the loop."""

Change = tuple[Entity, Mapping[str, "float | None"]]
"""Of an entity: values by their keys, None for those that are taken back."""


class _Used:
    """A bucket, and how many connections are bound by it."""

    __slots__ = ("bucket", "users")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.users = 0


class ClientQuotas:
    """Call `load` once, when the store is open."""

    def __init__(self, node: Node, held: Callable[[str, int, int], None]) -> None:
        """`held`: see `Shared.held`."""
        self._node = node
        self._held = held
        self.rows: dict[Entity, dict[str, float]] = {}
        # whether some are about clients, and not about addresses
        self._bind_clients = self._bind_addresses = False
        self._peers: dict[Peer, tuple[Callable[[int], None], tuple[Whose, ...]]] = {}
        self._buckets: dict[Whose, _Used] = {}
        # those that no connection uses, the longest first; those of addresses
        self._idle: OrderedDict[Whose, None] = OrderedDict()
        self._addresses: OrderedDict[str, Bucket] = OrderedDict()
        # one change at a time: each begins with the rows that the one before it wrote
        self._lock = asyncio.Lock()

    # -- rows -------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Raises StoreError."""
        skip = len(_PREFIX)
        self.rows = {
            _key_decoder.decode(key[skip:]): _decoder.decode(value)
            for key, value in self._node.store.scan(Family.POLICY, _PREFIX)
        }
        self._count_rows()

    def _count_rows(self) -> None:
        addresses = sum(entity[0][0] == quotas.IP for entity in self.rows)
        self._bind_addresses = addresses > 0
        self._bind_clients = len(self.rows) > addresses

    async def alter(self, changes: Sequence[Change], *, validate_only: bool = False) -> None:
        """Change rows, in one commit. When it is over they are in force for all connections. Raises KafkaError."""
        async with self._lock:
            new: dict[Entity, dict[str, float]] = {}
            for at, (entity, values) in enumerate(changes, 1):
                if at % _SLICE == 0:
                    await asyncio.sleep(0)
                row = new.setdefault(entity, dict(self.rows.get(entity, {})))
                for key, value in values.items():
                    if value is None:
                        row.pop(key, None)
                    else:
                        row[key] = value
            more = sum(bool(row) - (entity in self.rows) for entity, row in new.items())
            if more > 0 and len(self.rows) + more > MOST_ROWS:
                raise KafkaError(Error.POLICY_VIOLATION, f"There are quotas of {MOST_ROWS} entities at most.")
            new = {entity: row for entity, row in new.items() if row != self.rows.get(entity, {})}
            if validate_only or not new:
                return
            try:
                await self._node.write([_write(entity, row) for entity, row in new.items()])
            except StoreError as error:
                raise from_store(error) from error
            self.rows.update(new)
            for entity, row in new.items():
                if not row:
                    del self.rows[entity]
            self._count_rows()
            for at, peer in enumerate(list(self._peers), 1):
                if at % _SLICE == 0:
                    await asyncio.sleep(0)
                if peer in self._peers:
                    self.look(peer)

    # -- connections ------------------------------------------------------------------------------------------------

    def opened(self, peer: Peer, hold: Callable[[int], None]) -> None:
        """A connection opens. `hold` leaves it unread for so many ms."""
        self._peers[peer] = hold, ()
        self.look(peer)

    def closed(self, peer: Peer) -> None:
        known = self._peers.pop(peer, None)
        peer.quotas = None
        if known is not None:
            self._release(known[1])

    def look(self, peer: Peer) -> None:
        """What binds it may be something else: it has another client id, or rows have changed."""
        known = self._peers.get(peer)
        if known is None or not (self._bind_clients or known[1]):
            return
        hold, before = known
        user = peer.principal.removeprefix("User:")
        found = [quotas.binding(self.rows, key, user, peer.client_id) for key in quotas.OF_CLIENTS]
        buckets = [self._take(each) if each is not None else None for each in found]
        whose = tuple(each.whose for each in found if each is not None)
        peer.quotas = ClientBounds(self._shared(), hold, *buckets) if whose else None
        self._peers[peer] = hold, whose
        self._release(before)

    def _shared(self) -> Shared:
        window = self._node.settings.integer("quota.window.size.seconds")
        return Shared(self._node.clock.monotonic_ms, time.perf_counter_ns, window * 1000, self._held)

    def _seconds(self) -> int:
        """For so long what is not used is saved up."""
        settings = self._node.settings
        return (settings.integer("quota.window.num") - 1) * settings.integer("quota.window.size.seconds")

    def _take(self, binding: Binding) -> Bucket:
        rate, whose = binding
        if whose[0] == quotas.WORK:
            # of percent: ms of work in a second
            rate *= 10
        used = self._buckets.get(whose)
        if used is None:
            used = _Used(Bucket(rate, self._seconds(), self._node.clock.monotonic_ms()))
            self._buckets[whose] = used
        else:
            self._idle.pop(whose, None)
            self._keep_to(used.bucket, rate)
        used.users += 1
        return used.bucket

    def _keep_to(self, bucket: Bucket, rate: float) -> None:
        if bucket.rate != rate or bucket.most != rate * self._seconds():
            bucket.change(rate, self._seconds(), self._node.clock.monotonic_ms())

    def _release(self, whose: Sequence[Whose]) -> None:
        for each in whose:
            used = self._buckets[each]
            used.users -= 1
            if used.users:
                continue
            if used.bucket.full(self._node.clock.monotonic_ms()):
                del self._buckets[each]
                continue
            self._idle[each] = None
            if len(self._idle) > MOST_IDLE:
                oldest, _ = self._idle.popitem(last=False)
                del self._buckets[oldest]

    def forget_idle(self) -> None:
        """Buckets that are full again and that nobody uses are as good as none."""
        now = self._node.clock.monotonic_ms()
        for whose in [each for each in self._idle if self._buckets[each].bucket.full(now)]:
            del self._idle[whose], self._buckets[whose]
        for address in [each for each, bucket in self._addresses.items() if bucket.full(now)]:
            del self._addresses[address]

    @property
    def kept(self) -> int:
        """Buckets that are kept."""
        return len(self._buckets) + len(self._addresses)

    # -- addresses --------------------------------------------------------------------------------------------------

    def admits(self, address: str) -> bool:
        """Whether a connection from an address may come in now; it counts then."""
        if not self._bind_addresses:
            return True
        address = canonical(address)
        bound = quotas.of_address(self.rows, address)
        if bound is None:
            return True
        now = self._node.clock.monotonic_ms()
        bucket = self._addresses.get(address)
        if bucket is None:
            bucket = self._addresses[address] = Bucket(bound.rate, self._seconds(), now)
            if len(self._addresses) > MOST_IDLE:
                self._addresses.popitem(last=False)
        else:
            self._addresses.move_to_end(address)
            self._keep_to(bucket, bound.rate)
        if bucket.wait(now):
            return False
        bucket.take(1, now)
        return True


def _write(entity: Entity, row: dict[str, float]) -> Write:
    key = _PREFIX + msgspec.msgpack.encode(entity)
    return Put(Family.POLICY, key, msgspec.msgpack.encode(row)) if row else Delete(Family.POLICY, key)
