"""Acknowledgements of share groups at work, and the requests that bring them (KIP-932, KIP-1222).

What is acknowledged takes effect at once, in the order of the requests, and is told once it is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError, from_store
from gateway.broker.loading import promised
from gateway.broker.requests import Acknowledgement, AcknowledgeRequest, AckTold, Answer, TopicAcks
from gateway.broker.share_sessions import FINAL_EPOCH, Client, Key, Shared
from gateway.promise import Promise
from gateway.wire.errors import Error
from gateway.wire.share import PlainAcks
from semantics.access.acl import Operation
from semantics.group_names import bare, home_of, topic_prefix
from semantics.names import dotted
from semantics.subscriptions.acknowledging import ACCEPT, REJECT, RENEW, wrong
from semantics.subscriptions.states import Ending, Refusal
from store.api import Durability, Outcome
from store.pending import Pending
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.ports import Sharing
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.peer import Peer
    from gateway.rights import Rights

AckEncoder = Callable[[int, str | None, int, Sequence[tuple[bytes, Sequence[AckTold]]]], bytes]
"""(error code, sentence, lock ms, what came of each topic's acknowledgements) -> the frame"""
Start = Callable[[], Pending[Answer]]
Result = tuple[int, str | None]
"""Error code and what to say of it."""

_OK: Result = (0, None)

MAX_MEMBER_ID = 36
"""Letters of a member id: as many as a UUID in hexadecimal has."""


NO_GROUP = "A share group has a name."
NO_MEMBER = f"A member id has 1 to {MAX_MEMBER_ID} letters."


class NoSubscription(KafkaError):
    """The group reads no such topic. Kafka too has no better code for a fetch; for acknowledgements it has."""

    def __init__(self, group: str, topic: str) -> None:
        super().__init__(
            Error.UNKNOWN_SERVER_ERROR,
            f"The share group {bare(group)} has no subscription to {dotted(topic.removeprefix(topic_prefix(group)))}.",
        )


def find(node: Sharing, group: str, topic_id: bytes, index: int) -> SubscriptionPartition:
    """What serves a partition to a share group. Raises KafkaError."""
    subscription = node.subscriptions.by_id(group, topic_id)
    if subscription is not None:
        if subscription.config.subscription.lanes:
            queue = dotted(subscription.row.queue.removeprefix(topic_prefix(group)))
            raise KafkaError(
                Error.INVALID_REQUEST,
                f"Subscription {bare(group)} is served by the lanes of {queue or 'a queue topic'}: read that in the "
                f"consumer group {bare(group)}. One is served by lanes or by share groups.",
            )
        return subscription.partition(index)
    runtime = node.in_use.topic_by_id(topic_id)
    namespaces = node.catalog.namespaces
    if runtime is None or not namespaces.may_subscribe(group, runtime.name):
        raise KafkaError(Error.UNKNOWN_TOPIC_ID)
    if namespaces.guarded and namespaces.full(runtime.name).namespace != home_of(group):
        # whether there is such a topic is not everybody's to know
        raise KafkaError(Error.UNKNOWN_TOPIC_ID)
    if not 0 <= index < len(runtime.partitions):
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
    raise NoSubscription(group, runtime.name)


def check_read(node: Sharing, rights: Rights, group: str, topic_id: bytes) -> None:
    """Raises KafkaError TOPIC_AUTHORIZATION_FAILED where a topic may not be read. One of another home than the group's
    is not there, as `find` says.
    """
    runtime = node.in_use.topic_by_id(topic_id)
    if runtime is None or not node.catalog.namespaces.may_subscribe(group, runtime.name):
        return
    if not rights.topic(Operation.READ, runtime.name):
        raise KafkaError(Error.TOPIC_AUTHORIZATION_FAILED, Error.TOPIC_AUTHORIZATION_FAILED.sentence)


_REFUSALS = {
    Refusal.INVALID_REQUEST: Error.INVALID_REQUEST,
    Refusal.INVALID_RECORD_STATE: Error.INVALID_RECORD_STATE,
}


def refusal(acks: Sequence[Acknowledgement], renewing: bool) -> Error:
    """What is wrong with the acknowledgements of a partition by themselves, whether it is there or not.

    Whether the member holds what it speaks of, the cursor says. That RENEW needs the request to say that it renews
    (KIP-1222) is a rule of requests.
    """
    found = wrong(acks, RENEW if renewing else REJECT)
    return _REFUSALS[found] if found is not None else Error.NONE


def _result(refused: KafkaError) -> Result:
    if isinstance(refused, NoSubscription):
        return Error.UNKNOWN_TOPIC_OR_PARTITION, refused.text
    return refused.code, refused.text


class Acknowledging:
    """What both requests have in common: acknowledgements, and an answer that waits until they are durable."""

    __slots__ = (
        "_acks",
        "_client",
        "_held",
        "_loading",
        "_node",
        "_peer",
        "_promise",
        "_uncommitted",
        "connection",
    )

    def __init__(self, node: Sharing, peer: Peer, client_id: str) -> None:
        self._node = node
        self.connection = peer.connection
        self._peer = peer
        self._client: Client = peer.host, client_id
        # what came of the acknowledgements of each partition
        self._acks: dict[Key, Result] = {}
        # True while acknowledgements are on their way to the disk
        self._uncommitted = False
        # the answer that waits for them
        self._held: Answer | None = None
        # the answer, while somebody waits for it
        self._promise: Promise[Answer] | None = None
        # what waits until its partitions are loaded
        self._loading: asyncio.Task[None] | None = None

    def _may_read_in(self, group: str | None) -> bool:
        return group is None or self._peer.rights.group(Operation.READ, group)

    def _when_loaded(
        self, group: str | None, member: str | None, topics: Sequence[TopicAcks], start: Start
    ) -> Pending[Answer]:
        """What `start` answers, when all is loaded that the request and its session name."""
        node, named = self._node, []
        session = node.share_sessions.get(group or "", member or "")
        known: Mapping[Key, Shared] = session.partitions if session is not None else {}
        for shared in known.values():
            at = shared.served_by
            if at is None or at.gone or at.partition.stale:
                named.append(shared.key)
        for topic_id, partitions in topics:
            for index, _ in partitions:
                if (topic_id, index) not in known:
                    named.append((topic_id, index))
        loading = self._load(group, named) if named and group and member else None
        if loading is None:
            return start()
        answer, self._loading = promised(node.loop, loading, start)
        return answer

    def _load(self, group: str, named: Sequence[Key]) -> Pending[None]:
        node = self._node
        places = [(node.in_use.topic_by_id(topic_id), index) for topic_id, index in named]
        waits = [
            each for each in (node.in_use.load(places), node.share_groups.load(group)) if each is not None
        ]
        return _each(waits) if waits else None

    def _acknowledge(self, group: str, member: str, topics: Sequence[TopicAcks], renewing: bool) -> None:
        """Apply what the request acknowledges, partition by partition: all of one or nothing of it."""
        taken = False
        rights = self._peer.rights
        for topic_id, partitions in topics:
            if rights.checked and any(acks for _, acks in partitions):
                try:
                    check_read(self._node, rights, group, topic_id)
                except KafkaError as forbidden:
                    for index, acks in partitions:
                        if acks:
                            self._acks[topic_id, index] = _result(forbidden)
                    continue
            for index, acks in partitions:
                if not acks:
                    continue
                if isinstance(acks, PlainAcks):
                    if self._accept(group, member, topic_id, index, acks):
                        taken = True
                        self._acks[topic_id, index] = _OK
                        continue
                    acks = acks.runs()
                error = Error.NONE
                if renewing:
                    error = refusal(acks, renewing)
                    if not error and not self._may_renew(group, acks):
                        error = Error.INVALID_RECORD_STATE
                if not error:
                    try:
                        error = find(self._node, group, topic_id, index).acknowledge(
                            member, acks, RENEW if renewing else REJECT
                        )
                    except KafkaError as refused:
                        # what is wrong in itself is so wherever it is sent to
                        error = refusal(acks, renewing)
                        if not error:
                            self._acks[topic_id, index] = _result(refused)
                            continue
                    if not error:
                        taken = True
                self._acks[topic_id, index] = (error, error.sentence) if error else _OK
        if taken:
            self._uncommitted = True
            # How safe is the topics' affair: they are in the turn.
            self._node.commit((), self._settle, Durability.OS)

    def _accept(self, group: str, member: str, topic_id: bytes, index: int, acks: PlainAcks) -> bool:
        """All of them are accepted, as most are, and under Key_Shared: the short way. False: nothing was done."""
        if not acks.all_of(ACCEPT):
            return False
        try:
            return find(self._node, group, topic_id, index).accept(member, acks)
        except KafkaError:
            return False

    def _may_renew(self, group: str, acks: Sequence[Acknowledgement]) -> bool:
        return self._node.group_configs.get(group).renew or all(RENEW not in each[2] for each in acks)

    @step("ack.stored")
    def _settle(self, outcome: Outcome) -> None:
        """The commit with the acknowledgements is over."""
        self._uncommitted = False
        if outcome is not None:
            failed = from_store(outcome)
            result = (int(failed.code), failed.text)
            for key, (code, _) in self._acks.items():
                if not code:
                    self._acks[key] = result
        held, self._held = self._held, None
        if held is not None:
            self._tell(self._stored(held) if outcome is None else self._failed())

    def _stored(self, held: Answer) -> Pending[Answer]:
        """The answer when what it tells is stored."""
        return held

    def _failed(self) -> Answer:
        """The answer when what it was to tell could not be stored."""
        raise NotImplementedError

    def _promised(self) -> Promise[Answer]:
        self._promise = Promise()
        return self._promise

    def _tell(self, answer: Pending[Answer]) -> None:
        promise, self._promise = self._promise, None
        if promise is not None:
            promise.tell(answer)

    def _when_durable(self, answer: Answer) -> Pending[Answer]:
        """The answer; a promise of it when what it tells is not stored yet."""
        if not self._uncommitted:
            return answer
        self._held = answer
        return self._promised()


async def _each(waits: Sequence[Awaitable[None]]) -> None:
    for each in waits:
        await each


class ShareAcknowledge(Acknowledging):
    """One ShareAcknowledge request."""

    __slots__ = ("_encoder", "_request")

    def __init__(
        self,
        node: Sharing,
        peer: Peer,
        client_id: str,
        request: AcknowledgeRequest,
        encode: AckEncoder,
    ) -> None:
        super().__init__(node, peer, client_id)
        self._request = request
        self._encoder = encode

    def start(self) -> Pending[Answer]:
        """The answer; a promise of it while the acknowledgements are being stored."""
        request = self._request
        if not self._may_read_in(request.group_id):
            return self._refuse(Error.GROUP_AUTHORIZATION_FAILED, Error.GROUP_AUTHORIZATION_FAILED.sentence)
        return self._when_loaded(request.group_id, request.member_id, request.topics, self._start)

    def _start(self) -> Pending[Answer]:
        request, sessions = self._request, self._node.share_sessions
        group, member = request.group_id, request.member_id
        if group is None:
            return self._refuse(Error.INVALID_REQUEST, NO_GROUP)
        if not member or len(member) > MAX_MEMBER_ID:
            return self._refuse(Error.INVALID_REQUEST, NO_MEMBER)
        if request.session_epoch == 0:
            return self._refuse(Error.INVALID_SHARE_SESSION_EPOCH, "Only a ShareFetch can open a session.")
        session = sessions.advance(group, member, request.session_epoch, self._peer, self._client)
        if isinstance(session, Error):
            return self._refuse(session)
        for topic_id, partitions in request.topics:
            for index, _ in partitions:
                self._acks[topic_id, index] = _OK
        self._acknowledge(group, member, request.topics, request.is_renew_ack)
        if request.session_epoch == FINAL_EPOCH:
            sessions.close(session, Ending.LEFT)
        elif session.forgotten:
            session.let_go()
        return self._when_durable(self._encode())

    def expire(self) -> None:
        """It waits for nothing but the disk."""

    def cancel(self) -> None:
        """The connection is gone: nobody is told."""
        self._promise = None
        if self._loading is not None:
            self._loading.cancel()

    def _failed(self) -> Answer:
        return self._encode()

    def _refuse(self, error: Error, text: str | None = None) -> Answer:
        return [self._encoder(error, text, 0, ())]

    def _encode(self) -> Answer:
        topics: dict[bytes, list[AckTold]] = {}
        for (topic_id, index), (code, text) in self._acks.items():
            topics.setdefault(topic_id, []).append((index, code, text))
        lock_ms = self._node.subscriptions.configs.lock_ms(self._request.group_id or "")
        return [self._encoder(0, None, lock_ms, list(topics.items()))]
