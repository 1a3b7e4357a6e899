"""Share fetches at work: from a decoded request to its answer (KIP-932, KIP-1206, KIP-1222).

Acknowledgements take effect first, then records are acquired. What was acknowledged is told once it is durable, with
the records that were found meanwhile; an answer that tells of acknowledgements is never kept back for max_wait, as
Kafka would: its client would not know for that long. A fetch that has nothing to tell parks on its partitions until
one of them can serve it, max_wait is over, or another request arrives behind it on the same connection.

Never is anything acquired that is not sent, save when the client goes away meanwhile. Locks begin when the
answer leaves: what it waits for (a sync, a disk) may take longer than a lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gateway.broker.acknowledging import (
    MAX_MEMBER_ID,
    NO_GROUP,
    NO_MEMBER,
    Acknowledging,
    Answer,
    find,
)
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.share_sessions import FINAL_EPOCH, Key, Shared, ShareSession
from gateway.wire import share as wire
from gateway.wire.errors import Error
from semantics.subscriptions.states import Ending
from store.api import Durability, StoreError
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.ports import Sharing
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.reading import Delivery
    from gateway.peer import Peer

# of the records that are asked for, a partition of Key_Shared is asked for a part, but not for less than so many
_LEAST_SHARE = 64
_MOST_SHARES = 9

_SMALL = 100
"""Who asks for fewer records than this is given no more, though a batch were whole then (KIP-1206 lets it be more)."""
_BEYOND = 2
"""Others may get so many times what they ask for, to the end of a batch."""

# what a connection may be given while the clients of this gateway leave more unread than memory.max.bytes
_SCARCE_BYTES = 64 * 1024


Encoder = Callable[[int, str | None, int, Sequence[tuple[bytes, Sequence[wire.PartitionAnswer]]]], Answer]
"""(error code, sentence, lock ms, what is told of each topic) -> the frame"""


class ShareFetch(Acknowledging):
    """One ShareFetch request."""

    __slots__ = (
        "_ahead",
        "_budget",
        "_encoder",
        "_full",
        "_gone",
        "_hurried",
        "_limit",
        "_refusal",
        "_request",
        "_rest",
        "_session",
        "_size",
        "_timer",
        "_told",
        "_withheld",
        "consumer",
    )

    def __init__(
        self,
        node: Sharing,
        peer: Peer,
        client_id: str,
        request: wire.ShareFetchRequest,
        encode: Encoder,
    ) -> None:
        super().__init__(node, peer, client_id)
        self._request = request
        self._encoder = encode
        self._session: ShareSession | None = None
        # the member, as its partitions know it
        self.consumer = request.member_id or ""
        self._timer: asyncio.TimerHandle | None = None
        # what is answered when the wait is over, in place of records
        self._refusal: Error | None = None
        # True when what is acquired cannot be sent any more
        self._gone = False
        # True when the next request waits behind it
        self._hurried = False
        # where it has records whose locks begin when the answer leaves
        self._withheld: set[SubscriptionPartition] = set()
        # True when every partition is told of, as in the first answer of a session
        self._full = False
        self._begin()

    def _begin(self) -> None:
        """Forget what was found."""
        self._let_run()
        # by partition, in the order of the session
        self._told: dict[Key, wire.PartitionAnswer] = {}
        # True when what was found follows from something that is not stored yet
        self._ahead = False
        self._size = 0

    def start(self) -> Pending[Answer]:
        """The answer; a promise of it when it is parked, or waits until its acknowledgements are stored."""
        request = self._request
        return self._when_loaded(request.group_id, request.member_id, request.topics, self._start)

    def _start(self) -> Pending[Answer]:
        request = self._request
        session = self._open()
        if isinstance(session, Error):
            if session is Error.SHARE_SESSION_LIMIT_REACHED or (
                session is Error.SHARE_SESSION_NOT_FOUND and request.session_epoch == 0
            ):
                # Kafka too lets them wait before it says so: they would ask again at once.
                self._refusal = session
                return self._promised() if self._park() else self._refuse(session)
            return self._refuse(session)
        self._session = session
        if request.session_epoch != 0:
            group, member = session.group, session.member
            self._acknowledge(group, member, request.topics, request.is_renew_ack)
            if session.forgotten:
                session.let_go()
            if request.session_epoch == FINAL_EPOCH:
                self._node.share_sessions.close(session, Ending.LEFT)
                return self._when_durable(self._encode())
        waits = self._look() if self._enough() else None
        if waits is not None:
            return self._finish_cold(*waits)
        wanted = request.max_records > 0 and request.max_bytes > 0 and bool(session.partitions)
        if wanted and not (self._told or self._acks) and self._park():
            return self._promised()
        if self._ahead and not self._uncommitted:
            return self._finish()
        return self._when_durable(self._encode())

    # -- sessions ---------------------------------------------------------------------------------------------------

    def _open(self) -> ShareSession | Error:
        """The session, or why there is none."""
        request, sessions = self._request, self._node.share_sessions
        group, member = request.group_id, request.member_id
        if group is None or not member or len(member) > MAX_MEMBER_ID:
            return Error.INVALID_REQUEST
        if request.is_renew_ack and (
            request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
        ):
            # KIP-1222: such a request fetches nothing, and says so by what it asks for
            return Error.INVALID_REQUEST
        epoch = request.session_epoch
        if epoch == 0:
            if any(acks for _, partitions in request.topics for _, acks in partitions):
                return Error.INVALID_REQUEST
            known = sessions.open(group, member, self.connection, self._client)
            self._full = True
        else:
            known = sessions.advance(group, member, epoch, self.connection, self._client)
        if isinstance(known, Error) or epoch == FINAL_EPOCH:
            return known
        session = known
        for topic_id, partitions in request.topics:
            for index, _ in partitions:
                session.want(topic_id, index)
        # Behind what is asked, as in Kafka: what is named in both is forgotten.
        for topic_id, indexes in request.forgotten:
            for index in indexes:
                session.forget(topic_id, index)
        if epoch == 0 and session.forgotten:
            session.let_go()
        if (request.topics or request.forgotten or epoch == 0) and not sessions.count(session):
            sessions.close(session, Ending.STOPPED)
            return Error.SHARE_SESSION_LIMIT_REACHED
        return session

    # -- reading ----------------------------------------------------------------------------------------------------

    def _look(self) -> tuple[Shared, Awaitable[Delivery]] | None:
        """Acquire what there is, partition by partition. Not None: a disk must be waited for before it goes on."""
        session = self._session
        assert session is not None
        self._begin()
        # how many records, and how many bytes, are left to be acquired
        self._limit = self._request.max_records if self._request.max_bytes > 0 else 0
        self._budget = min(self._request.max_bytes, self._node.fetch_max_bytes)
        session.asked_at = self._node.clock.monotonic_ms()
        if self._node.unsent_bytes > self._node.memory_limit:
            self._budget = min(self._budget, _SCARCE_BYTES)
        self._rest: Iterator[Shared] = iter(list(session.partitions.values()))
        return self._go_on()

    def _go_on(self) -> tuple[Shared, Awaitable[Delivery]] | None:
        session = self._session
        assert session is not None
        member = session.member
        strict = self._request.acquire_mode == wire.RECORD_LIMIT or self._request.max_records < _SMALL
        for shared in self._rest:
            if self._limit <= 0 or (self._budget <= 0 and self._size):
                break
            if self._gone or session.partitions.get(shared.key) is not shared:
                # The session ended while a disk was asked: its member must not become a consumer again.
                continue
            partition = shared.served_by
            try:
                if partition is None or partition.gone:
                    partition = self._attach(shared)
                if not partition.ready().can_serve(member, partition.partition.high_watermark):
                    continue
                limit = self._limit
                most = limit if strict else limit * _BEYOND
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
        session = self._session
        assert session is not None
        others = 1
        for shared in session.partitions.values():
            if others == _MOST_SHARES:
                break
            partition = shared.served_by
            if shared.key not in self._told and partition is not None and partition.may_serve(member):
                others += 1
        # this one is among them, as a rule
        return max(-(-self._limit // max(others - 1, 1)), _LEAST_SHARE)

    def _enough(self) -> bool:
        """Whether there may be min_bytes to acquire, or something else to tell. Guessed from the size of the records
        before: what is acquired has to be sent.
        """
        request, session = self._request, self._session
        if request.min_bytes <= 1 or request.max_wait_ms <= 0 or self._acks or session is None:
            return True
        size = 0
        for shared in session.partitions.values():
            partition = shared.served_by
            try:
                if partition is None or partition.gone:
                    partition = self._attach(shared)
                cursor = partition.ready()
            except (KafkaError, StoreError):
                return True
            unread = max(partition.partition.high_watermark - cursor.read, 0)
            size += int((cursor.available + unread) * partition.record_bytes)
        return size >= min(request.min_bytes, self._node.fetch_max_bytes)

    def _attach(self, shared: Shared) -> SubscriptionPartition:
        """Find what serves a partition of the session, and make the member a consumer of it. Raises KafkaError."""
        session = self._session
        assert session is not None
        shared.served_by = None
        partition = find(self._node, session.group, shared.topic_id, shared.index)
        partition.attach(session.member, self._node.share_groups.client_id(session.group, session.member))
        shared.served_by = partition
        return partition

    def _take(self, shared: Shared, delivery: Delivery) -> None:
        if not delivery.acquired:
            return
        if self._gone:
            self._give_back(shared, delivery.acquired)
            return
        firsts, lasts, counts = zip(*delivery.acquired, strict=True)
        partition = shared.served_by
        if partition is not None and partition.unsaved and (partition.key_shared or any(counts)):
            # A count that was told does not fall after a crash, nor does a record come back behind a later one of its
            # key: so the nack, or the acknowledgement, that this delivery follows from is stored before.
            self._ahead = True
        # The wire counts this delivery too.
        acquired = list(zip(firsts, lasts, map((1).__add__, counts), strict=True))
        self._told[shared.key] = wire.PartitionAnswer(
            shared.index, records=delivery.buffers, acquired=acquired
        )
        self._size += delivery.size
        self._budget -= delivery.size
        self._limit -= sum(lasts) - sum(firsts) + len(acquired)
        session = self._session
        if session is not None:
            session.unconfirmed = True
        if session is not None and len(session.partitions) > 1 and shared.key in session.partitions:
            # Whoever was served waits behind those that were not.
            session.partitions[shared.key] = session.partitions.pop(shared.key)

    def put_back(self) -> None:
        """Its session ended, or its connection is lost: nothing that it acquired was delivered."""
        self._gone = True
        session = self._session
        assert session is not None
        known = {**session.forgotten, **session.partitions}
        for key, answer in self._told.items():
            if answer.acquired and key in known:
                self._give_back(known[key], answer.acquired)
        self._begin()

    def _give_back(self, shared: Shared, acquired: Sequence[Sequence[int]]) -> None:
        if shared.served_by is not None:
            shared.served_by.give_back(self.consumer, [(each[0], each[1]) for each in acquired])

    def _fail(self, shared: Shared, error: KafkaError | StoreError) -> None:
        if isinstance(error, StoreError):
            error = from_store(error)
        self._told[shared.key] = wire.PartitionAnswer(shared.index, int(error.code), error.text)

    def _withhold(self) -> None:
        """The answer cannot leave yet: the locks of what was found so far do not run meanwhile."""
        session = self._session
        assert session is not None
        for key, answer in self._told.items():
            shared = session.partitions.get(key) if answer.acquired else None
            if shared is not None and shared.served_by is not None:
                shared.served_by.withhold(self.consumer, answer.acquired)
                self._withheld.add(shared.served_by)

    def _let_run(self) -> None:
        """The answer leaves now: so do the locks begin."""
        while self._withheld:
            self._withheld.pop().sent(self.consumer)

    # Locks are withheld in the call that finds out that the answer must wait. What is awaited begins in a later turn of
    # the loop, and in between the machine may stand still for longer than a lock.

    def _finish_cold(self, shared: Shared, awaited: Awaitable[Delivery]) -> Awaitable[Answer]:
        """The answer once a disk has given what is waited for, and what else there is. To be awaited."""
        self._withhold()
        return self._finished_cold(shared, awaited)

    async def _finished_cold(self, shared: Shared, awaited: Awaitable[Delivery]) -> Answer:
        while True:
            try:
                self._take(shared, await awaited)
            except (KafkaError, StoreError) as error:
                self._fail(shared, error)
            waits = self._go_on()
            if waits is None:
                break
            shared, awaited = waits
            self._withhold()
        if self._gone:
            # it ended meanwhile, and what was found went to others
            self._begin()
        return await self._finish()

    def _finish(self) -> Awaitable[Answer]:
        """The answer with what was found, when all it follows from is stored. To be awaited."""
        session = self._session
        assert session is not None
        session.unsent.add(self)
        self._withhold()
        return self._finished(session)

    async def _finished(self, session: ShareSession) -> Answer:
        try:
            if self._ahead:
                try:
                    await self._node.write((), Durability.OS)
                except StoreError:
                    # what was acquired went with the cursors
                    self._begin()
            if self._uncommitted:
                self._held = self._encode()
                return await self._promised()
            return self._encode()
        finally:
            session.unsent.discard(self)
            self._let_run()

    # -- the answer -------------------------------------------------------------------------------------------------

    def _refuse(self, error: Error) -> Answer:
        text = None
        if error is Error.INVALID_REQUEST:
            request = self._request
            if request.group_id is None:
                text = NO_GROUP
            elif not request.member_id or len(request.member_id) > MAX_MEMBER_ID:
                text = NO_MEMBER
            elif request.session_epoch == 0:
                text = "The request that opens a session can acknowledge nothing."
            else:
                text = "A request that renews fetches nothing: its limits and its wait must be 0."
        return self._encoder(error, text, 0, ())

    def _when_durable(self, answer: Answer) -> Pending[Answer]:
        if self._uncommitted and self._size and self._session is not None:
            self._session.unsent.add(self)
            self._withhold()
        return super()._when_durable(answer)

    def _stored(self, held: Answer) -> Pending[Answer]:
        if self._session is not None:
            self._session.unsent.discard(self)
        if self._gone:
            return self._encode()
        if self._size:
            self._let_run()
            return held
        # What came meanwhile, with the same commit as a rule, need not wait for the next fetch.
        waits = self._look()
        if waits is not None:
            return self._finish_cold(*waits)
        if not self._size:
            return held
        return self._finish() if self._ahead else self._encode()

    def _failed(self) -> Answer:
        # What was acquired went with the cursors: they are read again from the store.
        if self._session is not None:
            self._session.unsent.discard(self)
        self._begin()
        return self._encode()

    def _encode(self) -> Answer:
        told, acks, session = self._told, self._acks, self._session
        assert session is not None
        if acks:
            for key, (code, text) in acks.items():
                known = told.get(key)
                if known is None:
                    told[key] = wire.PartitionAnswer(key[1], 0, None, code, text)
                elif code:
                    told[key] = known._replace(ack_error=code, ack_error_message=text)
        if self._full:
            for key in session.partitions:
                if key not in told:
                    told[key] = wire.PartitionAnswer(key[1])
        topics: dict[bytes, list[wire.PartitionAnswer]] = {}
        for (topic_id, _), answer in told.items():
            if topic_id in topics:
                topics[topic_id].append(answer)
            else:
                topics[topic_id] = [answer]
        lock_ms = self._node.subscriptions.configs.lock_ms(session.group)
        return self._encoder(0, None, lock_ms, list(topics.items()))

    # -- waiting ----------------------------------------------------------------------------------------------------

    def _park(self) -> bool:
        """Wait for data; False when the client does not want to."""
        wait = self._request.max_wait_ms
        if wait <= 0 or self._hurried:
            return False
        session = self._session
        if session is not None:
            if session.parked is not None:
                session.parked.end()
            session.parked = self
            for shared in session.partitions.values():
                if shared.served_by is not None:
                    shared.served_by.park(self)
        self._timer = self._node.loop.call_later(wait / 1000, self.expire)
        self._node.metrics.fetches_parked.inc()
        return True

    def wake(self, partition: SubscriptionPartition) -> None:
        """One of its partitions may have something for it. It is not parked there any more."""
        if self._timer is None:
            return
        waits = self._look() if self._enough() else None
        if waits is None and not self._told:
            partition.park(self)
            return
        self._unpark()
        self._conclude(waits)

    def expire(self) -> None:
        """Answer now, with what there is."""
        self._hurried = True
        if self._timer is None:
            return
        self._unpark()
        if self._refusal is not None:
            self._tell(self._refuse(self._refusal))
            return
        # Its partitions would have woken it; but they do not know of min_bytes.
        self._conclude(self._look() if self._request.min_bytes > 1 else None)

    def _conclude(self, waits: tuple[Shared, Awaitable[Delivery]] | None) -> None:
        """Tell what was found, once it is all there and what it follows from is stored."""
        if waits is not None:
            self._tell(self._finish_cold(*waits))
        else:
            self._tell(self._finish() if self._ahead else self._encode())

    def end(self) -> None:
        """There is nothing to wait for any more."""
        if self._timer is not None:
            self._unpark()
            self._tell(self._encode())

    def cancel(self) -> None:
        """The connection is gone: nobody is told."""
        self._unpark()
        self._promise = None
        if self._loading is not None:
            self._loading.cancel()
        if self._session is not None:
            self._session.unsent.discard(self)
            self.put_back()

    def _unpark(self) -> None:
        timer, self._timer = self._timer, None
        if timer is None:
            return
        timer.cancel()
        self._node.metrics.fetches_parked.dec()
        session = self._session
        if session is not None:
            if session.parked is self:
                session.parked = None
            for shared in session.partitions.values():
                if shared.served_by is not None:
                    shared.served_by.unpark(self)
