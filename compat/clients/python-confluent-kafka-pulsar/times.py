"""Pulsar's subscriptions with confluent-kafka: what is delivered later. No case says how late is too late."""

from __future__ import annotations

import time
from typing import Any

from base import create, produce, read
from common import Context, Record, case, check, restart_case, same, sample
from confluent_kafka import Message
from share import RELEASE, Sharer, counts, nothing_else, offsets, share_group

EARLY = 0.002
"""Seconds by which two clocks of one machine may differ when each is read to the millisecond."""


def repeat(ctx: Context, sharer: Sharer, deliveries: int, release: bool) -> list[float]:
    """Take a record so many times without accepting it; the seconds from one delivery's end to the next delivery."""
    waits: list[float] = []
    ended = 0.0
    for delivery in range(1, deliveries + 1):
        (message,) = sharer.hold(1)
        same(message.delivery_count(), delivery, "delivery count")
        if ended:
            waits.append(time.monotonic() - ended)
        ended = time.monotonic()
        if release and delivery < deliveries:
            sharer.acknowledge([message], RELEASE)
        elif delivery < deliveries:
            sharer = Sharer(
                ctx, sharer.group, sharer.topic
            )  # the first one stays and holds it until its lock ends
        else:
            sharer.acknowledge([message])
    nothing_else(ctx, sharer, message.topic())
    return waits


@case
def pulsar_nack_backoff(ctx: Context) -> None:
    backoff: dict[str, Any] = {
        "pulsar__nack__backoff__min__ms": 250,
        "pulsar__nack__backoff__max__ms": 800,
        "pulsar__nack__backoff__multiplier": 2,
    }
    topic, group = create(ctx), share_group(ctx, pulsar__max__redeliver__count=10, **backoff)
    produce(ctx, topic, sample(1))
    waits = repeat(ctx, Sharer(ctx, group, topic), 5, release=True)
    for wait, least in zip(waits, (0.25, 0.5, 0.8, 0.8), strict=True):
        check(wait > least - EARLY, f"redelivered after {waits}, not 0.25, 0.5, 0.8, 0.8 s")


@case
def pulsar_nack_delay(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx, pulsar__nack__delay__ms=400)
    produce(ctx, topic, sample(3))
    member = Sharer(ctx, group, topic)
    held = member.hold(3)
    for message in held:
        member.client.acknowledge(message, RELEASE if message.offset() == 1 else 1)
    began = time.monotonic()
    member.commit()
    produce(ctx, topic, [Record(None, b"meanwhile")])
    same([m.value() for m in member.take(1)], [b"meanwhile"], "what comes while a record waits")
    again = member.take(1)
    check(time.monotonic() - began > 0.4 - EARLY, "redelivered before its delay")
    same((offsets(again), counts(again)), ([1], [2]), "offset and delivery count")


@case
def pulsar_ack_timeout_backoff(ctx: Context) -> None:
    settings: dict[str, Any] = {
        "pulsar__ack__timeout__ms": 300,
        "pulsar__ack__timeout__backoff__min__ms": 300,
        "pulsar__ack__timeout__backoff__multiplier": 2,
    }
    topic, group = create(ctx), share_group(ctx, **settings)
    produce(ctx, topic, sample(1))
    waits = repeat(ctx, Sharer(ctx, group, topic), 4, release=False)
    for wait, least in zip(waits, (0.6, 0.9, 1.5), strict=True):  # the time-out, then 0.3, 0.6, 1.2 s
        check(wait > least - 0.1, f"redelivered after {waits}, not 0.6, 0.9, 1.5 s")


def due(message: Message) -> int:
    return int(dict(message.headers())["due"])


@case
def pulsar_deliver_at(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    member = Sharer(ctx, group, topic)
    now = round(time.time() * 1000)
    dues = [now + 300 * (7 - n) for n in range(6)] + [now - 10_000]
    produce(
        ctx,
        topic,
        [
            Record(b"k", b"%d" % n, [("pulsar-deliver-at", b"%d" % at), ("due", b"%d" % at)])
            for n, at in enumerate(dues)
        ],
    )
    same(len(read(ctx, topic, 7)), 7, "records that a reader sees at once")
    arrived: list[int] = []
    together = 0
    for _ in ctx.wait("the delayed records"):
        found = member.poll(0.5)
        together = max(together, len(found))
        for message in found:
            early = due(message) / 1000 - time.time()
            check(early < EARLY, f"record {message.offset()} came {early:.3f} s early")
            arrived.append(message.offset())
        member.acknowledge(found)
        if len(arrived) == 7:
            break
    if together == 1:  # those that are due when a slow member asks come by their offsets
        same(arrived, [6, 5, 4, 3, 2, 1, 0], "the order of arrival: by due time")
    same(sorted(arrived), list(range(7)), "records that arrived")
    nothing_else(ctx, member, topic)


@case
def pulsar_deliver_after(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    member = Sharer(ctx, group, topic)
    delayed = [Record(b"k", b"late %d" % n, [("pulsar-deliver-after", b"700")]) for n in range(5)]
    at_once = [Record(b"k", b"at once", []), Record(b"k", b"odd", [("pulsar-deliver-after", b"soon")])]
    produce(ctx, topic, [*delayed, *at_once], compression_type="lz4", linger_ms=20)
    same([m.value() for m in member.take(2)], [b"at once", b"odd"], "records without a delay")
    found = member.take(5)
    same([m.value() for m in found], [record.value for record in delayed], "records with a delay")
    for message in found:
        check(time.time() * 1000 >= message.timestamp()[1] + 700 - 2, "a record came early")
    same(counts(found), [1] * 5, "delivery counts")


@restart_case
def restart_pulsar_delays(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    at = round(time.time() * 1000) + 4000
    delays = [[("pulsar-deliver-at", b"%d" % (at + n))] for n in range(20)]
    produce(ctx, topic, [Record(b"k", b"%d" % n, headers) for n, headers in enumerate(delays)])
    produce(ctx, topic, [Record(b"k", b"at once")])
    first = Sharer(ctx, group, topic)
    same([m.value() for m in first.take(1)], [b"at once"], "what is not delayed")
    first.close()
    ctx.restart()
    found: list[Message] = []
    second = Sharer(ctx, group, topic)
    for _ in ctx.wait("the delayed records"):
        some = second.poll(0.5)
        check(not some or time.time() * 1000 >= at - 2, "records came early")
        second.acknowledge(some)
        found += some
        if len(found) >= 20:
            break
    same(sorted(offsets(found)), list(range(20)), "delayed records")
    nothing_else(ctx, second, topic)
