"""A namespace of one test of a policy, with a topic `t`, and what clients do there."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Sequence
from typing import Any

from click.testing import CliRunner
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

from compat.peers.magnetar import MagnetarPeer
from gateway.cli.admin import main as magnetar_admin
from tests.integration.sharing import acknowledge, make_group, member, poll, until

HOUR = 3_600_000
SILENCE = 0.4
"""Seconds in which nothing came, where a limit is so low that nothing more can."""


class Place:
    """Of one policy; `name` may have dashes."""

    def __init__(self, gateway: MagnetarPeer, name: str) -> None:
        self.gateway = gateway
        self.namespace = f"shop/{name}"
        self.topic = self.named("t")
        # values count up, so that each is sent once
        self._sent = 0

    @property
    def bootstrap(self) -> str:
        return self.gateway.bootstrap

    def named(self, name: str) -> str:
        """A topic of the namespace, as Kafka clients call it."""
        return f"{self.namespace.replace('/', '.')}.{name}"

    def path(self, name: str = "t") -> str:
        """The same as Pulsar's tools call it."""
        return f"{self.namespace}/{name}"

    # -- magnetar-admin ---------------------------------------------------------------------------------------------

    def admin(self, *words: str) -> Any:
        """What `magnetar-admin` answers. It runs in this process: a hundred starts would take longer than the tests."""
        done = self._run(words)
        assert done.exit_code == 0, f"{words}: {done.output}"
        return json.loads(done.stdout) if done.stdout.strip() else None

    def allowed(self, *words: str) -> bool:
        """Whether it does what is asked; a refusal is one by a policy."""
        done = self._run(words)
        assert (
            done.exit_code == 0
            or "412" in done.output
            or "may have" in done.output
            or "takes no" in done.output
        )
        return bool(done.exit_code == 0)

    def _run(self, words: Sequence[str]) -> Any:
        given = ["--admin-url", self.gateway.admin_url, "--output", "json", *words]
        return CliRunner().invoke(magnetar_admin, given)

    def stats(self, name: str = "t") -> Any:
        """Of a topic's first partition."""
        url = f"{self.gateway.admin_url}/admin/v2/persistent/{self.path(name)}/stats"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)

    def subscription(self, group: str, name: str = "t") -> Any:
        return self.stats(name)["subscriptions"][group]

    # -- topics -----------------------------------------------------------------------------------------------------

    def make(self, name: str) -> KafkaError | None:
        """A topic with one partition; why not."""
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        try:
            client.create_topics([NewTopic(self.named(name), 1, 1)])[self.named(name)].result(30)
        except KafkaException as error:
            found: KafkaError = error.args[0]
            return found
        return None

    def configure(self, name: str, configs: dict[str, str]) -> None:
        """Set configs of a topic, as Kafka's clients do."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in configs.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.named(name), incremental_configs=entries)
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        client.incremental_alter_configs([resource])[resource].result(30)

    def topics(self) -> dict[str, int]:
        """Those of the namespace with their number of partitions."""
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        found = client.list_topics(timeout=30).topics
        before = self.named("")
        return {
            name.removeprefix(before): len(each.partitions)
            for name, each in found.items()
            if name.startswith(before)
        }

    def span(self, name: str = "t") -> tuple[int, int]:
        """Where the log begins and ends."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "watching"})
        found: tuple[int, int] = consumer.get_watermark_offsets(
            TopicPartition(self.named(name), 0), timeout=30
        )
        consumer.close()
        return found

    # -- producers --------------------------------------------------------------------------------------------------

    def value(self, size: int = 0) -> bytes:
        self._sent += 1
        return b"%06d" % self._sent + bytes(size)

    def producer(self, **config: Any) -> Producer:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "linger.ms": 0,
            "retry.backoff.ms": 20,
            "log_level": 0,
        }
        return Producer({**settings, **config})

    def send(
        self,
        *values: bytes,
        to: str = "t",
        by: Producer | None = None,
        age_ms: int = 0,
        headers: list[tuple[str, str | bytes | None]] | None = None,
    ) -> list[KafkaError]:
        """Each by itself, so many ms old; what was refused, and why."""
        producer = by or self.producer()
        refused: list[KafkaError] = []

        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                refused.append(error)

        now = int(time.time() * 1000)
        for value in values:
            producer.produce(
                self.named(to), value, b"k", timestamp=now - age_ms, headers=headers, on_delivery=told
            )
            assert producer.flush(30) == 0
        return refused

    def send_at_once(self, values: Sequence[bytes], by: Producer | None = None) -> None:
        """All in one batch."""
        producer = by or self.producer(**{"linger.ms": 20})
        for value in values:
            producer.produce(self.topic, value, b"k")
        assert producer.flush(30) == 0

    # -- consumers --------------------------------------------------------------------------------------------------

    def member(self, group: str, to: str = "t", **configs: Any) -> ShareConsumer:
        """Of a share group, which begins with the first record."""
        return member(self.bootstrap, make_group(self.bootstrap, group, **configs), self.named(to))

    def shared(self, consumer: ShareConsumer, count: int) -> list[bytes]:
        """So many values, each acknowledged when it comes."""
        found: list[bytes] = []

        def more() -> bool:
            messages = poll(consumer)
            acknowledge(consumer, messages)
            found.extend(each.value() or b"" for each in messages)
            return len(found) >= count

        until(more, f"{count} messages of {self.topic}; {len(found)} came")
        return found

    def shared_until_silent(self, consumer: ShareConsumer) -> list[bytes]:
        """The same until nothing comes any more; there is something."""
        found = self.shared(consumer, 1)
        while messages := poll(consumer, SILENCE):
            acknowledge(consumer, messages)
            found.extend(each.value() or b"" for each in messages)
        return found

    def read(self, since: int, count: int) -> list[bytes]:
        """What a plain consumer reads from an offset on: so many, or until nothing comes any more."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False}
        consumer = Consumer({**settings, "fetch.wait.max.ms": 50})
        consumer.assign([TopicPartition(self.topic, 0, since)])
        found: list[bytes] = []

        def more() -> bool:
            found.extend(each.value() or b"" for each in consumer.consume(1, 0.2) if each.error() is None)
            return bool(found)

        until(more, f"anything of {self.topic}")
        while len(found) < count and (messages := consumer.consume(count - len(found), SILENCE)):
            found.extend(each.value() or b"" for each in messages if each.error() is None)
        consumer.close()
        return found
