"""Share groups of confluent-kafka: what acknowledgements do."""

from __future__ import annotations

import time
from typing import Any

from base import as_records, create, produce
from common import CODECS, Context, Record, case, check, same, sample
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from share import (
    ACCEPT,
    LOCK_MS,
    REJECT,
    RELEASE,
    Sharer,
    configure,
    counts,
    nothing_else,
    offsets,
    share_group,
    sharing,
)


@case
def share_implicit(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    produce(ctx, topic, sample(10))
    first = Sharer(ctx, group, topic, explicit=False)
    same(offsets(first.hold(10)), list(range(10)), "first poll")
    produce(ctx, topic, sample(10))
    same(offsets(first.some()), list(range(10, 20)), "second poll")  # which accepted the first
    first.commit()  # accepts the second
    first.close()
    nothing_else(ctx, Sharer(ctx, group, topic), topic)


@case
def share_explicit(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    sent = [*sample(8), Record(None, b"no key", [("a", b"\x00"), ("a", None)]), Record(b"k", None)]
    produce(ctx, topic, sent)
    first = Sharer(ctx, group, topic)
    found = first.hold(10)
    same(as_records(found), sent, "records")
    same(counts(found), [1] * 10, "delivery counts")
    check(all(m.timestamp()[1] > time.time() * 1000 - 600_000 for m in found), "timestamps")
    for message in found[:5]:
        first.client.acknowledge(message)
    for message in found[5:]:
        first.client.acknowledge_offset(message.topic(), message.partition(), message.offset(), ACCEPT)
    results = first.client.commit_sync(ctx.left)
    same([(p.topic, p.partition, e) for p, e in results.items()], [(topic, 0, None)], "what commit_sync says")
    same(first.client.commit_sync(ctx.left), {}, "a second commit_sync")
    nothing_else(ctx, first, topic)
    first.close()
    nothing_else(ctx, Sharer(ctx, group, topic), topic)


@case
def share_commit_callback(ctx: Context) -> None:
    topic, _, first = sharing(ctx, 10)
    told: list[tuple[list[int], Any]] = []

    def committed(found: dict[TopicPartition, set[int]], error: KafkaException | None) -> None:
        told.extend((sorted(numbers), error) for numbers in found.values())

    first.client.set_acknowledgement_commit_callback(committed)
    for message in first.hold(10):
        first.client.acknowledge(message)
    first.client.commit_async()
    for _ in ctx.wait("the callback"):
        first.poll(0.05)
        if told:
            break
    same(told, [(list(range(10)), None)], "what the callback was told")
    nothing_else(ctx, first, topic)


@case
def share_release(ctx: Context) -> None:
    topic, group, first = sharing(ctx, 10)
    for message in first.hold(10):
        first.client.acknowledge(message, RELEASE if message.offset() % 2 else ACCEPT)
    first.commit()
    for delivery in (2, 3):
        again = first.hold(5)
        same(offsets(again), [1, 3, 5, 7, 9], "released records")
        same(counts(again), [delivery] * 5, "delivery counts")
        for message in again:
            first.client.acknowledge(message, RELEASE)
        if delivery == 2:
            first.commit()
    second = Sharer(ctx, group, topic)
    # What was said last leaves with the close. After a commit the client may fetch once more before it closes,
    # unseen by its user, and that fetch is a delivery.
    first.close()
    same(counts(second.take(5)), [4] * 5, "delivery counts of another member")
    nothing_else(ctx, second, topic)


@case
def share_reject(ctx: Context) -> None:
    topic, _, first = sharing(ctx, 10)
    first.acknowledge(first.hold(10), REJECT)
    nothing_else(ctx, first, topic)


@case
def share_individual_acks(ctx: Context) -> None:
    for codec in CODECS:
        topic, group = create(ctx), share_group(ctx)
        left = [Record(r.key, r.value, [("n", b"%d" % n)]) for n, r in enumerate(sample(100))]
        produce(ctx, topic, left, compression_type=codec, linger_ms=50)
        first = Sharer(ctx, group, topic)
        for keep in (3, 7):
            found = first.hold(len(left))
            same(as_records(found), left, f"records in {codec}")
            for n, message in enumerate(found):
                first.client.acknowledge(message, RELEASE if n % keep else ACCEPT)
            first.commit()
            left = [record for n, record in enumerate(left) if n % keep]
        same(as_records(first.take(len(left))), left, f"the last records in {codec}")
        nothing_else(ctx, first, topic)
        first.close()


@case
def share_lock_timeout(ctx: Context) -> None:
    topic, group, first = sharing(ctx, 10, share__record__lock__duration__ms=LOCK_MS)
    began = time.monotonic()
    held = first.hold(10)
    # what the second member gets it may keep for longer than a slow machine takes
    configure(ctx, group, share__record__lock__duration__ms=30_000)
    second = Sharer(ctx, group, topic)
    # all ten, or its share of them: the first is a member too
    again = second.some()
    check(time.monotonic() - began > LOCK_MS / 1000 - 0.002, "locked records were given to another member")
    for message in held:
        first.client.acknowledge(message)
    errors = [error.args[0].code() for error in first.client.commit_sync(ctx.left).values() if error]
    same(errors, [KafkaError.INVALID_RECORD_STATE], "errors of a late acknowledgement")
    second.acknowledge(again)
    if len(again) < 10:
        again += second.take(10 - len(again))
    same((offsets(again), counts(again)), (list(range(10)), [2] * 10), "offsets and delivery counts")
    nothing_else(ctx, second, topic)


@case
def share_delivery_limit(ctx: Context) -> None:
    topic, _, first = sharing(ctx, 5, share__delivery__count__limit=3)
    found = first.take(15, RELEASE)  # Kafka gives what fails again and again record by record
    same(
        sorted(zip(offsets(found), counts(found), strict=True)),
        [(n, c) for n in range(5) for c in (1, 2, 3)],
        "deliveries",
    )
    nothing_else(ctx, first, topic)


@case
def share_wrong_use(ctx: Context) -> None:
    topic, _, first = sharing(ctx, 2)
    held = first.hold(2)
    first.acknowledge(held)
    try:
        first.client.acknowledge(held[0])
    except Exception as error:
        check("IllegalState" in type(error).__name__, f"{error!r}")
    else:
        raise AssertionError("a second acknowledgement was taken")
    nothing_else(ctx, first, topic)
