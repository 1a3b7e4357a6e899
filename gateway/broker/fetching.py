"""Reading many partitions for one Fetch, and waiting when there is nothing to read.

`Fetch.start` looks at the partitions that need a look and collects buffers; if they are fewer than min_bytes the
fetch parks on its state until a commit wakes it, max_wait is over, or another request arrives behind it on the
same connection: that request must not wait for a fetch that has nothing to say (Spark's would, 500 ms each time).

The right to read is asked for where a partition is looked up, and a session remembers what it found: so whoever changes
rights tells the sessions (`FetchSessions.rights_changed`), which look everything up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from gateway.broker.errors import KafkaError
from gateway.broker.fetch_sessions import MAX_EPOCH, FetchState, Wanted
from gateway.broker.found import NOTHING, Found, moved, read_in_memory
from gateway.broker.loading import TRIES, Loading, all_loaded, promised
from gateway.broker.open_transactions import NEVER
from gateway.broker.requests import Answer, FetchRequest, PartitionTold, TopicTold
from gateway.promise import Promise
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from store.api import Stored, StoreError
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.ports import Reading
    from gateway.broker.topic_runtime import TopicRuntime
    from gateway.peer import Peer


class Encoder(Protocol):
    """Makes the frame."""

    def __call__(
        self, error: int, session_id: int, topics: list[TopicTold], throttle_ms: int = 0, /
    ) -> Answer:
        """Of an error code, and what is told of each topic; `throttle_ms`: so long the client should wait."""
        ...


LARGE = 256 * 1024
"""Bytes of an answer from which on it is worth the way to a thread and back, some 20 us. Less is never lent."""
# what a connection may be given while the clients of this gateway leave more unread than memory.max.bytes
_SCARCE_BYTES = 64 * 1024

_PAUSE_MS = 500

COMMITTED = 1
"""The isolation level of those who read what is committed."""

FINAL_EPOCH = -1
"""The epoch of a fetch without a session, which ends the one that it names."""


class Fetch:
    """One fetch, from its request to its answer."""

    __slots__ = (
        "_appended",
        "_by_id",
        "_connection",
        "_encoder",
        "_full",
        "_hurried",
        "_loading",
        "_max_bytes",
        "_missing",
        "_node",
        "_parked",
        "_peer",
        "_quotas",
        "_reaches",
        "_request",
        "_state",
        "_timer",
        "_told",
    )

    def __init__(
        self,
        node: Reading,
        peer: Peer,
        request: FetchRequest,
        by_id: bool,
        encode: Encoder,
        reaches: Callable[[str], bool] | None = None,
    ) -> None:
        """`peer`: whose sessions it may use. `by_id`: topics are named by their ids. `reaches`: whether
        it may know of a topic of the catalog; None: of all.
        """
        self._node = node
        self._connection = peer.connection
        self._peer = peer
        self._quotas = peer.quotas
        self._by_id = by_id
        self._reaches = reaches
        self._encoder = encode
        self._request = request
        self._appended = 0
        self._timer: asyncio.TimerHandle | None = None
        self._max_bytes = min(request.max_bytes, node.fetch_max_bytes)
        if peer.quotas is not None and (most := peer.quotas.most_fetched) is not None:
            # more than that at once could never be paid
            self._max_bytes = min(self._max_bytes, most)
        # what was told, while some of it is lent
        self._told: list[Found] = []
        # the answer while it is parked
        self._parked: Promise[Answer] | None = None
        # what waits until its partitions are loaded; whether the answer is to come then, with what there is
        self._loading: asyncio.Task[None] | None = None
        self._hurried = False

    def start(self) -> Pending[Answer]:
        """The answer; a promise of it when it is parked."""
        request = self._request
        throttle_ms = self._quotas.before_fetch() if self._quotas is not None else 0
        if throttle_ms and request.session_epoch == 0:
            # as Kafka: it opens its session when it comes again
            return self._encoder(0, 0, [], throttle_ms)
        state = self._open()
        if throttle_ms and not isinstance(state, Error):
            if state.session_id == 0:
                state.close()
            return self._encoder(0, state.session_id, [], throttle_ms)
        if isinstance(state, Error):
            return self._encoder(state, 0, [])
        state.committed = request.isolation == COMMITTED
        state.checked = self._peer.rights.checked
        self._state = state
        # Everything is told in the first answer of a session, and in every answer without one.
        self._full = request.session_epoch <= 0
        return self._begin(TRIES)

    def _begin(self, tries: int) -> Pending[Answer]:
        """The answer, or a promise of it. So often it waits until all of its partitions are loaded."""
        request, node, state = self._request, self._node, self._state
        found, waiting, size, speaks = self._look()
        if speaks and tries and (loading := [each.loading for each in found if each.loading is not None]):
            for each in found:
                each.drop()
            answer, self._loading = promised(node.loop, all_loaded(loading), lambda: self._begin(tries - 1))
            return answer
        if waiting:
            return self._finish_cold(found)
        wait = request.max_wait_ms > 0 and not self._hurried
        if size < request.min_bytes and not speaks and wait and state.wanted:
            self._appended = size
            node.fetch_sessions.park(state, self)
            self._timer = node.loop.call_later(request.max_wait_ms / 1000, self.expire)
            node.metrics.fetches_parked.inc()
            self._parked = Promise()
            return self._parked
        return self._answer(found)

    # -- sessions ---------------------------------------------------------------------------------------------------

    def _open(self) -> FetchState | Error:
        request, sessions, connection = self._request, self._node.fetch_sessions, self._connection
        epoch = request.session_epoch
        by_id = self._by_id
        now = self._node.clock.monotonic_ms()
        if epoch in (0, FINAL_EPOCH):
            if (
                request.session_id
                and (ended := sessions.get(connection, request.session_id, now)) is not None
            ):
                sessions.remove(ended)
            asked = sum(len(partitions) for _, partitions in request.topics)
            state = sessions.create(connection, by_id, now, asked) if epoch == 0 else None
            if state is None:
                state = FetchState(0, by_id)
        else:
            known = sessions.get(connection, request.session_id, now)
            if known is None:
                return Error.FETCH_SESSION_ID_NOT_FOUND
            if known.epoch != epoch or known.parked is not None:
                return Error.INVALID_FETCH_SESSION_EPOCH
            if known.by_id is not by_id:
                return Error.FETCH_SESSION_TOPIC_ID_ERROR
            state = known
            state.epoch = epoch + 1 if epoch < MAX_EPOCH else 1
        want = state.want
        for topic, partitions in request.topics:
            for index, leader_epoch, offset, max_bytes in partitions:
                want(topic, index, leader_epoch, offset, max_bytes)
        if epoch > 0:
            # Behind what is asked, as in Kafka: what is named in both is forgotten.
            for topic, indexes in request.forgotten:
                for index in indexes:
                    state.forget(topic, index)
        if state.session_id and not sessions.count(state):
            sessions.remove(state)
            return Error.FETCH_SESSION_ID_NOT_FOUND
        if epoch > 0 and not state.wanted:
            # Kafka ends a session of which nothing is left.
            sessions.remove(state)
            state = FetchState(0, by_id)
        return state

    # -- reading ----------------------------------------------------------------------------------------------------

    def _look(self) -> tuple[list[Found], bool, int, bool]:
        """(what was found, whether a disk must be waited for, bytes found, whether an error must be told)."""
        state = self._state
        budget = self._max_bytes
        if self._node.unsent_bytes > self._node.memory_limit:
            budget = min(budget, _SCARCE_BYTES)
        # topics that this look found missing: 100,000 partitions of one must not ask the store 100,000 times
        self._missing: dict[bytes, Error] = {}
        found: list[Found] = []
        waiting = speaks = False
        size = 0
        for wanted in list(state.ready):
            if budget <= 0 and size and not self._full:
                break
            result = self._look_at(wanted, budget, size == 0)
            if result.error:
                speaks = True
            if result.waits is not None:
                # Until the bytes are there, count on what was asked for.
                waiting = True
                budget -= min(wanted.max_bytes, budget)
                size += 1
            elif result.size:
                size += result.size
                budget -= result.size
            found.append(result)
        return found, waiting, size, speaks

    def _look_at(self, wanted: Wanted, budget: int, first: bool) -> Found:
        partition = wanted.partition
        if partition is None or partition.stale:
            wanted.unwatch()
            if wanted.topic in self._missing:
                return Found(wanted, self._missing[wanted.topic])
            in_use = self._node.in_use
            rights = self._peer.rights
            if (
                rights.checked
                and not self._state.by_id
                and not rights.topic(Operation.READ, wanted.topic.decode("utf-8", "replace"))
            ):
                # whether there is such a topic is not told
                return self._forbidden(wanted)
            runtime: TopicRuntime | None
            if self._state.by_id:
                runtime = in_use.topic_by_id(wanted.topic)
                missing = Error.UNKNOWN_TOPIC_ID
            else:
                runtime = in_use.topic(wanted.topic)
                missing = Error.UNKNOWN_TOPIC_OR_PARTITION
            if runtime is None or (self._reaches is not None and not self._reaches(runtime.name)):
                self._missing[wanted.topic] = missing
                return Found(wanted, missing)
            if rights.checked and self._state.by_id and not rights.topic(Operation.READ, runtime.name):
                return self._forbidden(wanted)
            if rights.checked and runtime.topic.queue is not None and not self._peer.at_home(runtime.name):
                # what is read there is given to a member of a group of that home
                return self._forbidden(wanted)
            try:
                partition = in_use.readable(runtime, wanted.index)
            except Loading as loading:
                result = Found(wanted, loading.code)
                result.loading = loading
                return result
            except KafkaError as error:
                return Found(wanted, error.code)
            if partition.stale or partition.news_for(self._connection):
                return Found(wanted, Error.NOT_LEADER_OR_FOLLOWER)
            wanted.partition = partition
            partition.watchers.add(wanted)
        if wanted.leader_epoch >= 0 and wanted.leader_epoch != partition.leader_epoch:
            fenced = wanted.leader_epoch < partition.leader_epoch
            return Found(wanted, Error.FENCED_LEADER_EPOCH if fenced else Error.UNKNOWN_LEADER_EPOCH)
        high, offset = partition.high_watermark, wanted.offset
        start = partition.log_start
        if not start <= offset <= high:
            return Found(wanted, Error.OFFSET_OUT_OF_RANGE)
        result = Found(wanted, Error.NONE)
        stable = high if partition.open.first >= high else partition.last_stable_offset
        committed = self._state.committed
        end = stable if committed else high
        result.high, result.start, result.stable, result.committed = high, start, stable, committed
        if committed:
            wanted.stable = stable, stable == high
        if offset >= end:
            partition.at_end()
        if offset < end and (budget > 0 or first):
            limit = max(0, min(wanted.max_bytes, budget))
            least: int | None = LARGE
            pace = partition.dispatching
            if pace is not None:
                if pace.shut(wanted.opened):
                    return result
                records, size = pace.room()
                limit, least = min(limit, size), None
                result.pace, result.most = pace, records
            try:
                result.careful = committed and (
                    partition.open.first != NEVER or partition.aborted_from(offset)
                )
                # The first batch comes whole whatever the limits say: else a client could never pass it.
                data = partition.fetch(offset, limit, whole_first=first, least=least)
            except (IndexError, StoreError) as error:
                result.fail(partition, error)
                return result
            result.partition, result.limit, result.whole_first = partition, limit, first
            if isinstance(data, list):
                if not data and (self._hurried or self._request.max_wait_ms <= 0):
                    data = partition.spanned(offset)
                result.take(data)
                if result.unsaid:
                    self._unlent(result)
            else:
                result.waits = data
                # by then there may be some
                result.careful = committed
        return result

    def _name(self, wanted: Wanted) -> str | None:
        """What its topic is called; None where it is gone."""
        if not self._state.by_id:
            return wanted.topic.decode("utf-8", "replace")
        runtime = self._node.in_use.topic_by_id(wanted.topic)
        return runtime.name if runtime is not None else None

    def _forbidden(self, wanted: Wanted) -> Found:
        self._missing[wanted.topic] = Error.TOPIC_AUTHORIZATION_FAILED
        return Found(wanted, Error.TOPIC_AUTHORIZATION_FAILED)

    def _unlent(self, result: Found) -> None:
        """Read it, for what is to be told of it must be looked for in it."""
        partition = result.partition
        assert partition is not None, "it was lent by it"
        try:
            data = partition.fetch(
                result.wanted.offset, result.limit, whole_first=result.whole_first, least=None
            )
        except (IndexError, StoreError) as error:
            result.fail(partition, error)
            return
        if isinstance(data, list):
            result.take(data)
        else:
            result.waits = data

    def _finish_cold(self, found: list[Found]) -> Awaitable[Answer]:
        """The answer once a disk has given what is waited for. That counts as unsent from now on: others are given less
        before it has come.
        """
        coming = sum([result.coming() for result in found if result.waits is not None])
        self._node.unsent_bytes += coming
        return self._finished_cold(found, coming)

    async def _finished_cold(self, found: list[Found], coming: int) -> Answer:
        try:
            for result in found:
                if result.waits is not None:
                    try:
                        result.take(await result.waits)
                        if result.unsaid:
                            await self._read_again(result)
                    except (IndexError, StoreError) as error:
                        result.fail(result.wanted.partition, error)
        finally:
            # whoever sends it counts it
            self._node.unsent_bytes -= coming
        if not any(result.size or result.error for result in found):
            # damage up to the end, and the policy to skip it: without a pause the client would ask again at once
            await asyncio.sleep(min(self._request.max_wait_ms, _PAUSE_MS) / 1000)
        return self._answer(found)

    def _answer(self, found: list[Found]) -> Answer:
        state = self._state
        ready = state.ready
        full = self._full
        told: list[Found] = []
        sent = 0
        for result in found:
            wanted = result.wanted
            size = result.size
            if result.error:
                wanted.told_high = wanted.told_start = -2
                # An error is told in every answer until it is over.
                told.append(result)
            else:
                high, start = result.high, result.start
                if full or size > 0 or high != wanted.told_high or start != wanted.told_start:
                    told.append(result)
                wanted.told_high, wanted.told_start = high, start
                if size:
                    sent += size
                    if result.pace is not None:
                        result.pace.spend(result.records, size)
                    partition = wanted.partition
                    if partition is not None:
                        partition.bytes_out += size
                    # Whoever was served waits behind those that were not.
                    ready.pop(wanted, None)
                    ready[wanted] = None
                elif wanted.offset >= result.end and wanted.watches and not moved(wanted.partition, result):
                    ready.pop(wanted, None)
        self._node.metrics.fetch_bytes.value += sent
        if self._quotas is not None:
            self._quotas.after_fetch(sent)
        if state.session_id == 0:
            state.close()
        self._told = told
        return self._encode(told)

    def _encode(self, told: list[Found]) -> Answer:
        topics: list[TopicTold] = []
        by_topic: dict[bytes, list[PartitionTold]] = {}
        for result in told:
            wanted = result.wanted
            results = by_topic.get(wanted.topic)
            if results is None:
                results = by_topic[wanted.topic] = []
                topics.append((wanted.topic, results))
            high, stable, start = (-1, -1, -1) if result.error else (result.high, result.stable, result.start)
            results.append(
                (
                    wanted.index,
                    result.error,
                    high,
                    stable,
                    start,
                    result.buffers,
                    result.size,
                    result.aborted,
                )
            )
        return self._encoder(0, self._state.session_id, topics)

    async def again(self) -> Answer:
        """The same answer with its bytes in memory, for what was lent could not be read."""
        for result in self._told:
            if any(isinstance(each, Stored) for each in result.buffers):
                await self._read_again(result)
        return self._encode(self._told)

    async def _read_again(self, result: Found) -> None:
        partition = result.partition
        assert partition is not None, "what was lent was read from it"
        result.buffers, result.size, result.careful = NOTHING, 0, result.committed
        buffers, result.error = await read_in_memory(
            partition, result.wanted.offset, result.limit, result.whole_first
        )
        result.take(buffers)

    # -- waiting ----------------------------------------------------------------------------------------------------

    def advanced(self, appended: int) -> None:
        """A partition of this fetch grew by that many bytes; 0: something else about it changed."""
        self._appended += appended
        if appended == 0 or self._appended >= self._request.min_bytes:
            self.expire()

    def rights_changed(self) -> None:
        """What it may read is another by now: it tells at once what it may read no more, if there is anything."""
        rights, lost = self._peer.rights, False
        for wanted in self._state.wanted.values():
            if wanted.partition is None:
                continue
            name = self._name(wanted)
            if name is None or not rights.topic(Operation.READ, name):
                wanted.unwatch()
                self._state.ready[wanted] = None
                lost = True
        if lost:
            self.expire()

    def expire(self) -> None:
        """Answer now, with what there is."""
        self._hurried = True
        parked = self._unpark()
        if parked is None:
            return
        found, waiting, _, _ = self._look()
        parked.tell(self._finish_cold(found) if waiting else self._answer(found))

    def cancel(self) -> None:
        """The connection is gone."""
        if self._loading is not None and self._loading.cancel() and self._state.session_id == 0:
            self._state.close()
        if self._unpark() is not None and self._state.session_id == 0:
            self._state.close()

    def _unpark(self) -> Promise[Answer] | None:
        parked, self._parked = self._parked, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._node.metrics.fetches_parked.dec()
        self._node.fetch_sessions.unpark(self._state, self)
        return parked
