"""The servers that are asked, and how messages get there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from compat.admin.recorder import Recorder
from compat.admin.tool import Tool, ToolError
from compat.peers.magnetar import MagnetarPeer
from compat.peers.pulsar import PulsarPeer

SERVERS = ("magnetar", "pulsar")


@dataclass(frozen=True)
class Server:
    """One that runs. `produce` is given a topic in full, the first number, how many messages; `compacted` a topic that
    is to be one of which compaction may remove something.
    """

    name: str
    tool: Tool
    recorder: Recorder
    produce: Callable[[str, int, int], None]
    compacted: Callable[[str], None]
    patience: float
    """Seconds until what a command has changed shows; Pulsar's topic policies are read from a topic."""


@contextmanager
def started(name: str) -> Iterator[Server]:
    """A server of this name, empty, on free ports. Raises `PeerError` or `JarsError`."""
    if name == "pulsar":
        settings = {"forceDeleteNamespaceAllowed": "true", "forceDeleteTenantAllowed": "true"}
        with (
            PulsarPeer(heap="768m", settings=settings) as pulsar,
            Recorder(pulsar.admin_url) as recorder,
            Tool(recorder.url, pulsar.service_url) as tool,
        ):
            yield Server(name, tool, recorder, tool.produce, _nothing, 5.0)
        return
    with (
        MagnetarPeer(settings={"log.retention.check.interval.ms": 600_000}) as magnetar,
        Recorder(magnetar.admin_url) as recorder,
        Tool(recorder.url) as tool,
    ):
        yield Server(name, tool, recorder, _producer(magnetar.bootstrap), _compacter(magnetar.bootstrap), 0.0)


def _nothing(topic: str) -> None:
    """Pulsar keeps all messages beside those that are left."""


def _compacter(bootstrap: str) -> Callable[[str], None]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def compacted(topic: str) -> None:
        """Raises `ToolError`."""
        entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(
            ConfigResource.Type.TOPIC, kafka_name(topic)[0], incremental_configs=[entry]
        )
        try:
            admin.incremental_alter_configs([resource])[resource].result(20)
        except KafkaException as error:
            raise ToolError(f"{topic} is not compacted: {error}") from None

    return compacted


def _producer(bootstrap: str) -> Callable[[str, int, int], None]:
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 1, "log_level": 0})

    def produce(topic: str, first: int, count: int) -> None:
        """As `Tool.produce`: a batch of one record for each message. Raises `ToolError`."""
        failed: list[str] = []
        name, partition = kafka_name(topic)
        for number in range(first, first + count):
            producer.produce(
                name,
                f"m-{number}",
                f"k-{number}",
                partition=partition,
                headers={"n": str(number)},
                on_delivery=lambda error, _: failed.append(str(error)) if error is not None else None,
            )
        try:
            left = producer.flush(20)
        except KafkaException as error:
            raise ToolError(f"messages for {topic} were not taken: {error}") from None
        if left or failed:
            raise ToolError(f"messages for {topic} were not taken: {failed[:1] or 'no answer'}")

    return produce


def kafka_name(topic: str) -> tuple[str, int]:
    """What Kafka clients call `persistent://tenant/namespace/topic-partition-3`: the topic, and 3 (-1 for any)."""
    name, found, partition = topic.split("://")[1].replace("/", ".").partition("-partition-")
    return name, int(partition) if found else -1
