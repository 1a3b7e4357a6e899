"""kafka-python: groups, and going on after a restart of the server."""

from __future__ import annotations

import threading
from typing import Any

import kafka.errors
from base import LONG_POLL, admin, as_records, consumer, create, failure, produce, producer, read, take
from common import Context, case, check, restart_case, same, sample
from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.admin import ConfigResource
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata


class Member(ConsumerRebalanceListener):
    """A consumer that polls in a thread of its own and counts its rebalances."""

    def __init__(self, ctx: Context, topic: str, group: str, **conf: Any) -> None:
        self.changes = 0
        self.seen: list[int] = []
        self.partitions: frozenset[int] = frozenset()
        self.error: Exception | None = None
        self.client = consumer(ctx, group, **conf)
        self.client.subscribe([topic], listener=self)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()
        ctx.closing(self.stop)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.changes += 1
        self.partitions |= {where.partition for where in assigned}

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.changes += 1
        self.partitions -= {where.partition for where in revoked}

    def on_partitions_lost(self, lost: Any) -> None:
        self.on_partitions_revoked(lost)

    def check(self) -> None:
        """Raise what the polls have raised."""
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Poll no more; the client stays open."""
        self._stopped.set()
        self._thread.join()

    def close(self) -> None:
        self.stop()
        self.client.close(autocommit=False, timeout_ms=3000)

    def _poll(self) -> None:
        try:
            while not self._stopped.is_set():
                for batch in self.client.poll(LONG_POLL).values():
                    self.seen += [int(r.key.split(b"-")[1]) for r in batch]
        except Exception as error:
            self.error = error


def settle(ctx: Context, members: list[Member], counts: list[int]) -> None:
    """Wait until each member has so many partitions, all of them apart."""
    for _ in ctx.wait(f"shares of {counts}"):
        for member in members:
            member.check()
        shares = [member.partitions for member in members]
        if sorted(map(len, shares)) == sorted(counts) and len(set().union(*shares)) == sum(counts):
            return


def rebalance(ctx: Context, assignor: type) -> None:
    topic, group = create(ctx, 4), ctx.name("g")
    produce(ctx, topic, sample(200))
    first = Member(ctx, topic, group, partition_assignment_strategy=[assignor])
    settle(ctx, [first], [4])
    second = Member(ctx, topic, group, partition_assignment_strategy=[assignor])
    settle(ctx, [first, second], [2, 2])
    first.close()
    settle(ctx, [second], [4])
    for _ in ctx.wait("every record"):
        second.check()
        if set(first.seen) | set(second.seen) == set(range(200)):
            break


@case
def commit_and_resume(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, sample(100))
    first = consumer(ctx, group)
    first.subscribe([topic])
    take(ctx, first, 30)
    first.commit()
    first.close()
    second = consumer(ctx, group)
    second.subscribe([topic])
    same([r.offset for r in take(ctx, second, 70)], list(range(30, 100)), "offsets after resume")


@case
def commit_metadata(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    text = 'käse {"a": [1, 2]} ' + "x" * 500
    client, where = consumer(ctx, group), TopicPartition(topic, 0)
    client.assign([where])
    client.commit({where: OffsetAndMetadata(0, text, -1)})
    back = client.committed(where, metadata=True)
    same((back.offset, back.metadata), (0, text), "offset and metadata")


@case
def auto_commit(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, sample(10))
    client = consumer(ctx, group, enable_auto_commit=True, auto_commit_interval_ms=100)
    client.subscribe([topic])
    take(ctx, client, 10)
    for _ in ctx.wait("the automatic commit"):
        client.poll(LONG_POLL)
        if client.committed(TopicPartition(topic, 0)) == 10:
            break


@case
def rebalance_eager(ctx: Context) -> None:
    rebalance(ctx, RangePartitionAssignor)


@case
def rebalance_cooperative(ctx: Context) -> None:
    rebalance(ctx, CooperativeStickyAssignor)


@case
def static_membership(ctx: Context) -> None:
    topic, group = create(ctx, 4), ctx.name("g")
    one = Member(ctx, topic, group, group_instance_id="one")
    two = Member(ctx, topic, group, group_instance_id="two")
    settle(ctx, [one, two], [2, 2])
    changes, share = one.changes, two.partitions
    two.close()
    again = Member(ctx, topic, group, group_instance_id="two")
    settle(ctx, [one, again], [2, 2])
    same(again.partitions, share, "the returning member's partitions")
    same(one.changes, changes, "rebalances of the other member")


@case
def member_timeout(ctx: Context) -> None:
    topic, group = create(ctx, 2), ctx.name("g")
    lazy = Member(ctx, topic, group, session_timeout_ms=6000, max_poll_interval_ms=6000)
    settle(ctx, [lazy], [2])
    lazy.stop()
    eager = Member(ctx, topic, group)
    settle(ctx, [eager], [2])


@case
def new_partitions_in_group(ctx: Context) -> None:
    topic, group = create(ctx, 1), ctx.name("g")
    member = Member(ctx, topic, group, metadata_max_age_ms=500)
    settle(ctx, [member], [1])
    admin(ctx).create_partitions({topic: 3})
    settle(ctx, [member], [3])
    produce(ctx, topic, sample(5), partition=2)
    for _ in ctx.wait("records of the new partition"):
        member.check()
        if len(member.seen) == 5:
            break


@case
def error_unknown_member(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    settle(ctx, [Member(ctx, topic, group)], [1])
    # A commit from outside (no member id, no generation) while the group has members.
    where = TopicPartition(topic, 0)
    result = admin(ctx).alter_group_offsets(group, {where: OffsetAndMetadata(1, "", -1)})
    same(result[where], kafka.errors.UnknownMemberIdError, "error")


@case
def error_fenced_instance(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    first = Member(ctx, topic, group, group_instance_id="same")
    settle(ctx, [first], [1])
    second = Member(ctx, topic, group, group_instance_id="same")
    settle(ctx, [second], [1])

    # Its heartbeats only log that they are fenced; the next commit raises.
    where = TopicPartition(topic, 0)
    offsets = {where: OffsetAndMetadata(0, "", -1)}
    first.stop()
    failure(kafka.errors.FencedInstanceIdError, first.client.commit, offsets)


@case
def error_inconsistent_protocol(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    settle(ctx, [Member(ctx, topic, group, partition_assignment_strategy=[RangePartitionAssignor])], [1])
    assignors = [CooperativeStickyAssignor]
    other = Member(ctx, topic, group, partition_assignment_strategy=assignors)

    def go_on() -> None:
        for _ in ctx.wait("the refusal"):
            other.check()

    failure(kafka.errors.InconsistentGroupProtocolError, go_on)


@case
def error_group_not_empty(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    settle(ctx, [Member(ctx, topic, group)], [1])
    same(admin(ctx).delete_groups([group]), {group: "NonEmptyGroupError"}, "result")


@case
def list_and_describe_groups(ctx: Context) -> None:
    topic, group = create(ctx, 2), ctx.name("g")
    member = Member(ctx, topic, group, client_id="compat-client")
    settle(ctx, [member], [2])
    listed = {g["group_id"]: g for g in admin(ctx).list_groups()}
    same(listed[group]["protocol_type"], "consumer", "protocol type")
    check(group in {g["group_id"] for g in admin(ctx).list_groups(states_filter=["Stable"])}, "not in Stable")
    found = admin(ctx).describe_groups([group])[group]
    same(found["group_state"], "Stable", "state")
    same([m["client_id"] for m in found["members"]], ["compat-client"], "client ids")
    member.close()
    for _ in ctx.wait("the group to be empty"):
        if admin(ctx).describe_groups([group])[group]["group_state"] == "Empty":
            break


@restart_case
def restart_resume_group(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    records = sample(100)
    produce(ctx, topic, records, compression_type="zstd")
    first = consumer(ctx, group)
    first.subscribe([topic])
    take(ctx, first, 40)
    first.commit()
    first.close()
    ctx.restart()
    second = consumer(ctx, group)
    second.subscribe([topic])
    same([r.offset for r in take(ctx, second, 60)], list(range(40, 100)), "offsets after the restart")
    same(as_records(read(ctx, topic, 100)), records, "records from the beginning")


@restart_case
def restart_live_clients(ctx: Context) -> None:
    topic, group = create(ctx, 2), ctx.name("g")
    writer = producer(ctx, reconnect_backoff_max_ms=500)
    reader = consumer(ctx, group, reconnect_backoff_max_ms=500)
    reader.subscribe([topic])
    for n in range(50):
        writer.send(topic, b"%d" % n)
    writer.flush(timeout=ctx.left)
    got = [int(r.value) for r in take(ctx, reader, 50)]
    reader.commit()
    ctx.restart()
    for n in range(50, 100):
        writer.send(topic, b"%d" % n)
    writer.flush(timeout=ctx.left)
    for _ in ctx.wait("the records after the restart"):
        got += [int(r.value) for batch in reader.poll(LONG_POLL).values() for r in batch]
        if set(got) == set(range(100)):
            break


@restart_case
def restart_idempotent(ctx: Context) -> None:
    topic = create(ctx)
    client = producer(ctx, enable_idempotence=True, reconnect_backoff_max_ms=500)
    for n in range(100):
        client.send(topic, b"%d" % n)
    client.flush(timeout=ctx.left)
    ctx.restart()
    futures = [client.send(topic, b"%d" % n) for n in range(100, 200)]
    client.flush(timeout=ctx.left)
    for future in futures:
        future.get(timeout=ctx.left)
    same([int(r.value) for r in read(ctx, topic, 200)], list(range(200)), "records")


@restart_case
def restart_topic_settings(ctx: Context) -> None:
    topic = create(ctx, 3, retention__ms=123_456_789)
    before = admin(ctx).describe_topics([topic])[0]
    ctx.restart()
    ctx.shared.pop("admin")
    after = admin(ctx).describe_topics([topic])[0]
    same(after["topic_id"], before["topic_id"], "topic id")
    same(len(after["partitions"]), 3, "partitions")
    found = admin(ctx).describe_configs([ConfigResource("TOPIC", topic)])["topic"][topic]
    same(found["retention.ms"]["value"], "123456789", "config")
