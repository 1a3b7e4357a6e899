"""Share fetches at work: from a request to its answer (KIP-932, KIP-1206, KIP-1222).

Acknowledgements take effect first, then records are acquired (`acquiring.py`). What was acknowledged is told once it is
durable, with the records that were found meanwhile; an answer that tells of acknowledgements is never kept back for
max_wait, as Kafka would: its client would not know for that long. A fetch that has nothing to tell parks on its
partitions until one of them can serve it, max_wait is over, or another request arrives behind it on the same
connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol

from gateway.broker.acknowledging import MAX_MEMBER_ID, NO_GROUP, NO_MEMBER, Acknowledging
from gateway.broker.acquiring import Acquiring, Coming
from gateway.broker.requests import Answer, ShareTold
from gateway.broker.share_sessions import FINAL_EPOCH, ShareSession
from gateway.wire.errors import Error
from semantics.subscriptions.states import Ending
from store.api import Durability, StoreError
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.ports import Sharing
    from gateway.broker.requests import ShareFetchRequest
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.peer import Peer


class Encoder(Protocol):
    """Makes the frame."""

    def __call__(
        self,
        error: int,
        error_message: str | None,
        lock_ms: int,
        topics: Sequence[tuple[bytes, Sequence[ShareTold]]],
        /,
        *,
        throttle_ms: int = 0,
    ) -> Answer:
        """Of an error, and what is told of each topic; `throttle_ms`: so long the client should wait."""
        ...


class ShareFetch(Acknowledging):
    """One ShareFetch request."""

    __slots__ = (
        "_encoder",
        "_found",
        "_full",
        "_hurried",
        "_quotas",
        "_refusal",
        "_request",
        "_throttle_ms",
        "_timer",
        "consumer",
    )

    def __init__(
        self,
        node: Sharing,
        peer: Peer,
        client_id: str,
        request: ShareFetchRequest,
        encode: Encoder,
    ) -> None:
        super().__init__(node, peer, client_id)
        self._request = request
        self._encoder = encode
        self._quotas = peer.quotas
        # how long its client should wait before it asks again: it is given nothing now
        self._throttle_ms = 0
        # what it acquires; None without a session
        self._found: Acquiring | None = None
        # the member, as its partitions know it
        self.consumer = request.member_id or ""
        self._timer: asyncio.TimerHandle | None = None
        # what is answered when the wait is over, in place of records
        self._refusal: Error | None = None
        # True when the next request waits behind it
        self._hurried = False
        # True when every partition is told of, as in the first answer of a session
        self._full = False

    def start(self) -> Pending[Answer]:
        """The answer; a promise of it when it is parked, or waits until its acknowledgements are stored."""
        request = self._request
        if not self._may_read_in(request.group_id):
            return self._refuse(Error.GROUP_AUTHORIZATION_FAILED)
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
        found = self._found = Acquiring(self._node, session, request, self.connection, self._quotas)
        if request.session_epoch != 0:
            group, member = session.group, session.member
            self._acknowledge(group, member, request.topics, request.is_renew_ack)
            if session.forgotten:
                session.let_go()
            if request.session_epoch == FINAL_EPOCH:
                self._node.share_sessions.close(session, Ending.LEFT)
                if self._quotas is not None:
                    # it is given nothing, and the work on it and on what came before counts as that on any request
                    self._throttle_ms = self._quotas.after_request()
                return self._when_durable(self._encode())
        if self._quotas is not None and (throttle_ms := self._quotas.before_fetch()):
            self._throttle_ms = throttle_ms
            return self._when_durable(self._encode())
        waits = found.look() if self._enough() else None
        if waits is not None:
            return self._finish_cold(found, waits)
        wanted = request.max_records > 0 and request.max_bytes > 0 and bool(session.partitions)
        if wanted and not (found.told or self._acks) and self._park():
            return self._promised()
        if found.ahead and not self._uncommitted:
            return self._finish(found)
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
            known = sessions.open(group, member, self._peer, self._client)
            self._full = True
        else:
            known = sessions.advance(group, member, epoch, self._peer, self._client)
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

    def _enough(self) -> bool:
        """Whether there may be min_bytes to acquire, or something else to tell."""
        request, found = self._request, self._found
        if request.min_bytes <= 1 or request.max_wait_ms <= 0 or self._acks or found is None:
            return True
        return found.expects(min(request.min_bytes, self._node.fetch_max_bytes))

    def _finish_cold(self, found: Acquiring, waits: Coming) -> Awaitable[Answer]:
        """The answer once a disk has given what is waited for, and what else there is. To be awaited."""
        found.withhold()
        return self._finished_cold(found, waits)

    async def _finished_cold(self, found: Acquiring, waits: Coming) -> Answer:
        await found.rest(*waits)
        return await self._finish(found)

    def _finish(self, found: Acquiring) -> Awaitable[Answer]:
        """The answer with what was found, when all it follows from is stored. To be awaited."""
        found.withhold()
        return self._finished(found)

    async def _finished(self, found: Acquiring) -> Answer:
        try:
            if found.ahead:
                try:
                    await self._node.write((), Durability.OS)
                except StoreError:
                    # what was acquired went with the cursors
                    found.forget()
            found.forget_lost()
            if self._uncommitted:
                self._held = self._encode()
                return await self._promised()
            return self._encode()
        finally:
            found.sent()
            found.let_run()

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
        # whoever asks in vain is held back as others are, by the work on what it asked before
        throttle_ms = self._quotas.after_request() if self._quotas is not None else 0
        return self._encoder(error, text, 0, (), throttle_ms=throttle_ms)

    def _when_durable(self, answer: Answer) -> Pending[Answer]:
        found = self._found
        if self._uncommitted and found is not None and found.size:
            found.withhold()
        return super()._when_durable(answer)

    def _stored(self, held: Answer) -> Pending[Answer]:
        found = self._found
        assert found is not None, "it has acknowledged something"
        found.sent()
        if found.gone:
            return self._encode()
        if found.size or self._throttle_ms:
            found.let_run()
            return held
        # What came meanwhile, with the same commit as a rule, need not wait for the next fetch.
        waits = found.look()
        if waits is not None:
            return self._finish_cold(found, waits)
        if not found.size:
            return held
        return self._finish(found) if found.ahead else self._encode()

    def _failed(self) -> Answer:
        # What was acquired went with the cursors: they are read again from the store.
        if self._found is not None:
            self._found.sent()
            self._found.forget()
        return self._encode()

    def _encode(self) -> Answer:
        found = self._found
        assert found is not None
        told, acks, session = found.told, self._acks, found.session
        if acks:
            for key, (code, text) in acks.items():
                known = told.get(key)
                if known is None:
                    told[key] = ShareTold(key[1], 0, None, code, text)
                elif code:
                    told[key] = known._replace(ack_error=code, ack_error_message=text)
        if self._full:
            for key in session.partitions:
                if key not in told:
                    told[key] = ShareTold(key[1])
        topics: dict[bytes, list[ShareTold]] = {}
        for (topic_id, _), answer in told.items():
            if topic_id in topics:
                topics[topic_id].append(answer)
            else:
                topics[topic_id] = [answer]
        lock_ms = self._node.subscriptions.configs.lock_ms(session.group)
        return self._encoder(0, None, lock_ms, list(topics.items()), throttle_ms=self._throttle_ms)

    # -- waiting ----------------------------------------------------------------------------------------------------

    def _park(self) -> bool:
        """Wait for data; False when the client does not want to."""
        wait = self._request.max_wait_ms
        if wait <= 0 or self._hurried:
            return False
        if self._found is not None:
            session = self._found.session
            if session.parked is not None:
                session.parked.end()
            session.parked = self
            for shared in session.partitions.values():
                if shared.served_by is not None:
                    shared.served_by.parked.add(self)
        self._timer = self._node.loop.call_later(wait / 1000, self.expire)
        self._node.metrics.fetches_parked.inc()
        return True

    def wake(self, partition: SubscriptionPartition) -> None:
        """One of its partitions may have something for it. It is not parked there any more."""
        if self._timer is None:
            return
        found = self._found
        assert found is not None, "it is parked on partitions of its session"
        waits = found.look() if self._enough() else None
        if waits is None and not found.told:
            partition.parked.add(self)
            return
        self._unpark()
        self._conclude(found, waits)

    def expire(self) -> None:
        """Answer now, with what there is."""
        self._hurried = True
        if self._timer is None:
            return
        self._unpark()
        found = self._found
        if found is None:
            assert self._refusal is not None
            self._tell(self._refuse(self._refusal))
            return
        # Its partitions would have woken it; but they do not know of min_bytes.
        self._conclude(found, found.look() if self._request.min_bytes > 1 else None)

    def _conclude(self, found: Acquiring, waits: Coming | None) -> None:
        """Tell what was found, once it is all there and what it follows from is stored."""
        if waits is not None:
            self._tell(self._finish_cold(found, waits))
        else:
            self._tell(self._finish(found) if found.ahead else self._encode())

    def leave(self, partition: SubscriptionPartition) -> None:
        """It waits for this one no longer."""
        partition.parked.discard(self)

    def look_again(self) -> None:
        """Something of its session has changed: answer now, with what there is."""
        found = self._found
        if self._timer is not None and found is not None:
            self._unpark()
            self._conclude(found, found.look())

    def end(self) -> None:
        """There is nothing to wait for any more."""
        if self._timer is not None:
            self._unpark()
            self._tell(self._encode())

    def refuse(self, error: Error) -> None:
        """Its member may not ask for this any more: what was found goes back when the session ends."""
        if self._timer is not None:
            self._unpark()
            self._tell(self._refuse(error))

    def cancel(self) -> None:
        """The connection is gone: nobody is told."""
        self._unpark()
        self._promise = None
        if self._loading is not None:
            self._loading.cancel()
        if self._found is not None:
            self._found.sent()
            self._found.put_back()

    def _unpark(self) -> None:
        timer, self._timer = self._timer, None
        if timer is None:
            return
        timer.cancel()
        self._node.metrics.fetches_parked.dec()
        if self._found is not None:
            session = self._found.session
            if session.parked is self:
                session.parked = None
            for shared in session.partitions.values():
                if shared.served_by is not None:
                    shared.served_by.parked.discard(self)
