"""Queue topics: made by CreateTopics, and what plain commits say."""

from __future__ import annotations

import time
from collections import Counter

from adapter import LIBRARY
from common import HEADERS, TRICKY, Context, Record, case, check, same

from queue_topics.library import NO_ANSWER, Counted, RefusedError
from queue_topics.topic import QueueTopic, behind, finish, numbers, places, take


def refused(action: object, *arguments: object) -> RefusedError:
    """The error that an action is refused with; fails when it is not."""
    try:
        action(*arguments)
    except RefusedError as error:
        return error
    raise AssertionError("expected a refusal, got none")


@case
def queue_create(ctx: Context) -> None:
    queue = QueueTopic(ctx, 5, type="key_shared", max__redeliver__count=3)
    same(LIBRARY.topics(ctx.bootstrap).get(queue.name), 5, "partitions")
    again = refused(LIBRARY.create, ctx.bootstrap, queue.name, 5, {})
    same(again.code, 36, "TOPIC_ALREADY_EXISTS")
    wrong = {"pulsar.nack.delay.ms": "soon"}
    said = refused(LIBRARY.create, ctx.bootstrap, f"{queue.base}-other-QUEUE", 5, wrong)
    same(said.code, 40, "INVALID_CONFIG")
    said = refused(LIBRARY.produce, ctx.bootstrap, queue.name, [Record(b"k", b"v")])
    # kafka-python does not send to what the server calls internal
    check(said.code in (17, NO_ANSWER), f"{said} is not INVALID_TOPIC_EXCEPTION")
    LIBRARY.delete(ctx.bootstrap, queue.name)
    check(queue.name not in LIBRARY.topics(ctx.bootstrap), "the deleted queue topic is still there")
    check(queue.base in LIBRARY.topics(ctx.bootstrap), "its base topic is gone")


@case
def queue_records(ctx: Context) -> None:
    # kafka-python sends nothing that has neither key nor value, and no header that has no value
    records = [one for one in TRICKY if one != Record(None, None)]
    records.append(Record(b"k", b"headers", [header for header in HEADERS if header[1] is not None]))
    for kind in ("shared", "key_shared"):
        queue = QueueTopic(ctx, 1, partitions=1, type=kind)
        queue.produce(records)
        found = finish(ctx, queue.join(), len(records))
        by_value = {(record.key, record.value): record.headers for record in records}
        same({(one.key, one.value): list(one.headers) for one in found}, by_value, f"records of {kind}")
        check(all(abs(one.timestamp / 1000 - time.time()) < 600 for one in found), "timestamps")


@case
def queue_auto_commit(ctx: Context) -> None:
    for kind in ("shared", "key_shared"):
        queue = QueueTopic(ctx, 4, type=kind)
        queue.feed(range(500))
        first = queue.join(auto_commit=100)
        seen = Counter(one.number for one in take(ctx, first, 500))
        for _ in ctx.wait("the automatic commits"):
            first.poll(0.1)
            if sum(queue.committed(lane)[0] for lane in range(4)) == 500:
                break
        first.close()
        queue.feed(range(500, 700))
        second = queue.join(auto_commit=100)
        seen += Counter(one.number for one in take(ctx, second, 200))
        same(second.poll(0.5), [], "further deliveries")
        same(seen, Counter(range(700)), f"how often each came of {kind}")


@case
def queue_auto_commit_counts(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1, partitions=1)
    queue.feed(range(10))
    consumer, interval = queue.join(auto_commit=400), 0.4
    take(ctx, consumer, 1)
    in_work = settled(queue, interval)
    take(ctx, consumer, 1)
    second = settled(queue, interval)
    consumer.close()
    found = Counted(in_work, second, queue.committed()[0])
    ctx.detail = (
        f"acknowledged: {found.in_work} of 1, {found.second} of 2 in work; {found.closed} behind close()"
    )
    same(found, LIBRARY.counted, "what auto-commit counted")
    # what was not counted comes again
    same(numbers(take(ctx, queue.join(), 10 - found.closed)), list(range(found.closed, 10)), "what is left")


def settled(queue: QueueTopic, interval: float) -> int:
    """What is committed once some intervals of auto-commit are over, in which the consumer works and does not poll."""
    end = time.monotonic() + 4 * interval
    for _ in queue.ctx.wait("some automatic commits"):
        found = queue.committed()[0]
        if time.monotonic() > end:
            return found
    raise AssertionError("unreachable")


@case
def queue_manual_commit(ctx: Context) -> None:
    for kind in ("shared", "key_shared"):
        queue = QueueTopic(ctx, 2, type=kind)
        queue.feed(range(40))
        first = queue.join()
        found = take(ctx, first, 40)
        ends = {one.lane: one for one in found}
        done = [one for one in found if one != ends[one.lane]]
        first.commit(behind(done))
        first.close()
        # who leaves takes nothing along: an offset that is open is the same for the next
        second = queue.join()
        again = finish(ctx, second, len(ends))
        same(places(again), places(ends.values()), f"lanes and offsets of what was not committed, {kind}")


@case
def queue_foreign_metadata(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1)
    queue.feed(range(10))
    first = queue.join()
    found = take(ctx, first, 10)
    for upto, text in ((4, 'käse {"a": [1, 2]} ' + "x" * 500), (6, "acknowledged"), (8, "ack;n=1")):
        first.commit(behind(found[:upto], text))
        same(queue.committed(), (upto, text), "offset and metadata")
    # it is given back with its own offset only
    first.commit(behind(found[:9]))
    same(queue.committed(), (9, ""), "offset and metadata of a later commit")
    first.close()
    same(places(finish(ctx, queue.join(), 1)), {(0, 9)}, "what was not committed")


@case
def queue_malformed(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1)
    queue.feed(range(5))
    first = queue.join()
    take(ctx, first, 5)
    for text in (
        "ack1;n:soon=3",
        "ack1;x=3",
        "ack2;n=3",
        "ack1;n=3,2",
        "ack1;n=3;d=3",
        "ack1;n=99",
        "ack1;r:1=7",
    ):
        same(refused(first.commit, {0: (5, text)}).code, 42, f"INVALID_REQUEST for {text}")
    same(refused(first.commit, {0: (5, "ack1;n=1" + " " * 5000)}).code, 12, "OFFSET_METADATA_TOO_LARGE")
    same(queue.committed(), (0, ""), "what is committed")
    first.close()
    same(numbers(finish(ctx, queue.join(), 5)), list(range(5)), "what comes again")


@case
def queue_other_group(ctx: Context) -> None:
    queue, audit = QueueTopic(ctx, 1), ctx.name("audit")
    queue.feed(range(20))
    reader = queue.join(audit)
    found = take(ctx, reader, 20)
    reader.commit(behind(found[:15], "ack1;n=3"))
    same(LIBRARY.committed(ctx.bootstrap, audit, queue.name, 0), (15, "ack1;n=3"), "its own commit")
    reader.close()
    same(places(take(ctx, queue.join(audit), 5)), {(0, n) for n in range(15, 20)}, "where it goes on")
    same(numbers(finish(ctx, queue.join(), 20)), list(range(20)), "what the subscription still has")


@case
def queue_pattern(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1, partitions=1)
    queue.feed(range(5))
    watcher = queue.join(ctx.name("watch"), f"^{queue.base.replace('.', '[.]')}.*")
    wanted = {queue.base, queue.name} if LIBRARY.pattern_finds_queues else {queue.base}
    count = 5 * len(wanted)
    found = take(ctx, watcher, count) + watcher.poll(0.5)
    same(Counter(one.topic for one in found), Counter(dict.fromkeys(wanted, 5)), "records by topic")
