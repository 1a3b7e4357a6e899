"""Queue topics: what the metadata of a commit says of single deliveries."""

from __future__ import annotations

import time
from collections import Counter

from adapter import LIBRARY
from common import Context, Record, case, check, same

from queue_topics.library import Delivery
from queue_topics.process import Process
from queue_topics.topic import QueueTopic, behind, finish, numbers, places, take

EARLY = 0.002
"""Seconds by which two clocks of one machine may differ when each is read to the millisecond."""


@case
def queue_nack(ctx: Context) -> None:
    for kind in ("shared", "key_shared"):
        queue = QueueTopic(ctx, 1, type=kind)
        queue.feed(range(10), keys=10)
        consumer = queue.join()
        found = take(ctx, consumer, 10)
        bad = next(one for one in found if one.number == 3)
        began = time.monotonic()
        consumer.commit(behind(found, f"ack1;n:700={bad.offset}"))
        queue.produce([Record(b"key-4", b"10"), Record(b"key-5", b"11")])
        later = take(ctx, consumer, 3)
        waited = time.monotonic() - began
        same([one.number for one in later][-1], 3, f"the last of three that came, of {kind}")
        check(waited > 0.7 - EARLY, f"the nacked one came {0.7 - waited:.3f} s early")
        check(later[-1].offset > bad.offset, "a delivery has an offset of its own")
        same((later[-1].key, later[-1].value), (bad.key, bad.value), "key and value")
        told = dict(later[-1].headers)
        same(told["pulsar-redelivery-count"], b"1", "how often its deliveries have failed")
        same(told["pulsar-origin-topic"], queue.base.encode(), "where it lies")
        consumer.commit(behind(later))
        same(consumer.poll(0.5), [], "further deliveries")


@case
def queue_nack_delay(ctx: Context) -> None:
    """Without a delay in the name the subscription's own counts, which grows with each delivery."""
    backoff = {"nack__backoff__min__ms": 250, "nack__backoff__max__ms": 600, "nack__backoff__multiplier": 2}
    queue = QueueTopic(ctx, 1, max__redeliver__count=10, **backoff)
    queue.feed([0])
    consumer, nacked = queue.join(), 0.0
    for delivery, least in enumerate((0, 0.25, 0.5, 0.6), start=1):
        (found,) = take(ctx, consumer, 1)
        waited = time.monotonic() - nacked
        check(
            waited > least - EARLY, f"delivery {delivery} came {waited:.3f} s behind the nack, not {least} s"
        )
        nacked = time.monotonic()
        consumer.commit(behind([found], f"ack1;n={found.offset}" if delivery < 4 else ""))
    same(consumer.poll(0.5), [], "further deliveries")


@case
def queue_nack_holds_key(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1, type="key_shared")
    queue.produce([Record(b"a", b"0"), Record(b"b", b"1")])
    consumer = queue.join()
    first = take(ctx, consumer, 2)
    nacked = next(one for one in first if one.key == b"a")
    consumer.commit(behind(first, f"ack1;n:3000={nacked.offset}"))
    queue.produce([Record(b"a", b"2"), Record(b"b", b"3")])
    order: list[Delivery] = []
    for _ in ctx.wait("the three others"):
        for one in consumer.poll(0.2):
            order.append(one)
            consumer.commit(behind([one]))
        if len(order) == 3:
            break
    # b goes on, and a's second record waits for its first
    same([one.number for one in order], [3, 0, 2], "the order")


@case
def queue_seek(ctx: Context) -> None:
    # with one of them polled, the others are in the client's hands
    for polled in (4, 1) if LIBRARY.seeks_where_it_stands else (4,):
        queue = QueueTopic(ctx, 1, partitions=1, type="key_shared")
        queue.produce([Record(b"a", b"0"), Record(b"a", b"1"), Record(b"b", b"2"), Record(b"a", b"3")])
        consumer = queue.join()
        take(ctx, consumer, polled)
        consumer.commit({0: (1, "ack1;s;n:700=0")})
        consumer.seek(0, 1)
        order: list[int] = []
        for _ in ctx.wait("the others"):
            for one in consumer.poll(0.2, most=1):
                order.append(one.number)
                consumer.commit(behind([one]))
            if len(order) == 4:
                break
        same(order, [2, 0, 1, 3], f"the order of what came behind the seek, {polled} polled before")
        same(consumer.poll(0.5), [], "further deliveries")
        consumer.close()


@case
def queue_ack_above(ctx: Context) -> None:
    """Done are 0 to 4, and of those above 7, 10 to 12 and 19; all the others are in work."""
    queue, said = QueueTopic(ctx, 1), "ack1;a=7,+3*3,19"
    queue.feed(range(20))
    open_ones = set(range(5, 20)) - {7, 10, 11, 12, 19}
    first = queue.join()
    found = take(ctx, first, 20)
    first.commit(behind(found[:5], said))
    same(queue.committed(), (5, said), "what is committed")
    first.close()
    # An offset reads the same for ever: a member that begins there is sent all of it, and told by the metadata.
    dying = Process(ctx, queue.group, queue.name, "hold")
    again = dying.take(15)
    same(places(again), {(0, offset) for offset in range(5, 20)}, "what a member that takes over reads")
    dying.kill()
    # what is delivered anew is what was open
    by_offset = {one.offset: one.number for one in found}
    anew = finish(ctx, queue.join(), len(open_ones))
    same(numbers(anew), sorted(by_offset[offset] for offset in open_ones), "what a crash has delivered anew")


@case
def queue_reconsume_later(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1, partitions=1, max__reconsume__count=1)
    queue.produce(Record(b"k", b"%d" % n, [("own", b"%d" % n)]) for n in range(5))
    consumer = queue.join()
    found = take(ctx, consumer, 5)
    began = time.monotonic()
    consumer.commit(behind(found, f"ack1;r:700={found[2].offset}"))
    (again,) = take(ctx, consumer, 1)
    check(time.monotonic() - began > 0.7 - EARLY, "the retry letter came early")
    told = dict(again.headers)
    same((again.key, again.value, told["own"]), (b"k", b"2", b"2"), "the retry letter")
    same(told["RECONSUMETIMES"], b"1", "RECONSUMETIMES")
    # that often is as often as the configs allow; who asks for more has the gateway look at the letter
    consumer.commit(behind([again], f"ack1;r:0={again.offset}"))
    same(consumer.poll(0.5), [], "further deliveries")
    same(numbers(queue.dead_letters(1)), [2], "dead letters")


@case
def queue_dead_letter(ctx: Context) -> None:
    named_dead(ctx)
    nacked_too_often(ctx)


def named_dead(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1, partitions=1)
    queue.produce(Record(b"k%d" % n, b"%d" % n, [("own", b"%d" % n)]) for n in range(5))
    consumer = queue.join()
    found = take(ctx, consumer, 5)
    consumer.commit(behind(found, f"ack1;d={found[2].offset}"))
    (letter,) = queue.dead_letters(1)
    told = dict(letter.headers)
    same((letter.key, letter.value, told["own"]), (b"k2", b"2", b"2"), "the dead letter")
    same(told["__dlq.errors.topic"], queue.base.encode(), "its origin")
    same(told["__dlq.errors.offset"], b"2", "its offset in the base topic")
    same(told["__dlq.errors.delivery.count"], b"1", "its delivery count")
    same(consumer.poll(0.5), [], "further deliveries")
    consumer.close()


def nacked_too_often(ctx: Context) -> None:
    queue = QueueTopic(ctx, 2, max__redeliver__count=2, nack__delay__ms=50)
    queue.feed(range(60))
    consumer, counts, bad = queue.join(), Counter[int](), {7, 8, 33}
    for _ in ctx.wait("all to be settled"):
        found = consumer.poll(0.2)
        counts.update(one.number for one in found)
        for lane, (offset, _) in behind(found).items():
            said = [one.offset for one in found if one.lane == lane and one.number in bad]
            names = f"ack1;n={','.join(map(str, sorted(said)))}" if said else ""
            consumer.commit({lane: (offset, names)})
        if sum(counts.values()) >= 57 + 3 * len(bad):
            break
    dead = queue.dead_letters(3)
    same(numbers(dead), sorted(bad), "dead letters")
    same({dict(one.headers)["__dlq.errors.delivery.count"] for one in dead}, {b"3"}, "their deliveries")
    same(consumer.poll(0.5), [], "further deliveries")
    same(counts, Counter({n: 3 if n in bad else 1 for n in range(60)}), "how often each came")
