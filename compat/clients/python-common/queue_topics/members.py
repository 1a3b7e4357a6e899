"""Queue topics: members that come, go, and are killed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping

from adapter import LIBRARY
from common import Context, Record, case, check, same

from queue_topics.ledger import Ledger
from queue_topics.library import NO_ANSWER, Consumer, Delivery, RefusedError
from queue_topics.process import Process
from queue_topics.topic import QueueTopic, behind, finish, numbers, places

GONE = {22, 25, 27, 113, NO_ANSWER}
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH: the lanes are another's by now, or
soon. Or the server was restarted meanwhile."""


class Worker(threading.Thread):
    """Commits what comes, a little of it nacked, until all is done. With `restless` it leaves after some polls, half of
    the time with records in hand, and another takes its place. `settings` are the consumer's own."""

    def __init__(
        self,
        queue: QueueTopic,
        ledger: Ledger,
        count: int,
        restless: int = 0,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(name=f"{queue.ctx.case}:{restless}", daemon=True)
        self._settings = settings or {}
        self._queue, self._ledger, self._count, self._restless = queue, ledger, count, restless
        self._noise = random.Random(restless)
        self.lives = self.lanes = 0
        self.error: BaseException | None = None
        # of commits that were refused when they were repeated, for their first answers were lost
        self._unsure: list[Delivery] = []
        # not when its time is up: a case that waits for a restart of the server has more of it behind that
        self._over = threading.Event()
        queue.ctx.closing(self._over.set)
        self.start()

    @property
    def _on(self) -> bool:
        return self._ledger.done < self._count and not self._ledger.wrong and not self._over.is_set()

    def run(self) -> None:
        try:
            while self._on:
                self.lives += 1
                self._live(self._queue.join(settings=self._settings))
        except BaseException as error:
            self.error = error

    def _live(self, consumer: Consumer) -> None:
        name = f"{self.ident}.{self.lives}"
        polls = self._noise.randint(5, 15) if self._restless else 1 << 30
        while polls and self._on:
            found = consumer.poll(0.1, most=20)
            self.lanes = len(consumer.lanes())
            polls -= bool(found)
            for one in found:
                self._ledger.take(name, one)
            if not polls and self._noise.random() < 0.5:
                break
            self._settle(consumer, found)
            if self._unsure and not found:
                self._ask()
        consumer.close()

    def _ask(self) -> None:
        """What lies below the first open offset was acknowledged, be it by a commit that got no answer."""
        opened = {lane: self._queue.committed(lane)[0] for lane in {one.lane for one in self._unsure}}
        self._ledger.acked(one for one in self._unsure if one.offset < opened[one.lane])
        self._unsure = [one for one in self._unsure if one.offset >= opened[one.lane]]

    def _settle(self, consumer: Consumer, found: list[Delivery]) -> None:
        bad = [one for one in found if self._noise.random() < 0.05]
        good = [one for one in found if one not in bad]
        places = {}
        for lane, (offset, _) in behind(found).items():
            names = ",".join(str(one.offset) for one in bad if one.lane == lane)
            places[lane] = offset, f"ack1;n:20={names}" if names else ""
        lost = False
        for _ in self._queue.ctx.wait("an answer to a commit"):
            try:
                if places:
                    consumer.commit(places)
            except RefusedError as error:
                if error.code not in GONE:
                    raise
                if error.code == NO_ANSWER and self._on:
                    # who goes on without it acknowledges with the next commit what this one names as failed
                    lost = True
                    continue
                if lost:
                    self._unsure += good
            else:
                self._ledger.acked(good)
            return


def finish_work(queue: QueueTopic, ledger: Ledger, workers: list[Worker], count: int) -> None:
    """Until all are acknowledged; then there is nothing else."""
    for _ in queue.ctx.wait(f"{count} records"):
        for worker in workers:
            if worker.error:
                raise worker.error
        check(not ledger.wrong, "; ".join(ledger.wrong[:5]))
        if ledger.done >= count:
            break
    for worker in workers:
        worker.join()
    check(not ledger.wrong, "; ".join(ledger.wrong[:5]))
    same(queue.join().poll(0.5), [], "further deliveries")


def feed_keys(queue: QueueTopic, keys: int, each: range) -> None:
    """For each of so many keys records that count up."""
    for number in each:
        queue.produce(Record(b"key-%d" % key, b"%d" % number) for key in range(keys))


@case
def queue_more_members_than_partitions(ctx: Context) -> None:
    queue, ledger = QueueTopic(ctx, 6, partitions=1, type="key_shared"), Ledger()
    workers = [Worker(queue, ledger, 600) for _ in range(3)]
    for _ in ctx.wait("three members with two lanes each"):
        if [worker.lanes for worker in workers] == [2, 2, 2]:
            break
    feed_keys(queue, 60, range(10))
    finish_work(queue, ledger, workers, 600)
    same(len(ledger.by_member), 3, "members that got records of the one partition")


@case
def queue_more_lanes(ctx: Context) -> None:
    queue = QueueTopic(ctx, 3, type="key_shared", max__redeliver__count=-1)
    ledger = Ledger(stays=False, moves=True)
    workers = [Worker(queue, ledger, 4000) for _ in range(3)]
    # each has one: a leader of aiokafka's that has none hears of more when its metadata are too old
    for _ in ctx.wait("three members with a lane each"):
        if [worker.lanes for worker in workers] == [1, 1, 1]:
            break
    feed_keys(queue, 100, range(20))
    began = time.monotonic()
    LIBRARY.grow(ctx.bootstrap, queue.name, 6)
    for _ in ctx.wait("three members with two lanes each"):
        check(not ledger.wrong, "; ".join(ledger.wrong[:5]))
        if [worker.lanes for worker in workers] == [2, 2, 2]:
            break
    ctx.detail = f"all members had their lanes {time.monotonic() - began:.1f} s later"
    feed_keys(queue, 100, range(20, 40))
    finish_work(queue, ledger, workers, 4000)
    same(ledger.lanes, set(range(6)), "lanes that records came on")


@case
def queue_rebalance(ctx: Context) -> None:
    queue = QueueTopic(ctx, 8, type="key_shared", max__redeliver__count=-1)
    ledger = Ledger(stays=not LIBRARY.works_on)
    workers = [Worker(queue, ledger, 3000, restless=n) for n in range(4)]
    feed_keys(queue, 100, range(30))
    finish_work(queue, ledger, workers, 3000)
    lives = sum(worker.lives for worker in workers)
    check(lives > 8, f"{lives} members came and went")
    ctx.detail = f"{lives} members, {ledger.again} deliveries came again"


@case
def queue_crash(ctx: Context) -> None:
    for kind in ("shared", "key_shared"):
        queue = QueueTopic(ctx, 2, type=kind, max__redeliver__count=1)
        queue.feed(range(30))
        dying = Process(ctx, queue.group, queue.name, "hold")
        had = dying.take(30)
        dying.kill()
        consumer = queue.join()
        found = finish(ctx, consumer, 30)
        same(numbers(found), list(range(30)), f"what went to another member, of {kind}")
        # each is a new delivery, the second and last that the limit allows; nobody died of the crash
        same(places(found) & places(had), set(), "offsets that were used twice")
        check(queue.dead not in LIBRARY.topics(ctx.bootstrap), "there are dead letters")
        consumer.close()


@case
def queue_crash_counts(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1, max__redeliver__count=1, nack__delay__ms=0)
    queue.feed([0])
    dying = Process(ctx, queue.group, queue.name, "hold")
    dying.take(1)
    dying.kill()
    consumer = queue.join()
    for _ in ctx.wait("the second delivery"):
        if found := consumer.poll(0.2):
            break
    # the crash was its first delivery: a nack is its second, and the limit
    consumer.commit(behind(found, f"ack1;n={found[0].offset}"))
    (letter,) = queue.dead_letters(1)
    same(dict(letter.headers)["__dlq.errors.delivery.count"], b"2", "its deliveries")
    same(consumer.poll(0.5), [], "further deliveries")


@case
def queue_poison(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1, partitions=1, type="key_shared", max__redeliver__count=2)
    records = [Record(b"key-%d" % n, b"poison" if n == 11 else b"%d" % n) for n in range(40)]
    queue.produce(records)
    done: set[bytes | None] = set()
    for _ in range(3):
        # the poison kills it; the next has to wait until the session of this one is over
        done.update(one.value for one in Process(ctx, queue.group, queue.name, "work:poison").deliveries())
    (letter,) = queue.dead_letters(1)
    same(letter.value, b"poison", "the dead letter")
    same(dict(letter.headers)["__dlq.errors.delivery.count"], b"3", "its deliveries")
    rest = queue.join()
    for _ in ctx.wait("all the others"):
        some = rest.poll(0.2)
        done.update(one.value for one in some)
        if some:
            rest.commit(behind(some))
        if len(done) == 40:
            break
    same(done - {b"poison"}, {record.value for record in records} - {b"poison"}, "what was worked on")
