"""Share groups of confluent-kafka: members that share, come, leave, crash, and live through a restart."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from base import create, produce
from common import Context, Record, case, check, restart_case, same, sample
from confluent_kafka import Consumer, KafkaError, KafkaException
from security import librdkafka
from share import ACCEPT, REJECT, RELEASE, Sharer, counts, nothing_else, offsets, share_group, sharing, spread

CROWD = 50


class Worker(threading.Thread):
    """A member with a thread of its own that accepts what comes until `leave`. `pause` keeps its first records in
    hand until it is set."""

    def __init__(self, ctx: Context, group: str, topic: str, pause: threading.Event | None = None) -> None:
        super().__init__(daemon=True)
        self.seen: list[int] = []
        self.error: BaseException | None = None
        self._sharer = Sharer(ctx, group, topic, max_poll_records=10)
        self._pause = pause
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                if found := self._sharer.poll():
                    self.seen += [int(message.value()) for message in found]
                    if self._pause:
                        self._pause.wait()
                    self._sharer.acknowledge(found)
            self._sharer.close()
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        """Leave the group soon; `join` waits for it."""
        if self._pause:
            self._pause.set()
        self._ended.set()


def crowd(
    ctx: Context, size: int, group: str, topic: str, pause: threading.Event | None = None
) -> list[Worker]:
    """So many workers, which leave together when the case ends."""
    workers = [Worker(ctx, group, topic, pause) for _ in range(size)]

    def leave() -> None:
        for worker in workers:
            worker.end()
        for worker in workers:
            worker.join()

    ctx.closing(leave)
    return workers


def finish(ctx: Context, workers: list[Worker], count: int) -> None:
    """Every record was seen, and once."""
    for _ in ctx.wait(f"{count} records"):
        for worker in workers:
            if worker.error:
                raise worker.error
        if sum(len(worker.seen) for worker in workers) >= count:
            break
    seen = Counter(number for worker in workers for number in worker.seen)
    same(sorted(seen), list(range(count)), "records")
    same(max(seen.values()), 1, "deliveries of a record")


@case
def share_two_members(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    both = threading.Event()
    workers = crowd(ctx, 2, group, topic, both)
    spread(ctx, topic, 200)
    for _ in ctx.wait("both to hold records of the one partition"):
        if all(worker.seen for worker in workers):
            break
    both.set()
    finish(ctx, workers, 200)


@case
def share_fifty_members(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    spread(ctx, topic, 1500)
    everybody = threading.Event()
    workers = crowd(ctx, CROWD, group, topic, everybody)
    for _ in ctx.wait(f"{CROWD} members to hold records of the one partition"):
        if all(worker.seen for worker in workers):
            break
    everybody.set()
    finish(ctx, workers, 1500)


@case
def share_two_groups(ctx: Context) -> None:
    topic = create(ctx, 3)
    for partition in range(3):
        produce(ctx, topic, sample(20), partition)
    for group in (share_group(ctx), share_group(ctx)):
        found = Sharer(ctx, group, topic).take(60)
        same(Counter(m.partition() for m in found), Counter({0: 20, 1: 20, 2: 20}), "records by partition")


@case
def share_crash_while_holding(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    produce(ctx, topic, sample(10))
    command = [sys.executable, Path(__file__).with_name("holder.py"), ctx.bootstrap, group, topic, "10"]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    ctx.closing(holder.wait)
    ctx.closing(holder.kill)
    assert holder.stdout is not None
    same(holder.stdout.readline().strip(), "holds 10", "the process")
    second = Sharer(ctx, group, topic)
    same(second.poll(1), [], "records that another member holds")
    holder.kill()
    again = second.take(10)  # long before its lock of 30 s or its session of 45 s runs out
    same((offsets(again), counts(again)), (list(range(10)), [2] * 10), "offsets and delivery counts")
    nothing_else(ctx, second, topic)


@case
def share_close_while_holding(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    produce(ctx, topic, sample(10))
    first, second = Sharer(ctx, group, topic), Sharer(ctx, group, topic)
    for _ in ctx.wait("records"):
        if held := first.poll():
            holder, other = first, second
            break
        if held := second.poll():
            holder, other = second, first
            break
    same(len(held), 10, "records in hand")
    for message in held[:4]:
        holder.client.acknowledge(message)
    holder.close()  # sends what was acknowledged, and gives back the rest
    again = other.take(6)
    same(offsets(again), [4, 5, 6, 7, 8, 9], "records that were not acknowledged")
    check(
        set(counts(again)) <= {1, 2}, f"delivery counts {counts(again)}"
    )  # Kafka counts it, Pulsar does not
    nothing_else(ctx, other, topic)


@case
def share_unsubscribe(ctx: Context) -> None:
    one, other, group = create(ctx), create(ctx), share_group(ctx)
    produce(ctx, one, sample(3))
    member = Sharer(ctx, group, one)
    member.take(3)
    member.client.subscribe([other])
    produce(ctx, other, sample(4))
    same({m.topic() for m in member.take(4)}, {other}, "topics after the change")
    produce(ctx, one, sample(2))
    nothing_else(ctx, member, other)
    member.client.unsubscribe()
    same(member.client.subscription(), [], "subscription")
    member.client.subscribe([one, other])
    same({m.topic() for m in member.take(2)}, {one}, "topics after it came back")


@case
def share_group_id_taken(ctx: Context) -> None:
    topic, group, member = sharing(ctx, 2)
    member.take(2)
    settings = {**librdkafka(ctx.bootstrap), "auto.offset.reset": "earliest"}
    classic = Consumer({**settings, "group.id": group})
    ctx.closing(classic.close)
    classic.subscribe([topic])
    for _ in ctx.wait("the classic consumer to be refused"):
        message = classic.poll(0.2)
        if message is not None and message.error():
            same(message.error().code(), KafkaError.INCONSISTENT_GROUP_PROTOCOL, f"{message.error()}")
            break
    other = ctx.name("g")
    consumer = Consumer({**settings, "group.id": other})
    ctx.closing(consumer.close)
    consumer.subscribe([topic])
    for _ in ctx.wait("the classic group"):
        if consumer.poll(0.2) is not None:
            break
    refused = Sharer(ctx, other, topic)
    for _ in ctx.wait("the share consumer to be refused"):
        try:
            same(refused.poll(), [], "records of a share consumer in a classic group")
        except KafkaException as error:
            same(error.args[0].code(), KafkaError.GROUP_ID_NOT_FOUND, f"{error}")
            break


@restart_case
def restart_share_acknowledgements(ctx: Context) -> None:
    topic, group, first = sharing(ctx, 30)
    found = first.hold(30)
    for message in found:
        first.client.acknowledge(message, (RELEASE, ACCEPT, REJECT)[message.offset() % 3])
    first.close()  # with what was said; after a commit the client may fetch once more, which is a delivery
    ctx.restart()
    second = Sharer(ctx, group, topic)
    again = second.take(10)
    same(offsets(again), list(range(0, 30, 3)), "released records")
    same(counts(again), [2] * 10, "delivery counts")
    nothing_else(ctx, second, topic)


@restart_case
def restart_share_in_hand(ctx: Context) -> None:
    topic, _, first = sharing(ctx, 10)
    held = first.hold(10)
    ctx.restart()
    for message in held:
        first.client.acknowledge(message)
    seen = [] if all(e is None for e in first.client.commit_sync(ctx.left).values()) else first.take(10)
    check(offsets(seen) in ([], list(range(10))), f"records after the restart: {offsets(seen)}")
    nothing_else(ctx, first, topic)


@restart_case
def restart_share_live(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    workers = crowd(ctx, 2, group, topic)
    spread(ctx, topic, 100)
    finish(ctx, workers, 100)
    ctx.restart()
    produce(ctx, topic, [Record(None, b"%d" % n) for n in range(100, 200)])
    finish(ctx, workers, 200)
