"""Clients as people use them, over TLS: with certificates of their own and without, and while the gateway's is renewed.

All files are those that `magnetar tls self-signed` makes.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MODULE, MagnetarPeer
from compat.peers.process import free_port
from compat.tools import PROJECT

pytestmark = pytest.mark.integration

LARGE = 5_000_000
PATIENCE = 30.0


class Secure(NamedTuple):
    """A gateway with a listener of TLS."""

    process: MagnetarPeer
    port: int
    folder: Path

    def client(self, name: str | None = None) -> dict[str, Any]:
        """Settings of librdkafka; with a name it shows the certificate of that name."""
        own = (
            {
                "ssl.certificate.location": str(self.folder / f"{name}.pem"),
                "ssl.key.location": str(self.folder / f"{name}-key.pem"),
            }
            if name is not None
            else {}
        )
        return {
            "bootstrap.servers": f"localhost:{self.port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            **own,
        }


def make(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", MODULE, "tls", "self-signed", str(folder), *arguments]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("tls")
    make(folder, "--client", "ada")
    port = free_port()
    flags = (
        f"--listen=SSL://127.0.0.1:{port}", f"--tls-cert={folder / 'server.pem'}",
        f"--tls-key={folder / 'server-key.pem'}", f"--tls-ca={folder / 'ca.pem'}",
    )  # fmt: skip
    with MagnetarPeer(
        *flags,
        directory=tmp_path_factory.mktemp("gateway"),
        settings={"ssl.client.auth": "requested", "authorization": "false"},
    ) as process:
        yield Secure(process, port, folder)


def create(client: dict[str, Any], topic: str) -> None:
    wanted = NewTopic(topic, 1, config={"max.message.bytes": str(2 * LARGE)})
    admin = AdminClient(client)
    for made in admin.create_topics([wanted]).values():
        made.result(PATIENCE)


@pytest.mark.parametrize("name", [None, "ada"])
def test_librdkafka_produces_and_reads_large_messages(secure: Secure, name: str | None) -> None:
    client, topic = secure.client(name), f"librdkafka-{name}"
    create(client, topic)
    sent = [os.urandom(LARGE), b"small", os.urandom(LARGE), b"x" * LARGE]
    producer = Producer({**client, "message.max.bytes": 2 * LARGE, "linger.ms": 0})
    for each in sent:
        producer.produce(topic, each)
    assert producer.flush(PATIENCE) == 0
    consumer = Consumer(
        {
            **client,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "max.partition.fetch.bytes": 4 * LARGE,
            "fetch.max.bytes": 4 * LARGE,
        }
    )
    consumer.subscribe([topic])
    read: list[bytes] = []
    until = time.monotonic() + PATIENCE
    while len(read) < len(sent) and time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            read.append(message.value())
    consumer.close()
    assert read == sent


def test_kafka_python_produces_and_reads(secure: Secure) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    client = {
        "bootstrap_servers": f"localhost:{secure.port}",
        "security_protocol": "SSL",
        "ssl_cafile": str(secure.folder / "ca.pem"),
        "ssl_certfile": str(secure.folder / "ada.pem"),
        "ssl_keyfile": str(secure.folder / "ada-key.pem"),
    }
    create(secure.client(), "kafka-python")
    sent = [b"%d" % number * 1000 for number in range(200)]
    producer = KafkaProducer(**client)
    for each in sent:
        producer.send("kafka-python", each)
    producer.flush(PATIENCE)
    producer.close()
    consumer = KafkaConsumer(
        "kafka-python", **client, auto_offset_reset="earliest", consumer_timeout_ms=1000 * PATIENCE
    )
    assert [next(consumer).value for _ in sent] == sent
    consumer.close()


def test_who_does_not_know_the_ca_does_not_come_in_and_the_log_says_why(secure: Secure) -> None:
    stranger = AdminClient({**secure.client(), "ssl.ca.location": str(secure.folder / "server.pem")})
    until = time.monotonic() + PATIENCE
    while "it does not know the CA of this gateway's certificate" not in secure.process.log():
        assert time.monotonic() < until
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=0.1)


def shown(secure: Secure) -> bytes | None:
    """The certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=str(secure.folder / "ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", secure.port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        return connection.getpeercert(True)


def test_a_certificate_is_renewed_while_clients_go_on(secure: Secure) -> None:
    client = secure.client("ada")
    create(client, "renewed")
    outcomes: list[object] = []
    producer = Producer({**client, "linger.ms": 0})

    def send() -> None:
        producer.produce("renewed", b"x", on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(PATIENCE) == 0

    send()
    before, loaded = shown(secure), secure.process.log().count("certificate loaded")
    make(secure.folder, "--force")
    until = time.monotonic() + PATIENCE
    while secure.process.log().count("certificate loaded") == loaded:
        assert time.monotonic() < until
        send()
    send()
    assert set(outcomes) == {None}
    now = shown(secure)
    assert now == ssl.PEM_cert_to_DER_cert((secure.folder / "server.pem").read_text())
    assert now != before
