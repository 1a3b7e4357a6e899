"""The short way of who goes on from a large answer: the bytes of the long one, or it declines and lends to nobody."""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway.apis.fetch import fetch, quick
from gateway.apis.waiting import asked
from gateway.broker.requests import Answer
from gateway.sending import Sending
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.api import Stored
from store.rocksdb.files import Files
from store.rocksdb.reader import Reader
from tests.gateway.apis.test_fetch import frame, peer, request
from tests.gateway.large import BIG, filled, run, same
from tests.gateway.serving import Client, batch, produce_body


def in_memory(pieces: Answer) -> bytes:
    """The bytes of an answer that was not sent."""
    found = bytearray()
    for piece in pieces:
        if isinstance(piece, Stored):
            into = memoryview(bytearray(len(piece)))
            assert piece.read_into(into)
            piece.release()
            piece = into
        found += piece
    return bytes(found)


def quickly(gateway: Gateway, data: bytes) -> bytes | None:
    found = quick(gateway.broker, peer(1), data, 0, len(data))
    return None if found is None else in_memory(found)


def at_length(gateway: Gateway, data: bytes, connection: int = 1) -> bytes:
    answer = fetch(gateway.broker, asked(peer(connection), data, 0, len(data), 12)).start()
    assert isinstance(answer, list)
    return in_memory(answer)


async def topic_of(client: Client) -> bytes:
    """The id of the topic "t"."""
    answer = await client.ask(ApiKey.METADATA, 12, messages.MetadataRequest(topics=None))
    (found,) = [each.topic_id for each in answer.topics if each.name == "t"]
    return bytes(found)


@pytest.mark.parametrize("sizes", [[BIG] * 9, [5_000] * 200, [100, 40_000, 7_000, 90_000] * 12])
def test_who_goes_on_from_a_large_answer_gets_the_same_by_the_short_way(
    tmp_path: Path, sizes: list[int]
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic = await topic_of(client)
        stored = []
        for size in sizes:
            each = batch(os.urandom(size))
            await client.ask(ApiKey.PRODUCE, 9, produce_body("t", each))
            stored.append(len(each))
        opened = at_length(gateway, frame(15, request(topic, 0, (0, 0), partition_max_bytes=1)), 1)
        again = at_length(gateway, frame(15, request(topic, 0, (0, 0), partition_max_bytes=1)), 2)
        offset, times, epoch = 0, 0, 1
        while offset < len(sizes):
            plain = frame(15, request(topic, offset, partition_max_bytes=400_000))
            short = quickly(gateway, plain)
            whole = at_length(gateway, plain)
            assert short is None or short == whole
            # and in a session
            answers = []
            for connection, first in ((1, opened), (2, again)):
                (session,) = struct.unpack_from(">i", first, 15)
                data = frame(15, request(topic, offset, (session, epoch), partition_max_bytes=400_000))
                found = (
                    quick(gateway.broker, peer(connection), data, 0, len(data)) if connection == 1 else None
                )
                times += found is not None
                answers.append(in_memory(found) if found else at_length(gateway, data, connection))
            assert answers[0][19:] == answers[1][19:]
            epoch += 1
            left = 400_000
            while offset < len(stored) and (left := left - stored[offset]) >= 0:
                offset += 1
        assert times > sum(sizes) // 400_000 - 2

    run(tmp_path, test)


def test_a_batch_of_which_an_answer_showed_too_little_comes_whole(tmp_path: Path) -> None:
    """A client that gets but a part of the first batch could never go on."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic = await topic_of(client)
        batches = await filled(client, 2)
        large = batch(os.urandom(900_000))
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", large))
        for beyond in (0, 30, 61, 100):
            most = 2 * len(batches[0]) + beyond
            for offset, expected in ((0, [*batches, large[:beyond]]), (2, [large])):
                body = request(topic, offset, partition_max_bytes=most)
                answer = (await client.ask(ApiKey.FETCH, 15, body)).responses[0].partitions[0]
                assert len(answer.records) == sum(map(len, expected))

    run(tmp_path, test)


@pytest.mark.parametrize("what", ["it is there", "it is damaged", "its topic is gone"])
def test_what_the_short_way_lent_and_cannot_be_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic = await topic_of(client)
        batches = await filled(client)
        (path,) = tmp_path.rglob("*.seg")
        # two batches each time
        most = 2 * len(batches[0]) + 100

        async def ask(offset: int) -> Any:
            body = request(topic, offset, partition_max_bytes=most)
            return (await client.ask(ApiKey.FETCH, 15, body)).responses[0].partitions[0]

        assert same(
            bytes((await ask(0)).records), batches[0] + bytes((await ask(0)).records)[len(batches[0]) :]
        )
        data = frame(15, request(topic, 2, partition_max_bytes=most))
        found = quick(gateway.broker, peer(1), data, 0, len(data))
        assert found is not None, "it goes the short way"
        for piece in found:
            if isinstance(piece, Stored):
                piece.release()
        monkeypatch.setattr(Files, "read_cached_into", lambda *_: 0)
        monkeypatch.setattr(Files, "read_whole_into", lambda *_: False)
        if what == "it is damaged":
            with path.open("r+b") as file:
                file.seek(2 * len(batches[0]) + BIG // 2)
                file.write(b"something else")
        elif what == "its topic is gone":
            plain = Sending.run

            def late(self: Sending, scratch: memoryview, wait: bool) -> bool:
                if wait:
                    going.wait(10)
                return plain(self, scratch, wait)

            going = threading.Event()
            monkeypatch.setattr(Sending, "run", late)
            client.send(ApiKey.FETCH, 15, request(topic, 2, partition_max_bytes=most))
            other = await Client.connect(gateway)
            await other.ask(
                ApiKey.DELETE_TOPICS, 5, messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
            )
            other.close()
            going.set()
            _, answer = await client.receive()
            assert answer.responses[0].partitions[0].error_code == Error.UNKNOWN_TOPIC_ID
            return
        answer = await ask(2)
        if what == "it is there":
            assert answer.high_watermark == 4
            assert same(bytes(answer.records)[: len(batches[2])], batches[2])
        else:
            assert answer.error_code == Error.CORRUPT_MESSAGE
            assert not answer.records

    run(tmp_path, test)


def test_what_the_short_way_declines_is_lent_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent: list[int] = []
    returned: list[int] = []
    lend, give_back = Reader.lend, Reader.returned

    def lending(self: Reader, *more: Any) -> Any:
        lent.append(1)
        return lend(self, *more)

    def returning(self: Reader, descriptor: int) -> None:
        returned.append(1)
        give_back(self, descriptor)

    async def test(gateway: Gateway, client: Client) -> None:
        topic = await topic_of(client)
        batches = await filled(client)
        most = 2 * len(batches[0]) + 100
        at_length(gateway, frame(15, request(topic, 0, partition_max_bytes=most)))
        monkeypatch.setattr(Reader, "lend", lending)
        monkeypatch.setattr(Reader, "returned", returning)
        assert (
            quickly(gateway, frame(15, request(topic, 2, partition_max_bytes=most, min_bytes=1 << 20)))
            is None
        )
        assert len(lent) == len(returned) == 1

    run(tmp_path, test)


def test_a_segment_that_has_grown_is_read_to_its_end(tmp_path: Path) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic = await topic_of(client)
        batches = await filled(client)
        most = 2 * len(batches[0]) + 100
        at_length(gateway, frame(15, request(topic, 0, partition_max_bytes=most)))
        await filled(client)
        whole = frame(15, request(topic, 2, partition_max_bytes=1 << 20))
        short = quickly(gateway, whole)
        assert short is not None
        assert short == at_length(gateway, whole)
        assert len(short) > 1 << 20

    run(tmp_path, test)
