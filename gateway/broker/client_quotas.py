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
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.broker.changing import stored
from gateway.broker.errors import KafkaError
from gateway.client_bounds import ClientBounds, Shared
from gateway.peer import canonical
from gateway.wire.errors import Error
from semantics import quotas
from semantics.quotas import Binding, Bucket, Entity, QuotaError, Whose
from store.api import Delete, Family, Put, Write

if TYPE_CHECKING:
    from gateway.broker.node import Node
    from gateway.peer import Peer

_PREFIX = b"client-quota/"
_LOWER = b"tenant-quota/"
_key_decoder = msgspec.msgpack.Decoder(tuple[tuple[str, str | None], ...])
_decoder = msgspec.msgpack.Decoder(dict[str, float])

MOST_ROWS = 20_000
"""Entities that have quotas; and as many more of tenants."""
MOST_OF_TENANT = MOST_ROWS // 4
"""Of those, the most of one tenant."""
MOST_IDLE = 100_000
"""Buckets that are kept of clients that are gone, and as many of addresses. Beyond that the oldest are forgotten."""
_SLICE = 500
"""Changes and idle buckets that are looked at, and connections that are looked up, in a turn of the loop."""

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
        # those that tenants have set for their users, which leave nobody more
        self.lower: dict[Entity, dict[str, float]] = {}
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
        self.rows, self.lower = self._read(_PREFIX), self._read(_LOWER)
        self._count_rows()

    def _read(self, prefix: bytes) -> dict[Entity, dict[str, float]]:
        skip = len(prefix)
        return {
            _key_decoder.decode(key[skip:]): _decoder.decode(value)
            for key, value in self._node.store.scan(Family.POLICY, prefix)
        }

    def _count_rows(self) -> None:
        addresses = sum(entity[0][0] == quotas.IP for entity in self.rows)
        self._bind_addresses = addresses > 0
        self._bind_clients = len(self.rows) > addresses or bool(self.lower)

    def shown(self) -> list[tuple[Entity, dict[str, float]]]:
        """All rows, as they are in force."""
        found = {entity: dict(row) for entity, row in self.rows.items()}
        for entity, row in self.lower.items():
            its = found.setdefault(entity, {})
            for key, value in row.items():
                its[key] = min(value, its.get(key, value))
        return list(found.items())

    def check_lower(self, change: Change) -> None:
        """Whether a tenant may change this. Raises QuotaError."""
        entity, values = change
        for key, value in values.items():
            if value is not None:
                quotas.check_lower(self.rows, entity, key, value)
            elif key in self.rows.get(entity, ()) and key not in self.lower.get(entity, ()):
                raise QuotaError(f"A super-user has set {key}: it can be lowered, and not taken away.")

    async def alter(
        self, changes: Sequence[Change], *, validate_only: bool = False, owner: str | None = None
    ) -> None:
        """Change rows, in one commit. When it is over they are in force for all connections. `owner`: how the names of
        the users begin whose tenant changes rows of its own; None: what is said holds whatever their tenants have said.
        Raises KafkaError.
        """
        async with self._lock:
            rows: dict[Entity, dict[str, float]] = {}
            lower: dict[Entity, dict[str, float]] = {}
            for at, (entity, values) in enumerate(changes, 1):
                if at % _SLICE == 0:
                    await asyncio.sleep(0)
                theirs = lower.setdefault(entity, dict(self.lower.get(entity, {})))
                if owner is None:
                    _apply(values, rows.setdefault(entity, dict(self.rows.get(entity, {}))))
                    _apply(dict.fromkeys(values), theirs)
                else:
                    _apply(values, theirs)
            self._check_room(rows, lower, owner)
            rows, lower = _changed(self.rows, rows), _changed(self.lower, lower)
            if validate_only or not (rows or lower):
                return
            writes = [_write(_PREFIX, entity, row) for entity, row in rows.items()]
            writes += [_write(_LOWER, entity, row) for entity, row in lower.items()]

            def done() -> None:
                _keep(self.rows, rows)
                _keep(self.lower, lower)
                self._count_rows()

            try:
                await stored(self._node, writes, done, self.load)
            finally:
                # also where nobody knows what is stored, and where nobody waits any more
                await self._look_at_all()

    async def _look_at_all(self) -> None:
        for at, peer in enumerate(list(self._peers), 1):
            if at % _SLICE == 0:
                await asyncio.sleep(0)
            if peer in self._peers:
                self.look(peer)

    def _check_room(
        self, rows: Mapping[Entity, object], lower: Mapping[Entity, object], owner: str | None
    ) -> None:
        """Raises KafkaError."""
        for kept, new in (self.rows, rows), (self.lower, lower):
            more = _more(kept, new)
            if more > 0 and len(kept) + more > MOST_ROWS:
                raise KafkaError(Error.POLICY_VIOLATION, f"There are quotas of {MOST_ROWS} entities at most.")
        if owner is not None and (more := _more(self.lower, lower)) > 0:
            own = sum((dict(entity)[quotas.USER] or "").startswith(owner) for entity in self.lower)
            if own + more > MOST_OF_TENANT:
                raise KafkaError(
                    Error.POLICY_VIOLATION, f"A tenant has quotas of {MOST_OF_TENANT} of its users at most."
                )

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
        found = [quotas.bound(self.rows, self.lower, key, user, peer.client_id) for key in quotas.OF_CLIENTS]
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

    def forget_idle(self) -> Coroutine[Any, Any, None] | None:
        """Buckets that are full again and that nobody uses are as good as none. If there are more than are looked at in
        a turn of the loop: a coroutine that looks at the others.
        """
        slices = self._look_at_idle()
        return _rest(slices) if next(slices, False) else None

    def _look_at_idle(self) -> Iterator[bool]:
        """True behind each slice while more may be left. Those that stay go to the end, so that each is looked at once
        and all of them are in the order in which they were.
        """
        clock, looked = self._node.clock, 0
        idle, addresses = self._idle, self._addresses
        # others may come and go between the slices
        for _ in range(len(idle)):
            if not idle:
                break
            whose = next(iter(idle))
            if self._buckets[whose].bucket.full(clock.monotonic_ms()):
                del idle[whose], self._buckets[whose]
            else:
                idle.move_to_end(whose)
            looked += 1
            if not looked % _SLICE:
                yield True
        for _ in range(len(addresses)):
            if not addresses:
                break
            address = next(iter(addresses))
            if addresses[address].full(clock.monotonic_ms()):
                del addresses[address]
            else:
                addresses.move_to_end(address)
            looked += 1
            if not looked % _SLICE:
                yield True

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


async def _rest(slices: Iterator[bool]) -> None:
    """One slice in a turn of the loop."""
    await asyncio.sleep(0)
    for _ in slices:
        await asyncio.sleep(0)


Rows = dict[Entity, dict[str, float]]


def _apply(values: Mapping[str, float | None], row: dict[str, float]) -> None:
    for key, value in values.items():
        if value is None:
            row.pop(key, None)
        else:
            row[key] = value


def _more(kept: Mapping[Entity, object], new: Mapping[Entity, object]) -> int:
    return sum(bool(row) - (entity in kept) for entity, row in new.items())


def _changed(kept: Rows, new: Rows) -> Rows:
    return {entity: row for entity, row in new.items() if row != kept.get(entity, {})}


def _keep(kept: Rows, new: Rows) -> None:
    kept.update(new)
    for entity, row in new.items():
        if not row:
            del kept[entity]


def _write(prefix: bytes, entity: Entity, row: dict[str, float]) -> Write:
    key = prefix + msgspec.msgpack.encode(entity)
    return Put(Family.POLICY, key, msgspec.msgpack.encode(row)) if row else Delete(Family.POLICY, key)
