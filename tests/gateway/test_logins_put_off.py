"""Where more log in than can be looked at, nobody is told that its password is wrong: clients try again, and get in."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import kafka
import pytest
import uvloop
from confluent_kafka.admin import AdminClient

from gateway.admin.server import start
from gateway.audit import Kind
from gateway.auth.pool import Pool
from gateway.broker.users import row_of
from gateway.server import Gateway
from tests.gateway.broker.held import until
from tests.gateway.login_client import asking, connect, handshake, plain, value, works

PLAIN = "\0ada\0secret"
BUSY = ("SASL_PLAINTEXT", "PLAIN", "busy")
FAILED = ("SASL_PLAINTEXT", "PLAIN", "failure")


class Full:
    """No password is looked at until `free`."""

    def __init__(self) -> None:
        self.pool = Pool(threads=1, waiting=1)
        self._go = threading.Event()
        self._held = asyncio.ensure_future(self.pool.run(self._go.wait))

    async def free(self) -> None:
        self._go.set()
        await self._held


@asynccontextmanager
async def full(*flags: str) -> AsyncIterator[tuple[Gateway, Full]]:
    """A gateway with the user ada, whose password is secret, that has more to do than it takes on."""
    async with asking(cast(Any, None), *flags) as gateway:
        users = gateway.broker.users
        await users.create("ada", row_of(await users.hashed("secret"), None))
        own, users._pool = users._pool, (busy := Full()).pool
        own.close()
        await asyncio.sleep(0)
        try:
            yield gateway, busy
        finally:
            await busy.free()


def told(gateway: Gateway) -> tuple[float, int]:
    """Of logins that failed, how many are counted, and how many the audit tells."""
    count = value(gateway.broker.metrics.logins, *FAILED)
    return count, len(gateway.broker.audit.last(10, Kind.REFUSED))


@pytest.mark.parametrize("version", [0, 1])
def test_the_connection_ends_without_an_answer(version: int) -> None:
    async def main() -> None:
        async with full() as (gateway, busy):
            client = await connect(gateway)
            assert (await handshake(client, "PLAIN", version)).error_code == 0
            if version:
                client.send(36, 2, b"\x0c" + PLAIN.encode() + b"\0")
            else:
                client.writer.write(len(PLAIN).to_bytes(4, "big") + PLAIN.encode())
            # an answer would come before the end
            assert await client.at_end()
            assert value(gateway.broker.metrics.logins, *BUSY) == 1
            assert told(gateway) == (0, 0)
            await busy.free()
            again = await connect(gateway)
            assert (await plain(again)).error_code == 0
            await works(again)
            again.close()
            client.close()

    uvloop.run(main())


def test_who_wants_to_log_in_again_connects_anew() -> None:
    async def main() -> None:
        async with full("connections.max.reauth.ms=60000") as (gateway, busy):
            await busy.free()
            client = await connect(gateway)
            assert (await plain(client)).error_code == 0
            gateway.broker.users._pool.close()
            gateway.broker.users._pool = (again := Full()).pool
            await asyncio.sleep(0)
            assert (await handshake(client, "PLAIN")).error_code == 0
            client.send(36, 2, b"\x0c" + PLAIN.encode() + b"\0")
            assert await client.at_end()
            metrics = gateway.broker.metrics.reauthentications
            assert (value(metrics, *BUSY), value(metrics, *FAILED)) == (1, 0)
            assert told(gateway) == (0, 0)
            await again.free()
            client.close()

    uvloop.run(main())


def _confluent(server: str) -> int:
    client = AdminClient(
        {
            "bootstrap.servers": server,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ada",
            "sasl.password": "secret",
        }
    )
    return len(client.list_topics(timeout=60).brokers)


def _kafka_python(server: str) -> int:
    client = kafka.KafkaAdminClient(
        bootstrap_servers=server,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="ada",
        sasl_plain_password="secret",
    )
    try:
        return len(client.describe_cluster()["brokers"])
    finally:
        client.close()


@pytest.mark.parametrize("client", [_confluent, _kafka_python])
def test_clients_try_again_and_get_in(client: Callable[[str], int]) -> None:
    async def main() -> None:
        async with full() as (gateway, busy):
            host, port = gateway.broker.endpoints["SASL_PLAINTEXT"]
            asks = asyncio.ensure_future(asyncio.to_thread(client, f"{host}:{port}"))
            counts = gateway.broker.metrics.logins
            await until(lambda: value(counts, *BUSY) >= 2 or asks.done())
            await busy.free()
            assert await asks == 1
            assert value(counts, "SASL_PLAINTEXT", "PLAIN", "success") >= 1
            assert told(gateway) == (0, 0)

    uvloop.run(main())


def test_over_http_it_is_told_when_to_come_again() -> None:
    async def main() -> None:
        async with full() as (gateway, busy):
            server = await start(gateway.broker, ("127.0.0.1", 0))
            said = {"Authorization": "Basic " + base64.b64encode(b"ada:secret").decode()}
            url = f"{server.url}/admin/v2/magnetar/users"
            async with aiohttp.ClientSession() as session:
                # more than may fail
                for _ in range(25):
                    async with session.get(url, headers=said) as answer:
                        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
                        assert "try again" in json.loads(await answer.read())["reason"]
                assert told(gateway) == (0, 0)
                await busy.free()
                async with session.get(url, headers=said) as answer:
                    assert answer.status == 200
                # who is known comes in, and to make a password is as much work
                gateway.broker.users._pool.close()
                gateway.broker.users._pool = (again := Full()).pool
                await asyncio.sleep(0)
                body = {"password": "open sesame"}
                async with session.put(f"{url}/eve", json=body, headers=said) as answer:
                    assert answer.status == 503
                await again.free()
            await server.stop()

    uvloop.run(main())
