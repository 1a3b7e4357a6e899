"""Queue topics with kcat, which knows neither administration nor metadata: topics are made with confluent-kafka."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import NewTopic

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "c-kcat"))
from base import KCAT, Running, admin, create, run
from common import Context, case, check, main, restart_case, same

SHOWN = "%t %p %o %k %s\\n"


class Line(NamedTuple):
    """A delivery as kcat printed it."""

    topic: str
    lane: int
    offset: int
    key: str
    value: str

    @classmethod
    def of(cls, text: str) -> Line:
        topic, lane, offset, key, value = text.split(" ")
        return cls(topic, int(lane), int(offset), key, value)


class QueueTopic:
    """A topic with lanes over it."""

    def __init__(self, ctx: Context, lanes: int = 2, partitions: int = 2, **configs: object) -> None:
        """`subscription__type="key_shared"` stands for pulsar.subscription.type."""
        self.ctx = ctx
        self.base, self.group = create(ctx, partitions), ctx.name("g")
        prefix = f"{self.base}-{self.group}"
        self.name, self.dead, self.retry = f"{prefix}-QUEUE", f"{prefix}-DLQ", f"{prefix}-RETRY"
        self.make(
            self.name,
            lanes,
            {f"pulsar.{key.replace('__', '.')}": str(value) for key, value in configs.items()},
        )

    def make(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        made = admin(self.ctx).create_topics([NewTopic(topic, partitions, 1, config=settings)])
        made[topic].result(self.ctx.left)

    def produce(self, lines: list[tuple[str, str]], *headers: str, topic: str = "") -> None:
        """(key, value), each with these headers."""
        options = [part for header in headers for part in ("-H", header)]
        text = "".join(f"{key}:{value}\n" for key, value in lines)
        run(self.ctx, "-P", "-t", topic or self.base, "-K", ":", *options, stdin=text)

    def feed(self, numbers: range, keys: int = 10) -> None:
        self.produce([(f"key-{number % keys}", str(number)) for number in numbers])

    def join(self, group: str = "", topic: str = "") -> Member:
        return Member(self.ctx, group or self.group, topic or self.name)

    def is_dead(self) -> bool:
        return self.dead in admin(self.ctx).list_topics(timeout=10).topics

    def committed(self, count: int) -> None:
        """Until so much is committed of all lanes together."""
        for _ in self.ctx.wait(f"{count} to be committed"):
            asked = admin(self.ctx).list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)])
            found = asked[self.group].result(self.ctx.left).topic_partitions
            if sum(place.offset for place in found if place.topic == self.name) == count:
                return


class Member(Running):
    """A kcat in the group that goes on until it is stopped.

    It commits each five seconds what it has printed, and when it is stopped: that interval is also a setting of topics
    in librdkafka, and `-X` sets that one.
    """

    def __init__(self, ctx: Context, group: str, topic: str) -> None:
        options = ("auto.offset.reset=earliest", "heartbeat.interval.ms=300", "session.timeout.ms=2000")
        words = [word for option in options for word in ("-X", option)]
        self.ctx = ctx
        super().__init__(ctx, "-G", group, "-u", "-f", SHOWN, *words, topic)

    @property
    def got(self) -> list[Line]:
        # the last line may not be all there
        whole = Path(self.out.name).read_text().rpartition("\n")[0]
        return [Line.of(text) for text in whole.splitlines()]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def until(ctx: Context, members: list[Member], count: int) -> list[Line]:
    """All that they got, once it is so much."""
    for _ in ctx.wait(f"{count} deliveries"):
        found = [line for member in members for line in member.got]
        if len(found) >= count:
            return found
    raise AssertionError("unreachable")


def until_all(members: list[Member], count: int) -> list[Line]:
    """All that they got, once each number up to this one is among it."""
    for _ in members[0].ctx.wait(f"all of {count} records"):
        found = [line for member in members for line in member.got]
        if {int(line.value) for line in found} == set(range(count)):
            return found
    raise AssertionError("unreachable")


def numbers(lines: list[Line]) -> list[int]:
    return sorted(int(line.value) for line in lines)


@case
def queue_auto_commit(ctx: Context) -> None:
    queue = QueueTopic(ctx, 4)
    queue.feed(range(500))
    first = queue.join()
    until(ctx, [first], 500)
    first.stop()
    queue.feed(range(500, 700))
    second = queue.join()
    until(ctx, [first, second], 700)
    second.stop()
    same(Counter(numbers(first.got + second.got)), Counter(range(700)), "how often each came")
    queue.committed(700)


@case
def queue_other_group(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1)
    queue.feed(range(20))
    reader = queue.join(group=ctx.name("audit"))
    until(ctx, [reader], 20)
    reader.stop()
    same(numbers(until(ctx, [queue.join()], 20)), list(range(20)), "what the subscription still has")


@case
def queue_pattern(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1, 1)
    queue.feed(range(5))
    watcher = queue.join(group=ctx.name("watch"), topic=f"^{queue.base.replace('.', '[.]')}.*")
    # librdkafka knows nothing of internal topics
    found = until(ctx, [watcher], 10)
    same(Counter(line.topic for line in found), Counter({queue.base: 5, queue.name: 5}), "records by topic")


@case
def queue_delayed_and_retry(ctx: Context) -> None:
    queue = QueueTopic(ctx, 2)
    queue.make(queue.retry, 1, {})
    began = time.monotonic()
    # each produce is a process of its own: all are through long before the first is due
    queue.produce([("k", "0"), ("k", "1")], "pulsar-deliver-after=3000")
    queue.produce([("k", "2"), ("k", "3")], "DELAY_TIME=3000", topic=queue.retry)
    queue.produce([("k", "4")])
    member = queue.join()
    same(until(ctx, [member], 1)[0].value, "4", "what came first: what has no delay")
    found = until(ctx, [member], 5)
    check(time.monotonic() - began > 3, "some of them came early")
    same(numbers(found), list(range(5)), "what came")


@case
def queue_crash(ctx: Context) -> None:
    queue = QueueTopic(ctx, 2)
    queue.feed(range(30))
    dying = queue.join()
    had = until(ctx, [dying], 30)
    dying.kill()
    other = queue.join()
    found = until(ctx, [other], 30)
    queue.committed(sum(1 + max(line.offset for line in had + found if line.lane == lane) for lane in (0, 1)))
    same(numbers(other.got), list(range(30)), "what went to another member")
    twice = {(line.lane, line.offset) for line in found} & {(line.lane, line.offset) for line in had}
    same(twice, set(), "offsets that were used twice")
    check(not queue.is_dead(), "there are dead letters")


@case
def queue_poison(ctx: Context) -> None:
    queue = QueueTopic(ctx, 1, 1, subscription__type="key_shared", max__redeliver__count=2)
    queue.produce([(f"key-{n}", "poison" if n == 11 else str(n)) for n in range(40)])
    members: list[Member] = []
    for _ in range(3):
        # it dies before it commits what it has printed
        members.append(queue.join())
        for _ in ctx.wait("the poison"):
            if any(line.value == "poison" for line in members[-1].got):
                break
        members[-1].kill()
    for _ in ctx.wait("the dead letter"):
        if queue.is_dead():
            break
    members.append(queue.join())
    for _ in ctx.wait("all the others"):
        if len({line.value for member in members for line in member.got}) == 40:
            break
    letters = run(ctx, "-C", "-t", queue.dead, "-e", "-q", "-f", "%s\\n")[0].split()
    same(letters, ["poison"], "dead letters")


@case
def queue_more_members_than_partitions(ctx: Context) -> None:
    queue = QueueTopic(ctx, 6, 1, subscription__type="key_shared")
    members = [queue.join() for _ in range(3)]
    for _ in ctx.wait("three members with two lanes each"):
        if [member.assigned() for member in members] == [2, 2, 2]:
            break
    queue.feed(range(600), 60)
    found = until(ctx, members, 600)
    check(all(member.got for member in members), "a member got nothing")
    in_order(found, 600, 60)


@case
def queue_rebalance(ctx: Context) -> None:
    queue = QueueTopic(ctx, 8, 2, subscription__type="key_shared", max__redeliver__count=-1)
    members: list[Member] = []
    for start in range(0, 600, 100):
        members.append(queue.join())
        queue.feed(range(start, start + 100), 50)
        if len(members) > 2:
            # Not under load: kcat throws away the record that comes while it ends, and commits it, of any topic.
            until_all(members, start + 100)
            members[-3].stop()
    found = until_all(members, 600)
    in_order(found, 600, 50)
    ctx.detail = f"{len(members)} members, {len(found) - 600} deliveries came again"


def in_order(found: list[Line], count: int, keys: int) -> None:
    """A key is on one lane; first deliveries are in order by their offsets, and none is left out."""
    lanes: dict[str, int] = {}
    seen = dict.fromkeys(range(keys), -1)
    for line in sorted(found, key=lambda line: (line.lane, line.offset)):
        place, key = divmod(int(line.value), keys)
        same(line.lane, lanes.setdefault(line.key, line.lane), f"the lane of {line.key}")
        check(place <= seen[key] + 1, f"{line.key} {place} came behind {seen[key]}")
        seen[key] = max(place, seen[key])
    same(set(seen.values()), {count // keys - 1}, "the last of each key")


@restart_case
def restart_queue(ctx: Context) -> None:
    queue = QueueTopic(ctx, 2)
    queue.feed(range(40))
    first = queue.join()
    until(ctx, [first], 40)
    first.stop()
    queue.committed(40)
    ctx.restart()
    ctx.shared.pop("admin")
    queue.feed(range(40, 50))
    second = queue.join()
    until(ctx, [second], 10)
    same(numbers(second.got), list(range(40, 50)), "what came after the restart")


if __name__ == "__main__":
    about = subprocess.run([KCAT, "-V"], capture_output=True, text=True, check=True).stdout
    versions = re.findall(r"(?:Version|librdkafka) (\S+)", about)
    main("c-kcat-queue", f"{versions[0]} (librdkafka {versions[-1]})")
