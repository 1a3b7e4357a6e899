"""A sink of Kafka Connect that reads a queue topic, in the subscription's group (`consumer.override.group.id`)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "java-connect"))
from common import Context, case, main, restart_case, same
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from security import librdkafka
from worker import STANDALONE, Desk, Worker

LANES = 4


class QueueDesk(Desk):
    """A topic with a subscription that lanes serve, and the file that its sink writes to."""

    def __init__(self, ctx: Context, **configs: str) -> None:
        super().__init__(ctx)
        self.queue = f"{self.topic}-{self.group}-QUEUE"
        self._admin = AdminClient({**librdkafka(ctx.bootstrap)})
        self._create(self.topic, 2, {})
        self._create(self.queue, LANES, {name.replace("_", "."): value for name, value in configs.items()})

    def _create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic].result(
            self.ctx.left
        )

    def write(self, count: int) -> None:
        producer = Producer({**librdkafka(self.ctx.bootstrap)})
        for number in range(self._lines, self._lines + count):
            producer.produce(self.topic, key=f"key-{number % 20}", value=f"line {number}")
        same(producer.flush(self.ctx.left), 0, "records that were not produced")
        self._lines += count

    # the sink alone: what a source would write comes from `write`
    def connector(self, kind: str) -> dict[str, str]:
        plain = "org.apache.kafka.connect.storage.StringConverter"
        return super().connector(kind) | {
            "topics": self.queue,
            "consumer.override.group.id": self.group,
            "key.converter": plain,
            "value.converter": plain,
        }

    def standalone(self, flush_ms: int = 500) -> Worker:
        settings = {
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": str(flush_ms),
        }
        return Worker(self, STANDALONE, settings, [self.connector("sink")])

    def wait_for_all(self) -> list[str]:
        """Until every line has arrived, in whatever order; all that came."""
        for _ in self.ctx.wait(f"{self._lines} lines in the sink"):
            if set(self.expected()) <= set(self.arrived()):
                break
        return self.arrived()

    def wait_until_settled(self) -> None:
        """Until as many deliveries are settled as there were lines, which is all when none came again."""
        lanes = [TopicPartition(self.queue, lane) for lane in range(LANES)]
        for _ in self.ctx.wait("the commits of the sink"):
            asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group, lanes)])
            found = asked[self.group].result(self.ctx.left).topic_partitions
            if sum(max(0, one.offset) for one in found) == self._lines:
                break

    def dead_letters(self) -> bool:
        return f"{self.topic}-{self.group}-DLQ" in self._admin.list_topics(timeout=self.ctx.left).topics


@case
def queue_connect_sink(ctx: Context) -> None:
    desk = QueueDesk(ctx)
    desk.write(200)
    first = desk.standalone()
    same(sorted(desk.wait_for_all()), sorted(desk.expected()), "lines, each once")
    desk.wait_until_settled()
    shown = first.ask("GET", f"/connectors/{desk.connector('sink')['name']}/offsets")["offsets"]
    # those of the base topic stand beside them: how far the subscription is
    lanes = [one for one in shown if one["partition"]["kafka_topic"] == desk.queue]
    same(sum(one["offset"]["kafka_offset"] for one in lanes), 200, "offsets that Connect shows")
    first.stop()
    desk.write(100)
    desk.standalone()
    same(sorted(desk.wait_for_all()), sorted(desk.expected()), "lines, each once, over a stop")
    desk.wait_until_settled()


@case
def queue_connect_crash(ctx: Context) -> None:
    desk = QueueDesk(ctx, pulsar_max_redeliver_count="2")
    desk.write(200)
    first = desk.standalone(flush_ms=600_000)
    for _ in ctx.wait("lines that are not settled"):
        if len(desk.arrived()) >= 50:
            break
    first.kill()
    desk.write(50)
    desk.standalone()
    came = desk.wait_for_all()
    same(desk.dead_letters(), False, "dead letters")
    ctx.detail = f"{len(came) - len(desk.expected())} of 250 came again"


@restart_case
def restart_queue_connect(ctx: Context) -> None:
    desk = QueueDesk(ctx)
    desk.write(100)
    desk.standalone()
    desk.wait_for_all()
    desk.wait_until_settled()
    ctx.restart()
    desk.write(50)
    same(sorted(desk.wait_for_all()), sorted(desk.expected()), "lines: what was settled did not come again")


if __name__ == "__main__":
    Desk.java, Desk.jars = sys.argv.pop(1), sys.argv.pop(1)
    jar = next(Path(Desk.jars).glob("connect-runtime-*.jar"))
    main("java-connect-queue", jar.stem.removeprefix("connect-runtime-"))
