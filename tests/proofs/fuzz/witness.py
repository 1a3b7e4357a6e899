"""The client that behaves: it must not notice what others do to the gateway.

An unmodified librdkafka (confluent-kafka) produces, reads all of it back in a group and commits, each operation within
the time-out that a client has by default; new connections are opened and answered all the time.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

TIMEOUT = 30.0
"""Seconds for every operation: request.timeout.ms of Kafka's clients."""
PARTITIONS = 3
PAUSE = 0.05
"""Seconds between two rounds."""


@dataclass
class Account:
    """What the witness did and saw."""

    produced: int = 0
    consumed: int = 0
    commits: int = 0
    shared: int = 0
    connections: int = 0
    slowest: dict[str, float] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def took(self, what: str, seconds: float) -> None:
        self.slowest[what] = max(self.slowest.get(what, 0.0), seconds)
        if seconds > TIMEOUT:
            self.complaints.append(f"{what} took {seconds:.1f} s")


class Witness:
    """One topic, one group, nobody knows their names."""

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        """`client`: librdkafka's properties, at least bootstrap.servers."""
        self.client = dict(client)
        self.topic = topic
        self.account = Account()
        self._sent: list[tuple[int, int, bytes]] = []
        # what the share group has confirmed
        self._accepted: set[tuple[int, int]] = set()

    def create(self) -> None:
        configs = {"retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": "2000000"}
        admin = AdminClient(self.client)
        for future in admin.create_topics([NewTopic(self.topic, PARTITIONS, 1, config=configs)]).values():
            future.result(TIMEOUT)
        entry = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
        group = ConfigResource(ConfigResource.Type.GROUP, f"{self.topic}-share", incremental_configs=[entry])
        admin.incremental_alter_configs([group])[group].result(TIMEOUT)

    def watch(self, until: float) -> Account:
        """Produce, consume, commit, connect until then (monotonic s)."""
        account = self.account

        def error(problem: KafkaError) -> None:
            account.complaints.append(f"librdkafka: {problem}")

        common = {**self.client, "error_cb": error, "socket.keepalive.enable": True}
        producer = Producer({**common, "enable.idempotence": True, "linger.ms": 1})
        consumer = Consumer(
            {**common, "group.id": self.topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        consumer.subscribe([self.topic])
        sharing = ShareConsumer(
            {
                **common,
                "group.id": f"{self.topic}-share",
                "share.acknowledgement.mode": "explicit",
            }
        )
        sharing.subscribe([self.topic])
        try:
            number = 0
            while time.monotonic() < until and len(account.complaints) < 20:
                number = self._produce(producer, number)
                self._consume(consumer)
                self._share(sharing)
                self._connect()
                # it watches; the load is made by others
                time.sleep(PAUSE)
        except KafkaException as problem:
            account.complaints.append(str(problem))
        finally:
            consumer.close()
            sharing.close()
        return account

    def _produce(self, producer: Producer, number: int) -> int:
        began = time.monotonic()

        def delivered(problem: KafkaError | None, message: Message) -> None:
            if problem is not None:
                self.account.complaints.append(f"produce: {problem}")
            else:
                self._sent.append((message.partition(), message.offset(), message.value()))

        for _ in range(20):
            producer.produce(
                self.topic,
                b"%d" % number + b"x" * (number % 3000),
                partition=number % PARTITIONS,
                callback=delivered,
            )
            number += 1
        left = producer.flush(TIMEOUT)
        if left:
            self.account.complaints.append(f"{left} messages were not delivered in {TIMEOUT:.0f} s")
        self.account.took("produce", time.monotonic() - began)
        self.account.produced = len(self._sent)
        return number

    def _consume(self, consumer: Consumer) -> None:
        account = self.account
        began = time.monotonic()
        while account.consumed < account.produced:
            message = consumer.poll(TIMEOUT)
            if message is None:
                account.complaints.append(f"nothing came for {TIMEOUT:.0f} s, though there is more")
                return
            if message.error():
                account.complaints.append(f"consume: {message.error()}")
                return
            account.consumed += 1
        account.took("consume", time.monotonic() - began)
        began = time.monotonic()
        consumer.commit(asynchronous=False)
        account.commits += 1
        account.took("commit", time.monotonic() - began)

    def _share(self, consumer: ShareConsumer) -> None:
        """A member of a share group gets everything that was produced, and once it was accepted not again."""
        account = self.account
        began = time.monotonic()
        while account.shared < account.produced:
            if time.monotonic() - began > TIMEOUT:
                account.complaints.append(f"nothing was shared for {TIMEOUT:.0f} s, though there is more")
                return
            places = []
            for message in consumer.poll(1.0):
                if message.error() is not None:
                    account.complaints.append(f"share: {message.error()}")
                    return
                place = message.partition(), message.offset()
                if place in self._accepted:
                    account.complaints.append(f"share: {place} was accepted and came again")
                places.append(place)
                consumer.acknowledge(message)
            for where, problem in consumer.commit_sync(TIMEOUT).items():
                if problem is not None:
                    account.complaints.append(f"share: {where}: {problem}")
            self._accepted.update(places)
            account.shared = len(self._accepted)
        account.took("share", time.monotonic() - began)

    def _connect(self) -> None:
        began = time.monotonic()
        host, port = self.client["bootstrap.servers"].rsplit(":", 1)
        try:
            with self._over(socket.create_connection((host, int(port)), TIMEOUT)) as sock:
                sock.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
                answer = sock.recv(8)
                if len(answer) < 8 or answer[4:] != struct.pack(">i", 7):
                    self.account.complaints.append(f"a new connection was answered {answer!r}")
        except OSError as problem:
            self.account.complaints.append(f"a new connection: {problem}")
        self.account.connections += 1
        self.account.took("connect and ask", time.monotonic() - began)

    def _over(self, sock: socket.socket) -> socket.socket:
        """Over TLS, where the client is."""
        ca = self.client.get("ssl.ca.location")
        if ca is None:
            return sock
        return ssl.create_default_context(cafile=ca).wrap_socket(sock, server_hostname="127.0.0.1")

    def missing(self) -> list[str]:
        """What was acknowledged and is not there, or is there at another place: read again from the beginning."""
        reader = Consumer(
            {
                **self.client,
                "group.id": f"{self.topic}-check",
                "enable.partition.eof": True,
            }
        )
        reader.assign([TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)])
        found: dict[tuple[int, int], bytes] = {}
        ended = 0
        while ended < PARTITIONS:
            message = reader.poll(TIMEOUT)
            if message is None:
                return ["the topic could not be read to its end"]
            if message.error():
                if message.error().code() != KafkaError._PARTITION_EOF:
                    return [str(message.error())]
                ended += 1
                continue
            found[message.partition(), message.offset()] = message.value()
        reader.close()
        wrong = [
            f"{partition}:{offset}"
            for partition, offset, value in self._sent
            if found.get((partition, offset)) != value
        ]
        if len(found) != len(self._sent):
            wrong.append(f"{len(self._sent)} were acknowledged, {len(found)} are there")
        return wrong


def main(pipe: Any, client: Mapping[str, str], topic: str, seconds: float) -> None:
    """In a process of its own: watch, then look whether all is there; both go into the pipe."""
    witness = Witness(client, topic)
    witness.create()
    pipe.send("ready")
    account = witness.watch(time.monotonic() + seconds)
    account.complaints += [f"lost: {each}" for each in witness.missing()[:10]]
    pipe.send(account)
