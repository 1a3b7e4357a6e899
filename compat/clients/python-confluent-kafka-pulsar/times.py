"""Pulsar's subscriptions with confluent-kafka: what is delivered later. No case says how late is too late."""

from __future__ import annotations

import time
from typing import Any

from base import create, produce, read
from common import Context, Record, case, check, restart_case, same, sample
from confluent_kafka import Message
from share import ACCEPT, RELEASE, Sharer, configure, counts, nothing_else, offsets, share_group, sharing

EARLY = 0.002
"""Seconds by which two clocks of one machine may differ when each is read to the millisecond."""


@case
def pulsar_nack_backoff(ctx: Context) -> None:
    backoff: dict[str, Any] = {
        "pulsar__nack__backoff__min__ms": 250,
        "pulsar__nack__backoff__max__ms": 800,
        "pulsar__nack__backoff__multiplier": 2,
    }
    topic, group = create(ctx), share_group(ctx, pulsar__max__redeliver__count=10, **backoff)
    produce(ctx, topic, sample(1))
    member, released = Sharer(ctx, group, topic), 0.0
    for delivery, least in enumerate((0, 0.25, 0.5, 0.8, 0.8), start=1):
        found = member.hold(1)
        waited = time.monotonic() - released
        check(waited > least - EARLY, f"delivery {delivery} {waited:.3f} s after the release, not {least} s")
        same(counts(found), [delivery], "delivery count")
        released = time.monotonic()
        member.acknowledge(found, RELEASE if delivery < 5 else ACCEPT)
    nothing_else(ctx, member, topic)


@case
def pulsar_nack_delay(ctx: Context) -> None:
    topic, group, member = sharing(ctx, 3, pulsar__nack__delay__ms=400)
    for message in member.hold(3):
        member.client.acknowledge(message, RELEASE if message.offset() == 1 else ACCEPT)
    began = time.monotonic()
    member.commit()
    again = member.hold(1)
    check(time.monotonic() - began > 0.4 - EARLY, "redelivered before its delay")
    same((offsets(again), counts(again)), ([1], [2]), "offset and delivery count")
    configure(ctx, group, pulsar__nack__delay__ms=600_000)
    member.acknowledge(again, RELEASE)
    nothing_else(ctx, member, topic)  # the others go on


@case
def pulsar_ack_timeout_backoff(ctx: Context) -> None:
    settings: dict[str, Any] = {
        "pulsar__ack__timeout__ms": 1000,
        "pulsar__ack__timeout__backoff__min__ms": 400,
        "pulsar__ack__timeout__backoff__multiplier": 2,
    }
    topic, group = create(ctx), share_group(ctx, **settings)
    produce(ctx, topic, sample(1))
    began, count = time.monotonic(), 0
    while count < 3:
        member = Sharer(ctx, group, topic)  # those before it stay, and hold the record too long
        found = member.hold(1)
        check(counts(found) > [count], f"delivery counts {count}, then {counts(found)}")
        (count,) = counts(found)
    waited = time.monotonic() - began
    check(waited > 3.2 - EARLY, f"two time-outs and 0.4, 0.8 s in {waited:.3f} s")
    member.acknowledge(found)
    nothing_else(ctx, member, topic)


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
            early = int(dict(message.headers())["due"]) / 1000 - time.time()
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
    delayed = [Record(b"k", b"late %d" % n, [("pulsar-deliver-after", b"700")]) for n in range(5)]
    at_once = [Record(b"k", b"at once", []), Record(b"k", b"odd", [("pulsar-deliver-after", b"soon")])]
    produce(ctx, topic, [*delayed, *at_once], compression_type="lz4", linger_ms=20)
    member, found = Sharer(ctx, group, topic), list[Message]()
    for _ in ctx.wait("all records"):
        for message in (some := member.poll()):
            if message.offset() < 5:
                check(time.time() * 1000 >= message.timestamp()[1] + 700 - 2, "a record came early")
        member.acknowledge(some)
        found += some
        if len(found) >= 7:
            break
    same({m.value() for m in found}, {*(record.value for record in delayed), b"at once", b"odd"}, "records")
    same(counts(found), [1] * 7, "delivery counts")
    nothing_else(ctx, member, topic)


@restart_case
def restart_pulsar_delays(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    at = round(time.time() * 1000) + 4000
    delays = [[("pulsar-deliver-at", b"%d" % (at + n))] for n in range(20)]
    produce(ctx, topic, [Record(b"k", b"%d" % n, headers) for n, headers in enumerate(delays)])
    produce(ctx, topic, [Record(b"k", b"at once")])
    found: list[Message] = []

    def work(sharer: Sharer, enough: int) -> None:
        for _ in ctx.wait(f"{enough} records"):
            some = sharer.poll(0.5)
            late = [message for message in some if message.value() != b"at once"]
            check(not late or time.time() * 1000 >= at - 2, "records came early")
            sharer.acknowledge(some)
            found.extend(some)
            if len(found) >= enough:
                break

    first = Sharer(ctx, group, topic)
    work(first, 1)
    check(b"at once" in [message.value() for message in found], "what is not delayed did not come first")
    first.close()
    ctx.restart()
    second = Sharer(ctx, group, topic)
    work(second, 21)
    same(sorted(offsets(found)), list(range(21)), "records")
    nothing_else(ctx, second, topic)
