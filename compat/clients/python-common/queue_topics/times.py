"""Queue topics: what is delivered later. No case says how late is too late."""

from __future__ import annotations

import time

from adapter import LIBRARY
from common import Context, Record, case, check, same

from queue_topics.library import Delivery
from queue_topics.names import EARLY
from queue_topics.topic import QueueTopic, behind


def work(ctx: Context, queue: QueueTopic, count: int) -> list[Delivery]:
    """So many deliveries to a member that commits each poll; none may come before its header `due`."""
    consumer, found = queue.join(), list[Delivery]()
    for _ in ctx.wait(f"{count} deliveries"):
        some = consumer.poll(0.2)
        now = time.time()
        for one in some:
            early = int(dict(one.headers).get("due") or 0) / 1000 - now
            check(early < EARLY, f"{one.value!r} came {early:.3f} s early")
        if some:
            consumer.commit(behind(some))
        found += some
        if len(found) >= count:
            break
    same(consumer.poll(0.5), [], "further deliveries")
    return found


def due(name: str, ahead: int) -> list[tuple[str, bytes]]:
    """Headers of a record that is due in so many ms."""
    at = round(time.time() * 1000) + ahead
    said = at if name == "pulsar-deliver-at" else ahead
    return [(name, b"%d" % said), ("due", b"%d" % at)]


@case
def queue_delayed_and_retry(ctx: Context) -> None:
    queue = QueueTopic(ctx, 2)
    LIBRARY.create(ctx.bootstrap, queue.retry, 1, {})
    delayed = [Record(b"k%d" % n, b"%d" % n, due("pulsar-deliver-at", 1800 - 300 * n)) for n in range(5)]
    after = Record(b"k", b"5", due("pulsar-deliver-after", 900))
    queue.produce([*delayed, after, Record(b"k", b"6")])
    letters = [Record(b"k", b"%d" % n, due("DELAY_TIME", 1200)) for n in range(7, 10)]
    queue.produce([*letters, Record(b"k", b"10")], queue.retry)
    found = work(ctx, queue, 11)
    same(sorted(one.number for one in found), list(range(11)), "what came")
    same({one.number for one in found[:2]}, {6, 10}, "what came first: what has no delay")
    same({one.topic for one in found}, {queue.name}, "the topic that all of them came in")
