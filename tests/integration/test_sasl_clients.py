"""Real clients log in over SASL, log in again in time, and hear it when they are refused."""

from __future__ import annotations

import asyncio
import logging
import os
import struct
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import kafka.errors
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from compat.peers.kafka.jars import java_command
from compat.peers.secured import Secured
from gateway.peer import Identity
from gateway.server import Gateway
from tests.gateway.auth.known import MemoryTokens, MemoryUsers
from tests.gateway.broker.held import until
from tests.gateway.login_client import connect, logged_in, plain, run, value
from tests.gateway.serving import batch, create, fetch_body, produce_body

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
TOKENS = MemoryTokens(**{"abc.def.ghi": Identity("User:ada", "token")})
Body = Callable[[Gateway, MemoryUsers], Coroutine[Any, Any, None]]


def address(gateway: Gateway) -> str:
    host, port = gateway.broker.endpoints["SASL_PLAINTEXT"]
    return f"{host}:{port}"


def librdkafka(gateway: Gateway, mechanism: str, password: str = "secret", **more: Any) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": address(gateway),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        config["oauth_cb"] = lambda _: (password, time.time() + 3600)
    else:
        config |= {"sasl.username": "ada", "sasl.password": password}
    return config | more


def round_trip(config: dict[str, Any], topic: str) -> bytes | None:
    """A message, there and back."""
    producer = Producer(config)
    producer.produce(topic, b"hello")
    assert producer.flush(20) == 0
    consumer = Consumer(config | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.poll(20)
    consumer.close()
    assert found is not None
    assert found.error() is None
    content: bytes | None = found.value()
    return content


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
def test_librdkafka(mechanism: str) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        await create(await logged_in(gateway), "t")
        config = librdkafka(gateway, mechanism, "abc.def.ghi" if mechanism == "OAUTHBEARER" else "secret")
        assert await asyncio.to_thread(round_trip, config, "t") == b"hello"
        assert value(gateway.broker.metrics.logins, "SASL_PLAINTEXT", mechanism, "success") >= 2

    run(test, tokens=TOKENS)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
def test_librdkafka_hears_that_it_is_refused(mechanism: str) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        heard: list[KafkaError] = []
        client = AdminClient(
            librdkafka(gateway, mechanism, "wrong", error_cb=heard.append), logger=logging.getLogger("quiet")
        )

        def listing() -> None:
            with pytest.raises(KafkaException):
                client.list_topics(timeout=2)

        def all_heard() -> bool:
            client.poll(0)
            return any(each.code() == KafkaError._AUTHENTICATION for each in heard)

        await asyncio.to_thread(listing)
        await until(all_heard)
        (told, *_) = [each.str() for each in heard if each.code() == KafkaError._AUTHENTICATION]
        assert f"invalid credentials with SASL mechanism {mechanism}" in told

    run(test, tokens=TOKENS)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        await create(await logged_in(gateway), "t")
        config = {
            "bootstrap_servers": address(gateway),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "ada",
        }

        def whole() -> None:
            producer = kafka.KafkaProducer(sasl_plain_password="secret", **config)
            assert producer.send("t", b"hello").get(20).offset == 0
            producer.close()
            with pytest.raises(kafka.errors.KafkaError):
                kafka.KafkaAdminClient(
                    sasl_plain_password="wrong", bootstrap_timeout_ms=500, **config
                ).close()

        await asyncio.to_thread(whole)
        assert value(gateway.broker.metrics.logins, "SASL_PLAINTEXT", mechanism, "failure") >= 1
        # it raises that it cannot bootstrap, whatever the reason was; that one is in its log
        heard = [each.getMessage() for each in caplog.records if each.name.startswith("kafka.net")]
        assert any(f"invalid credentials with SASL mechanism {mechanism}" in each for each in heard)
        assert not any("socket disconnected" in each for each in heard)

    run(test)


def test_kafka_python_hears_over_tls_that_it_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asks = Secured(tmp_path)
    asks.prepare()

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        host, port = gateway.broker.endpoints["SASL_SSL"]

        def refused() -> None:
            with pytest.raises(kafka.errors.KafkaError):
                kafka.KafkaAdminClient(
                    bootstrap_servers=f"{host}:{port}",
                    bootstrap_timeout_ms=500,
                    security_protocol="SASL_SSL",
                    ssl_cafile=str(asks.ca),
                    sasl_mechanism="SCRAM-SHA-256",
                    sasl_plain_username="ada",
                    sasl_plain_password="wrong",
                ).close()

        await asyncio.to_thread(refused)
        heard = [each.getMessage() for each in caplog.records if each.name.startswith("kafka.net")]
        assert any("invalid credentials with SASL mechanism SCRAM-SHA-256" in each for each in heard)
        assert not any("socket disconnected" in each for each in heard)

    own = (f"ssl.certificate.location={asks.certificate}", f"ssl.key.location={asks.key}")
    run(test, *own, listeners="SASL_SSL://127.0.0.1:0")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(mechanism: str) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        await create(await logged_in(gateway), "t")
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address(gateway),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="ada",
            sasl_plain_password="secret",
        )
        await producer.start()
        assert (await producer.send_and_wait("t", b"hello")).offset == 0
        await producer.stop()

    run(test)


def test_librdkafka_logs_in_again_on_its_connection() -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        await create(await logged_in(gateway), "t")
        failed: list[KafkaError] = []
        producer = Producer(librdkafka(gateway, "SCRAM-SHA-512", error_cb=failed.append))
        renewed = gateway.broker.metrics.reauthentications
        sent = 0

        def again() -> bool:
            nonlocal sent
            producer.produce("t", b"hello")
            sent += 1
            producer.flush(10)
            return value(renewed, "SASL_PLAINTEXT", "SCRAM-SHA-512", "success") >= 2

        async with asyncio.timeout(30):
            while not await asyncio.to_thread(again):
                pass
        logins = value(gateway.broker.metrics.logins, "SASL_PLAINTEXT", "SCRAM-SHA-512", "success")
        assert logins <= 2, "it has its connections still: that of its bootstrap, and that of the broker"
        assert failed == []
        client = await logged_in(gateway)
        told = await client.ask(1, 11, fetch_body("t", 0))
        assert told.responses[0].partitions[0].high_watermark == sent

    run(test, "connections.max.reauth.ms=1500")


def test_java_logs_in_again_on_its_connection(tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ada" password="secret";\n'
    )

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        await create(await logged_in(gateway), "t")
        command = java_command(
            "org.apache.kafka.tools.ProducerPerformance",
            [
                *("--topic", "t", "--num-records", "200", "--record-size", "10", "--throughput", "50"),
                *("--command-config", str(properties), "--bootstrap-server", address(gateway)),
            ],
            options=["-XX:TieredStopAtLevel=1"],
        )
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=dict(os.environ)
        )
        told, _ = await process.communicate()
        assert process.returncode == 0, told.decode()
        assert "200 records sent" in told.decode()
        metrics = gateway.broker.metrics
        assert value(metrics.reauthentications, "SASL_PLAINTEXT", "SCRAM-SHA-256", "success") >= 1
        assert value(metrics.logins, "SASL_PLAINTEXT", "SCRAM-SHA-256", "success") <= 3
        client = await logged_in(gateway)
        told_of = await client.ask(1, 11, fetch_body("t", 0))
        assert told_of.responses[0].partitions[0].high_watermark == 200

    run(test, "connections.max.reauth.ms=1500")


# -- attacks


def test_three_hundred_silent_clients_and_a_flood_of_passwords_beside_one_that_works() -> None:
    """The witness's every request is answered, and when the attackers are gone nothing of them is left."""

    async def guess(gateway: Gateway, number: int) -> None:
        client = await connect(gateway)
        assert (await plain(client, f"user{number}", "guess")).error_code == 58
        assert await client.at_end()

    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        witness = await logged_in(gateway)
        await create(witness, "t")
        host, port = gateway.broker.endpoints["SASL_PLAINTEXT"]
        silent = [await asyncio.open_connection(host, port) for _ in range(300)]
        for number, (_, writer) in enumerate(silent):
            # nothing; the beginning of a frame; nearly all of one
            writer.write(
                (b"", b"\0\0", struct.pack(">ihhih", 60_000, 17, 1, 1, -1) + bytes(50_000))[number % 3]
            )
        listener = gateway.listeners[0]
        await until(lambda: len(listener.gates) == 300)
        guessing = [asyncio.ensure_future(guess(gateway, each)) for each in range(200)]
        for offset in range(200):
            told = await witness.ask(0, 9, produce_body("t", batch(b"v")))
            assert told.responses[0].partition_responses[0].base_offset == offset
        await asyncio.gather(*guessing)
        held = gateway.broker.receiving.total
        assert 90 * 50_000 < held < 100 * 60_000 + 200
        for _, writer in silent:
            writer.close()
        await until(lambda: not listener.gates)
        assert len(listener.connections) == 1
        assert gateway.broker.receiving.total == 0
        assert value(gateway.broker.metrics.logins, "SASL_PLAINTEXT", "PLAIN", "failure") == 200

    run(test)
