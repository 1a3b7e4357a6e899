"""When a connection is read, and when it is not: what a client sends stays in its socket meanwhile."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import permutations

import pytest

from gateway.connection import Connection
from gateway.server import Gateway
from gateway.wire import codec, messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.held import HeldStore, run, until
from tests.gateway.serving import Client, batch, create, produce_body

KB = 1024
SHORT_OF_MEMORY = f"memory.max.bytes={1024 * KB}"


def produce_frame(size: int) -> bytes:
    """A Produce of about so many bytes."""
    header = codec.encode_request_header(ApiKey.PRODUCE, 9, 7, "by hand")
    body = codec.encode_request(ApiKey.PRODUCE, 9, produce_body("t", batch(bytes(size))))
    return struct.pack(">i", len(header) + len(body)) + header + body


async def connect(gateway: Gateway) -> tuple[Client, Connection]:
    """A client and the gateway's side of it."""
    (listener,) = gateway.listeners
    before = set(listener.connections)
    client = await Client.connect(gateway)
    await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
    (connection,) = listener.connections - before
    return client, connection


def reads(connection: Connection) -> bool:
    return connection.transport.is_reading()


def test_it_is_not_read_while_as_much_as_may_be_is_in_flight_after_what_waited_was_taken() -> None:
    store = HeldStore()

    async def test(gateway: Gateway, other: Client) -> None:
        client, connection = await connect(gateway)
        await create(client, "t")
        store.holding = True
        for _ in range(6):
            client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        await store.has(1)
        assert not reads(connection), "three are in flight, three wait"
        store.land()
        await store.has(1)
        assert not reads(connection), "the other three are in flight"
        store.release()
        for _ in range(6):
            await client.receive()
        assert reads(connection)
        client.close()

    run(test, "queued.max.requests=2", store=store)


def test_it_is_not_read_while_memory_is_short_whatever_else_comes_to_its_end() -> None:
    store = HeldStore()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", max__message__bytes="2000000")
        frame = produce_frame(900 * KB)
        oldest = await Client.connect(gateway)
        other, connection = await connect(gateway)
        oldest.writer.write(frame[: 600 * KB])
        await until(lambda: gateway.broker.receiving.total == 600 * KB)
        store.holding = True
        other.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        await store.has(1)
        other.writer.write(frame[: 700 * KB])
        await until(lambda: not reads(connection))
        short = gateway.broker.receiving.total
        assert short > 1024 * KB
        store.release()
        await other.receive()
        assert not reads(connection), "its answer is no reason to read"
        assert gateway.broker.receiving.total == short
        oldest.writer.write(frame[600 * KB :])
        await until(lambda: reads(connection))
        await until(lambda: gateway.broker.receiving.total == 700 * KB)
        oldest.close()
        other.close()

    run(test, SHORT_OF_MEMORY, store=store)


def test_the_first_piece_of_a_frame_counts_at_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        frame = produce_frame(40 * KB)
        client.writer.write(frame[:100])
        await until(lambda: gateway.broker.receiving.total == 100)
        # the end of one, and the first piece of the next
        client.writer.write(frame[100:] + frame[:2000])
        await until(lambda: gateway.broker.receiving.total == 2000)
        client.close()
        await until(lambda: gateway.broker.receiving.total == 0)

    run(test)


def test_who_always_has_begun_a_frame_is_not_always_the_oldest() -> None:
    """The oldest can always finish: with its next frame a connection stands behind the others."""

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", max__message__bytes="2000000")
        small, large = produce_frame(40 * KB), produce_frame(900 * KB)
        busy, connection = await connect(gateway)
        other, oldest = await connect(gateway)
        busy.writer.write(small[:1000])
        await until(lambda: gateway.broker.receiving.total == 1000)
        other.writer.write(large[: 500 * KB])
        await until(lambda: gateway.broker.receiving.total == 1000 + 500 * KB)
        busy.writer.write(small[1000:] + large[: 700 * KB])
        await until(lambda: not reads(connection))
        assert reads(oldest)
        other.writer.write(large[500 * KB :])
        await until(lambda: reads(connection))
        busy.close()
        other.close()

    run(test, SHORT_OF_MEMORY)


@pytest.mark.parametrize("order", list(permutations(["in flight", "unread", "memory"])), ids=" ".join)
def test_it_is_read_when_the_last_reason_not_to_is_gone(order: tuple[str, ...]) -> None:
    store = HeldStore()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        (connection,) = gateway.listeners[0].connections
        store.holding = True
        for _ in range(4):
            client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        await store.has(1)
        # as the transport does when its client reads nothing, and the others' requests when there are many
        connection.pause_writing()
        connection.hold_reading()
        ends: dict[str, Callable[[], None]] = {
            "in flight": store.release,
            "unread": connection.resume_writing,
            "memory": connection.release_reading,
        }
        for reason in order:
            assert not reads(connection)
            ends[reason]()
        await until(lambda: reads(connection))
        for _ in range(4):
            await client.receive()
        assert reads(connection)

    run(test, "queued.max.requests=2", store=store)
