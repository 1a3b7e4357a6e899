"""Flink 2.2 with its Kafka connector, from topic to topic exactly once: its checkpoints, its ends, its restores."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cluster import PARTITIONS, Desk, Job
from common import Context, case, check, main, restart_case, same
from confluent_kafka import Consumer, TopicPartition
from security import librdkafka


def killed_before_commit(ctx: Context, naming: str) -> None:
    """The cluster dies when a checkpoint is complete whose transactions are not committed yet.

    What the checkpoint names is committed by the next cluster, which has only the ids and epochs of the producers.
    What was written behind the checkpoint is aborted, and comes again.
    """
    desk = Desk(ctx, naming)
    desk.write(400)
    first = Job(desk)
    desk.wait_until_committed()
    desk.hold()
    desk.write(300)
    desk.wait_until_held()
    first.check()
    desk.write(200)
    for _ in ctx.wait("the writers to have written behind the checkpoint"):
        if len(desk.read("read_uncommitted")) == desk.written:
            break
    first.kill()
    check(desk.open(), "the transactions are not open any more")
    same(sorted(desk.read("read_committed")), list(range(400)), "committed before the restore")
    desk.let_go()
    again = Job(desk, parallelism=3, checkpoint=desk.checkpoint())
    desk.wait_until_committed()
    desk.write(100)
    desk.wait_until_committed()
    again.check()


@case
def flink_pooling(ctx: Context) -> None:
    killed_before_commit(ctx, "POOLING")


@case
def flink_incrementing(ctx: Context) -> None:
    killed_before_commit(ctx, "INCREMENTING")


@case
def flink_task_fails(ctx: Context) -> None:
    desk = Desk(ctx, "INCREMENTING")
    desk.write(300)
    job = Job(desk)
    desk.wait_until_committed()
    (desk.folder / "fail").touch()
    desk.write(300)
    desk.wait_until_committed()
    check(not (desk.folder / "fail").exists(), "no task has failed")
    job.check()


@case
def flink_source_offsets(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(500)
    Job(desk)
    desk.wait_until_committed()
    asking = Consumer({**librdkafka(ctx.bootstrap), "group.id": desk.group})
    ctx.closing(asking.close)
    places = [TopicPartition(desk.source, number) for number in range(PARTITIONS)]
    for _ in ctx.wait("the group's offsets to be committed with a checkpoint"):
        if sum(max(0, place.offset) for place in asking.committed(places, timeout=ctx.left)) == 500:
            break


@restart_case
def restart_flink(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(300)
    job = Job(desk)
    desk.wait_until_committed()
    desk.hold()
    desk.write(200)
    desk.wait_until_held()
    ctx.restart()
    desk.let_go()
    desk.write(200)
    desk.wait_until_committed()
    job.check()


if __name__ == "__main__":
    Desk.java, Desk.classes, Desk.jars = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
    jar = next(Path(Desk.jars).glob("flink-connector-kafka-*.jar"))
    main("java-flink", jar.stem.removeprefix("flink-connector-kafka-"))
