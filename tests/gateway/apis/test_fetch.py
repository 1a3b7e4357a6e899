"""The short way of a fetch answers as the long one does, byte by byte, or declines and leaves all as it was."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any, cast

import uvloop

from gateway.apis.fetch import fetch, quick
from gateway.apis.waiting import asked
from gateway.peer import Peer
from gateway.server import Gateway
from gateway.wire import codec, messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.serving import Client, batch, create, produce_body, serving

Fetch = messages.FetchRequest


def frame(version: int, request: Any, client_id: str | None = "me") -> bytes:
    head = codec.encode_request_header(ApiKey.FETCH, version, 7, client_id)
    body = codec.encode_request(ApiKey.FETCH, version, request)
    return struct.pack(">i", len(head) + len(body)) + head + bytes(body)


def request(topic: bytes, offset: int, session: tuple[int, int] = (0, -1), **more: Any) -> Any:
    """A fetch of partition 0; more: fields of the request, or of its partition."""
    whole: dict[str, Any] = {
        name: more.pop(name)
        for name in ("min_bytes", "max_bytes", "isolation_level", "rack_id")
        if name in more
    }
    values = {"partition": 0, "current_leader_epoch": -1, "partition_max_bytes": 1 << 20, **more}
    return Fetch(
        **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **whole},
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            Fetch.FetchTopic(topic_id=topic, partitions=[Fetch.FetchPartition(fetch_offset=offset, **values)])
        ],
    )


def peer(connection: int) -> Peer:
    return Peer(connection, "/h", "PLAINTEXT")


def short(gateway: Gateway, connection: int, data: bytes) -> bytes | None:
    found = quick(gateway.broker, peer(connection), data, 0, len(data))
    return None if found is None else b"".join(cast("Sequence[bytes]", found))


def long(gateway: Gateway, connection: int, data: bytes) -> bytes:
    answer = fetch(gateway.broker, asked(peer(connection), data, 0, len(data), 12)).start()
    assert isinstance(answer, list)
    return b"".join(answer)


def run(test: Any) -> None:
    async def body() -> None:
        async with serving() as gateway:
            client = await Client.connect(gateway)
            topic = await create(client, "t", 2)
            for number in range(20):
                await client.ask(
                    ApiKey.PRODUCE, 9, produce_body("t", batch(*[b"v" * number] * (1 + number % 3)))
                )
            await test(gateway, client, topic)
            client.close()

    uvloop.run(body())


def test_a_plain_fetch_goes_the_short_way() -> None:
    async def test(gateway: Gateway, client: Client, topic: bytes) -> None:
        for version in (15, 16, 17, 18):
            for client_id in (None, "", "me"):
                for rack in ("", "east"):
                    data = frame(version, request(topic, 3, rack_id=rack), client_id)
                    found = short(gateway, 1, data)
                    assert found is not None
                    assert found == long(gateway, 1, data)

    run(test)


def test_whatever_is_not_plain_declines() -> None:
    async def test(gateway: Gateway, client: Client, topic: bytes) -> None:
        end = 20 * 2 - 1
        declined = [
            frame(14, request(topic, 3)),
            frame(15, request(topic, 3, (0, 0))),
            frame(15, request(topic, 3, (5, 1))),
            frame(15, request(topic, 3, (5, -1))),
            frame(15, request(topic, end)),
            frame(15, request(topic, end + 1)),
            frame(15, request(topic, -1)),
            frame(15, request(topic, 0, partition=1)),
            frame(15, request(topic, 0, partition=2)),
            frame(15, request(topic, 0, partition=-1)),
            frame(15, request(b"?" * 16, 0)),
            frame(15, request(topic, 0, current_leader_epoch=99)),
            frame(15, request(topic, 0, min_bytes=1 << 20)),
            frame(15, request(topic, 0, rack_id="r" * 200)),
            frame(15, request(topic, 0))[:-1] + b"\x01\x00\x00",
        ]
        two = request(topic, 0)
        two.topics[0].partitions *= 2
        forgets = request(topic, 0)
        forgets.forgotten_topics_data = [Fetch.ForgottenTopic(topic_id=topic, partitions=[1])]
        for data in (*declined, frame(15, two), frame(15, forgets)):
            before = len(gateway.broker.fetch_sessions), gateway.broker.metrics.fetch_bytes.value
            assert short(gateway, 1, data) is None
            assert before == (len(gateway.broker.fetch_sessions), gateway.broker.metrics.fetch_bytes.value)
        # while clients leave much unread, answers are cut
        gateway.broker.unsent_bytes += 1 << 40
        assert short(gateway, 1, frame(15, request(topic, 3))) is None
        gateway.broker.unsent_bytes -= 1 << 40

    run(test)


def test_both_ways_say_the_same_whatever_came_before() -> None:
    """Two sessions live through the same; of one all that can be goes the short way."""
    assert sum(times_short(seed) for seed in range(20)) > 150


def times_short(seed: int) -> int:
    """One such life; how often the short way was gone."""
    dice = random.Random(seed)
    times = 0

    async def test(gateway: Gateway, client: Client, topic: bytes) -> None:
        names = [1, 2]
        opened = [long(gateway, name, frame(15, request(topic, 0, (0, 0)))) for name in names]
        ids = [struct.unpack_from(">i", answer, 15)[0] for answer in opened]
        nonlocal times
        epoch = 1
        for _ in range(60):
            if dice.random() < 0.2:
                await client.ask(
                    ApiKey.PRODUCE, 9, produce_body("t", batch(b"more"), partition=dice.choice([0, 0, 1]))
                )
            high = gateway.broker.topic_by_id(topic).partitions[0].high_watermark  # type: ignore[union-attr]
            epoch_asked = dice.choice([epoch] * 30 + [epoch + 1, 0])
            offset = dice.choice([dice.randrange(high), dice.randrange(high), high - 1, high, high + 1])
            more = {
                "partition": dice.choice([0] * 12 + [1]),
                "partition_max_bytes": dice.choice([0, 1, 100, 1 << 20]),
                "min_bytes": dice.choice([0, 1, 1, 300]),
                "max_bytes": dice.choice([1, 200, 1 << 20]),
                "isolation_level": dice.choice([0, 1]),
                "current_leader_epoch": dice.choice([-1] * 6 + [1, 99]),
            }
            answers = []
            for name, session in zip(names, ids, strict=True):
                data = frame(15, request(topic, offset, (session, epoch_asked), **more))
                found = short(gateway, name, data) if name == 1 else None
                times += found is not None
                answers.append(found if found is not None else long(gateway, name, data))
            new = [struct.unpack_from(">i", answer, 15)[0] for answer in answers]
            assert answers[0][:15] == answers[1][:15]
            assert answers[0][19:] == answers[1][19:]
            assert [number != 0 for number in new] == [new[0] != 0] * 2
            if epoch_asked == 0:
                ids, epoch = new, 1
            elif struct.unpack_from(">h", answers[0], 13)[0] == 0:
                epoch += 1

    run(test)
    return times
