"""Pulsar's subscriptions with confluent-kafka: groups of type exclusive and failover."""

from __future__ import annotations

from typing import Any

from base import consumer, create
from common import Context, case, check
from confluent_kafka import Consumer, KafkaException
from share import share_group

PROTOCOLS: tuple[dict[str, Any], ...] = (
    {"group_protocol": "classic"},
    # what the server says, and a client may not
    {"group_protocol": "consumer", "session_timeout_ms": None, "heartbeat_interval_ms": None},
)
ASSIGNORS = ("range", "cooperative-sticky")
"""Those of the new protocol hear every five seconds of each other: the Java client's case has one."""


def member(ctx: Context, group: str, topic: str, conf: dict[str, Any]) -> Consumer:
    client = consumer(ctx, group, **conf)
    client.subscribe([topic])
    return client


def has(client: Consumer) -> list[int]:
    """The partitions that it has now."""
    client.poll(0.05)
    return sorted(place.partition for place in client.assignment())


def refused(ctx: Context, client: Any) -> None:
    for _ in ctx.wait("it to be refused"):
        try:
            found = client.poll(0.1)
        except KafkaException as error:
            said = [error.args[0]]
        else:
            messages = found if isinstance(found, list) else [found] if found is not None else []
            said = [message.error() for message in messages]
        # librdkafka says of some groups that it is fatal, and why in a sentence
        if any(error is not None and "reached maximum size" in error.str() for error in said):
            return


@case
def pulsar_exclusive(ctx: Context) -> None:
    topic = create(ctx, 2)
    for conf in PROTOCOLS:
        group = share_group(ctx, pulsar__subscription__type="exclusive")
        first = member(ctx, group, topic, conf)
        for _ in ctx.wait("all partitions"):
            if len(has(first)) == 2:
                break
        for other in PROTOCOLS:
            refused(ctx, member(ctx, group, topic, other))
        check(len(has(first)) == 2, "the first one has all partitions still")


@case
def pulsar_failover(ctx: Context) -> None:
    topic = create(ctx, 3)
    for assignor in ASSIGNORS:
        conf = {"partition_assignment_strategy": assignor}
        group = share_group(ctx, pulsar__subscription__type="failover")
        b = member(ctx, group, topic, {**conf, "client_id": "b"})
        for _ in ctx.wait("all partitions"):
            if len(has(b)) == 3:
                break
        a = member(ctx, group, topic, {**conf, "client_id": "a"})
        for _ in ctx.wait("its partitions"):
            if (has(b), has(a)) == ([1], [0, 2]):
                break
        check(has(b) == [1], "and they stay so")
