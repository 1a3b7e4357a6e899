"""Records are delivered to whoever asks with values: no bytes, no version and no correlation id are needed."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.broker.acknowledging import ShareAcknowledge
from gateway.broker.fetching import Fetch
from gateway.broker.requests import AckTold, Answer, PartitionWanted, ShareTold, TopicAcks, TopicTold
from gateway.broker.sharing import ShareFetch
from gateway.peer import Peer
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from store.pending import Pending
from tests.gateway.broker.held import run
from tests.gateway.broker.share_asking import GROUP, put, topic
from tests.gateway.serving import Client

HTTP = Peer(1 << 40, "/10.1.1.1", "HTTP")


@dataclass
class Wanted:
    topics: Sequence[tuple[bytes, Sequence[PartitionWanted]]]
    max_wait_ms: int = 0
    min_bytes: int = 1
    isolation: int = 0
    max_bytes: int = 1 << 20
    session_id: int = 0
    session_epoch: int = -1
    forgotten: Sequence[tuple[bytes, Sequence[int]]] = ()


@dataclass
class Said:
    session_epoch: int
    topics: Sequence[TopicAcks] = ()
    group_id: str | None = GROUP
    member_id: str | None = "http"
    is_renew_ack: bool = False


@dataclass
class Shared(Said):
    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    max_records: int = 2
    exact: bool = True
    forgotten: Sequence[tuple[bytes, Sequence[int]]] = ()


@dataclass
class Told:
    """What was to be encoded."""

    fetched: list[TopicTold] = field(default_factory=list)
    shared: dict[bytes, Sequence[ShareTold]] = field(default_factory=dict)
    settled: dict[bytes, Sequence[AckTold]] = field(default_factory=dict)

    def fetch(self, error: int, session_id: int, topics: list[TopicTold], throttle_ms: int = 0) -> Answer:
        assert (error, session_id) == (0, 0)
        self.fetched = topics
        return []

    def share(
        self, error: int, text: str | None, lock_ms: int, topics: Any, *, throttle_ms: int = 0
    ) -> Answer:
        assert (error, text) == (0, None)
        assert lock_ms > 0
        self.shared = dict(topics)
        return []

    def settle(self, error: int, text: str | None, lock_ms: int, topics: Any) -> bytes:
        assert (error, text) == (0, None)
        self.settled = dict(topics)
        return b""


async def come(answer: Pending[Answer]) -> None:
    if isinstance(answer, Awaitable):
        await answer


def test_a_fetch_of_values() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 3)
        for by_id, name in ((True, topic_id), (False, b"t")):
            told = Told()
            asked = Wanted([(name, ((0, -1, 1, 1 << 20),))])
            await come(Fetch(gateway.broker, HTTP, asked, by_id, told.fetch).start())
            ((named, [(partition, error, high, stable, start, records, size, aborted)]),) = told.fetched
            assert (named, partition, error, high, stable, start) == (name, 0, 0, 3, 3, 0)
            assert not aborted
            assert sum(map(len, records)) == size > 0

    run(test)


def test_a_fetch_of_values_waits_for_records() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        told = Told()
        asked = Wanted([(topic_id, [(0, -1, 0, 1 << 20)])], max_wait_ms=60_000)
        answer = Fetch(gateway.broker, HTTP, asked, True, told.fetch).start()
        assert not told.fetched
        await put(client, b"v")
        await come(answer)
        assert told.fetched[0][1][0][2] == 1

    run(test)


def test_a_share_group_of_values() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        broker = gateway.broker
        topic_id = await topic(gateway, client, 3)
        told = Told()
        await come(
            ShareFetch(broker, HTTP, "browser", Shared(0, [(topic_id, [(0, ())])]), told.share).start()
        )
        ((shared,),) = told.shared.values()
        assert (shared.partition, shared.error, shared.acquired) == (0, 0, [(0, 1, 1)])
        said = Said(1, [(topic_id, [(0, [(0, 0, b"\1"), (1, 1, b"\2")])])])
        await come(ShareAcknowledge(broker, HTTP, "browser", said, told.settle).start())
        assert told.settled == {topic_id: [(0, 0, None)]}
        # what was released, and what nobody had yet
        await come(ShareFetch(broker, HTTP, "browser", Shared(2), told.share).start())
        ((shared,),) = told.shared.values()
        assert shared.acquired == [(1, 1, 2), (2, 2, 1)]
        broker.share_sessions.connection_lost(HTTP.connection, stopping=False)
        await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert broker.share_sessions.get(GROUP, "http") is None

    run(test)
