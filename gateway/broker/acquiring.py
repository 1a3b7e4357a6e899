"""What one share fetch acquires, partition by partition, and the locks of that while its answer cannot leave.

Never is anything acquired that is not sent, save when the client goes away meanwhile. Locks begin when the
answer leaves: what it waits for (a sync, a disk) may take longer than a lock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING

from gateway.broker.acknowledging import check_read, find
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.requests import ShareTold
from gateway.broker.share_sessions import Key, Shared, ShareSession
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.ports import Sharing
    from gateway.broker.requests import ShareFetchRequest
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.reading import Delivery
    from gateway.client_bounds import ClientBounds
    from semantics.subscriptions.cursor import Cursor

# of the records that are asked for, a partition of Key_Shared is asked for a part, but not for less than so many
_LEAST_SHARE = 64
_MOST_SHARES = 9

_SMALL = 100
"""Who asks for fewer records than this is given no more, though a batch were whole then (KIP-1206 lets it be more)."""
_BEYOND = 2
"""Others may get so many times what they ask for, to the end of a batch."""

# what a connection may be given while the clients of this gateway leave more unread than memory.max.bytes
_SCARCE_BYTES = 64 * 1024

Coming = tuple[Shared, Awaitable["Delivery"]]
"""A partition of which a disk was asked for records."""


class Acquiring:
    """For one ShareFetch. Its session has it among its `unsent` while something is acquired whose answer waits."""

    __slots__ = (
        "_budget",
        "_given_by",
        "_limit",
        "_node",
        "_quotas",
        "_request",
        "_rest",
        "_since",
        "_withheld",
        "ahead",
        "connection",
        "gone",
        "session",
        "size",
        "told",
    )

    def __init__(
        self,
        node: Sharing,
        session: ShareSession,
        request: ShareFetchRequest,
        connection: int,
        quotas: ClientBounds | None = None,
    ) -> None:
        """`connection`: the number of that by which the answer goes; `quotas`: what binds its client."""
        self._node = node
        self.session = session
        self._request = request
        self.connection = connection
        self._quotas = quotas
        # True when what is acquired cannot be sent any more
        self.gone = False
        # where it has records whose locks begin when the answer leaves
        self._withheld: set[SubscriptionPartition] = set()
        # by partition, in the order of the session
        self.told: dict[Key, ShareTold] = {}
        # of these the cursors that gave it
        self._given_by: dict[Key, Cursor | None] = {}
        # True when what was found follows from something that is not stored yet
        self.ahead = False
        # bytes of records
        self.size = 0

    def forget(self) -> None:
        """Begin again: what was found went elsewhere, or is not there."""
        self.let_run()
        self.told = {}
        self._given_by = {}
        self.ahead = False
        self.size = 0

    # -- reading ----------------------------------------------------------------------------------------------------

    def look(self) -> Coming | None:
        """Acquire what there is, partition by partition. Not None: a disk must be waited for before it goes on."""
        session, request, node = self.session, self._request, self._node
        if self.told or self._withheld:
            self.forget()
        # how many records, and how many bytes, are left to be acquired
        self._limit = request.max_records if request.max_bytes > 0 else 0
        self._budget = min(request.max_bytes, node.fetch_max_bytes)
        if self._quotas is not None and (most := self._quotas.most_fetched) is not None:
            self._budget = min(self._budget, most)
        session.asked_at = self._since = node.clock.monotonic_ms()
        if node.unsent_bytes > node.memory_limit:
            self._budget = min(self._budget, _SCARCE_BYTES)
        self._rest: Iterator[Shared] = iter(list(session.partitions.values()))
        return self._go_on()

    def _go_on(self) -> Coming | None:
        session = self.session
        member = session.member
        exact = self._request.exact or self._request.max_records < _SMALL
        for shared in self._rest:
            if self._limit <= 0 or (self._budget <= 0 and self.size):
                break
            if self.gone or session.partitions.get(shared.key) is not shared:
                # The session ended while a disk was asked: its member must not become a consumer again.
                continue
            partition = shared.served_by
            try:
                if partition is None or partition.gone:
                    partition = self._attach(shared)
                if not partition.ready().can_serve(member, partition.partition.high_watermark):
                    continue
                if partition.stands_by(member):
                    continue
                limit = self._limit
                most = limit if exact else limit * _BEYOND
                if partition.key_shared and limit > _LEAST_SHARE:
                    limit = self._share(member)
                most = min(most, partition.fair_share(member, session.asked_at))
                limit = min(limit, most)
                delivery = partition.fetch(member, limit, self._budget, most)
            except (KafkaError, StoreError) as error:
                self._fail(shared, error)
                continue
            if isinstance(delivery, tuple):
                self._take(shared, delivery)
            else:
                session.unsent.add(self)
                return shared, delivery
        return None

    def _share(self, member: str) -> int:
        """How many records a partition of Key_Shared may give while others have something too.

        Of a few keys in hand the next records are at hand; of many most wait for their keys, and what is given lies far
        apart.
        """
        others = 1
        for shared in self.session.partitions.values():
            if others == _MOST_SHARES:
                break
            partition = shared.served_by
            if shared.key not in self.told and partition is not None and partition.may_serve(member):
                others += 1
        # this one is among them, as a rule
        return max(-(-self._limit // max(others - 1, 1)), _LEAST_SHARE)

    def expects(self, least: int) -> bool:
        """Whether there may be so many bytes to acquire, or an error to tell. Guessed from the size of the records
        before: what is acquired has to be sent.
        """
        size = 0
        for shared in self.session.partitions.values():
            partition = shared.served_by
            try:
                if partition is None or partition.gone:
                    partition = self._attach(shared)
                cursor = partition.ready()
            except (KafkaError, StoreError):
                return True
            unread = max(partition.partition.high_watermark - cursor.read, 0)
            size += int((cursor.available + unread) * partition.reader.record_bytes)
        return size >= least

    def _attach(self, shared: Shared) -> SubscriptionPartition:
        """Find what serves a partition of the session, and make the member a consumer of it. Raises KafkaError."""
        session = self.session
        shared.served_by = None
        if session.peer.rights.checked:
            check_read(self._node, session.peer.rights, session.group, shared.topic_id)
        partition = find(self._node, session.group, shared.topic_id, shared.index)
        partition.attach(session.member, self._node.share_groups.client_id(session.group, session.member))
        shared.served_by = partition
        return partition

    def _take(self, shared: Shared, delivery: Delivery) -> None:
        if not delivery.acquired:
            return
        if self.gone:
            self._give_back(shared, delivery.acquired)
            return
        firsts, lasts, counts = zip(*delivery.acquired, strict=True)
        partition = shared.served_by
        if partition is not None and partition.unsaved and (partition.key_shared or any(counts)):
            # A count that was told does not fall after a crash, nor does a record come back behind a later one of its
            # key: so the nack, or the acknowledgement, that this delivery follows from is stored before.
            self.ahead = True
        # The wire counts this delivery too.
        acquired = list(zip(firsts, lasts, map((1).__add__, counts), strict=True))
        self.told[shared.key] = ShareTold(shared.index, records=delivery.buffers, acquired=acquired)
        if partition is not None:
            self._given_by[shared.key] = partition.cursor
        self.size += delivery.size
        if self._quotas is not None:
            self._quotas.after_fetch(delivery.size)
        self._budget -= delivery.size
        self._limit -= sum(lasts) - sum(firsts) + len(acquired)
        session = self.session
        session.unconfirmed = True
        if len(session.partitions) > 1 and shared.key in session.partitions:
            # Whoever was served waits behind those that were not.
            session.partitions[shared.key] = session.partitions.pop(shared.key)

    def _fail(self, shared: Shared, error: KafkaError | StoreError) -> None:
        if isinstance(error, StoreError):
            error = from_store(error)
        self.told[shared.key] = ShareTold(shared.index, int(error.code), error.text)

    async def rest(self, shared: Shared, awaited: Awaitable[Delivery]) -> None:
        """What a disk gives that `look` waits for, and what else there is. `withhold` was called before."""
        while True:
            try:
                self._take(shared, await awaited)
            except (KafkaError, StoreError) as error:
                self._fail(shared, error)
            waits = self._go_on()
            if waits is None:
                break
            shared, awaited = waits
            self.withhold()
        if self.gone:
            # it ended meanwhile, and what was found went to others
            self.forget()

    # -- until the answer leaves ------------------------------------------------------------------------------------

    # Locks are withheld in the call that finds out that the answer must wait. What is awaited begins in a later turn of
    # the loop, and in between the machine may stand still for longer than a lock.

    def withhold(self) -> None:
        """The answer cannot leave yet: the locks of what was found so far do not run meanwhile."""
        session = self.session
        session.unsent.add(self)
        for key, told in self.told.items():
            shared = session.partitions.get(key) if told.acquired else None
            if shared is not None and shared.served_by is not None:
                shared.served_by.withhold(session.member, self._since)
                self._withheld.add(shared.served_by)

    def forget_lost(self) -> None:
        """What came of cursors that were thrown away while something was awaited is not held any more, and comes again:
        it is not told.
        """
        session = self.session
        for key, cursor in list(self._given_by.items()):
            shared = session.partitions.get(key) or session.forgotten.get(key)
            partition = shared.served_by if shared is not None else None
            if partition is None or partition.cursor is not cursor:
                told = self.told.pop(key)
                self.size -= sum(map(len, told.records))
                del self._given_by[key]

    def let_run(self) -> None:
        """The answer leaves now: so do the locks begin."""
        while self._withheld:
            self._withheld.pop().sent(self.session.member)

    def sent(self) -> None:
        """Its answer does not wait any more: it leaves, or nobody is told."""
        self.session.unsent.discard(self)

    def put_back(self) -> None:
        """Its session ended, or its connection is lost: nothing that it acquired was delivered."""
        self.gone = True
        session = self.session
        known = {**session.forgotten, **session.partitions}
        for key, told in self.told.items():
            if told.acquired and key in known:
                self._give_back(known[key], told.acquired)
        self.forget()

    def _give_back(self, shared: Shared, acquired: Sequence[Sequence[int]]) -> None:
        if shared.served_by is not None:
            shared.served_by.give_back(self.session.member, [(each[0], each[1]) for each in acquired])
