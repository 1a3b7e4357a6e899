"""aiokafka: groups, and going on after a restart of the server."""

from __future__ import annotations

import asyncio
from typing import Any

import aiokafka.errors
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import NewPartitions
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.structs import OffsetAndMetadata
from base import admin, as_records, case, consumer, create, describe, failure, produce, producer, read, take
from common import Context, check, same, sample


class Member(ConsumerRebalanceListener):
    """A consumer that counts its rebalances."""

    client: AIOKafkaConsumer

    def __init__(self) -> None:
        self.changes = 0
        self.seen: list[int] = []

    @classmethod
    async def join(cls, ctx: Context, topic: str, group: str, **conf: Any) -> Member:
        member = cls()
        member.client = await consumer(ctx, group=group, **conf)
        member.client.subscribe([topic], listener=member)
        return member

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.changes += 1

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.changes += 1

    async def poll(self) -> None:
        for batch in (await self.client.getmany(timeout_ms=100)).values():
            self.seen += [int(r.key.split(b"-")[1]) for r in batch]

    @property
    def partitions(self) -> set[int]:
        return {p.partition for p in self.client.assignment()}


async def settle(ctx: Context, members: list[Member], counts: list[int]) -> None:
    """Poll until each member has so many partitions, all of them apart."""
    for _ in ctx.wait(f"shares of {counts}"):
        await asyncio.gather(*(member.poll() for member in members))
        shares = [member.partitions for member in members]
        if sorted(map(len, shares)) == sorted(counts) and len(set().union(*shares)) == sum(counts):
            return


@case
async def commit_and_resume(ctx: Context) -> None:
    topic, group = await create(ctx), ctx.name("g")
    await produce(ctx, topic, sample(100))
    first = await consumer(ctx, topic, group=group)
    await take(ctx, first, 30)
    await first.commit()
    await first.stop()
    second = await consumer(ctx, topic, group=group)
    same([r.offset for r in await take(ctx, second, 70)], list(range(30, 100)), "offsets after resume")


@case
async def commit_metadata(ctx: Context) -> None:
    topic, group = await create(ctx), ctx.name("g")
    text = 'käse {"a": [1, 2]} ' + "x" * 500
    client, where = await consumer(ctx, group=group), TopicPartition(topic, 0)
    client.assign([where])
    await client.commit({where: OffsetAndMetadata(0, text)})
    back = await (await admin(ctx)).list_consumer_group_offsets(group)
    same(back, {where: OffsetAndMetadata(0, text)}, "offset and metadata")


@case
async def auto_commit(ctx: Context) -> None:
    topic, group = await create(ctx), ctx.name("g")
    await produce(ctx, topic, sample(10))
    client = await consumer(ctx, topic, group=group, enable_auto_commit=True, auto_commit_interval_ms=100)
    await take(ctx, client, 10)
    for _ in ctx.wait("the automatic commit"):
        await client.getmany(timeout_ms=200)
        if await client.committed(TopicPartition(topic, 0)) == 10:
            break


@case
async def rebalance_eager(ctx: Context) -> None:
    topic, group = await create(ctx, 4), ctx.name("g")
    await produce(ctx, topic, sample(200))
    conf = {"partition_assignment_strategy": [RangePartitionAssignor]}
    first = await Member.join(ctx, topic, group, **conf)
    await settle(ctx, [first], [4])
    second = await Member.join(ctx, topic, group, **conf)
    await settle(ctx, [first, second], [2, 2])
    await first.client.stop()
    await settle(ctx, [second], [4])
    for _ in ctx.wait("every record"):
        await second.poll()
        if set(first.seen) | set(second.seen) == set(range(200)):
            break


@case
async def static_membership(ctx: Context) -> None:
    topic, group = await create(ctx, 4), ctx.name("g")
    one = await Member.join(ctx, topic, group, group_instance_id="one")
    two = await Member.join(ctx, topic, group, group_instance_id="two")
    await settle(ctx, [one, two], [2, 2])
    changes, share = one.changes, two.partitions
    await two.client.stop()
    again = await Member.join(ctx, topic, group, group_instance_id="two")
    await settle(ctx, [one, again], [2, 2])
    same(again.partitions, share, "the returning member's partitions")
    same(one.changes, changes, "rebalances of the other member")


@case
async def member_timeout(ctx: Context) -> None:
    topic, group = await create(ctx, 2), ctx.name("g")
    brief = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 60_000, "rebalance_timeout_ms": 6000}
    silent = await Member.join(ctx, topic, group, **brief)  # no heartbeat before its session ends
    await settle(ctx, [silent], [2])
    other = await Member.join(ctx, topic, group)
    await settle(ctx, [other], [2])


@case
async def new_partitions_in_group(ctx: Context) -> None:
    topic, group = await create(ctx, 1), ctx.name("g")
    member = await Member.join(ctx, topic, group, metadata_max_age_ms=500)
    await settle(ctx, [member], [1])
    await (await admin(ctx)).create_partitions({topic: NewPartitions(3)})
    await settle(ctx, [member], [3])
    await produce(ctx, topic, sample(5), partition=2)
    for _ in ctx.wait("records of the new partition"):
        await member.poll()
        if len(member.seen) == 5:
            break


@case
async def error_unknown_member(ctx: Context) -> None:
    topic, group = await create(ctx), ctx.name("g")
    await settle(ctx, [await Member.join(ctx, topic, group)], [1])
    # A commit from outside (no member id, no generation) while the group has members.
    where, outsider = TopicPartition(topic, 0), await consumer(ctx, group=group)
    outsider.assign([where])
    await failure(aiokafka.errors.CommitFailedError, outsider.commit({where: 1}))


@case
async def error_fenced_instance(ctx: Context) -> None:
    topic, group = await create(ctx), ctx.name("g")
    first = await Member.join(ctx, topic, group, group_instance_id="same")
    await settle(ctx, [first], [1])
    second = await Member.join(ctx, topic, group, group_instance_id="same")
    await settle(ctx, [second], [1])

    async def go_on() -> None:
        for _ in ctx.wait("the first to be fenced"):
            await first.poll()
            await first.client.commit({TopicPartition(topic, 0): 0})

    error = await failure(aiokafka.errors.KafkaError, go_on())
    ctx.detail = f"{type(error).__name__}"


@case
async def error_inconsistent_protocol(ctx: Context) -> None:
    topic, group = await create(ctx), ctx.name("g")
    first = await Member.join(ctx, topic, group, partition_assignment_strategy=[RangePartitionAssignor])
    await settle(ctx, [first], [1])
    conf = {"partition_assignment_strategy": [RoundRobinPartitionAssignor]}

    async def go_on() -> None:
        other = await Member.join(ctx, topic, group, **conf)
        for _ in ctx.wait("the refusal"):
            await other.poll()

    await failure(aiokafka.errors.InconsistentGroupProtocolError, go_on())


@case
async def list_and_describe_groups(ctx: Context) -> None:
    topic, group = await create(ctx, 2), ctx.name("g")
    member = await Member.join(ctx, topic, group, client_id="compat-client")
    await settle(ctx, [member], [2])
    client = await admin(ctx)
    listed = {found[0]: found[1] for found in await client.list_consumer_groups()}
    same(listed.get(group), "consumer", "protocol type")

    async def found() -> Any:
        code, name, state, _, _, members, *_ = (await client.describe_consumer_groups([group]))[0].groups[0]
        same((code, name), (0, group), "error and name")
        return state, [m[1] for m in members]

    state, clients = await found()
    same(state, "Stable", "state")
    check("compat-client" in str(clients), f"clients: {clients}")
    await member.client.stop()
    for _ in ctx.wait("the group to be empty"):
        if (await found())[0] == "Empty":
            break


@case
async def group_offsets(ctx: Context) -> None:
    topic, group = await create(ctx, 2), ctx.name("g")
    client, where = await consumer(ctx, group=group), TopicPartition(topic, 1)
    client.assign([where])
    await client.commit({where: 3})
    found = await (await admin(ctx)).list_consumer_group_offsets(group)
    same({place: offset.offset for place, offset in found.items()}, {where: 3}, "offsets")


@case
async def restart_resume_group(ctx: Context) -> None:
    topic, group = await create(ctx), ctx.name("g")
    records = sample(100)
    await produce(ctx, topic, records, compression_type="zstd")
    first = await consumer(ctx, topic, group=group)
    await take(ctx, first, 40)
    await first.commit()
    await first.stop()
    await asyncio.to_thread(ctx.restart)
    second = await consumer(ctx, topic, group=group)
    same([r.offset for r in await take(ctx, second, 60)], list(range(40, 100)), "offsets after the restart")
    same(as_records(await read(ctx, topic, 100)), records, "records from the beginning")


@case
async def restart_live_clients(ctx: Context) -> None:
    topic, group = await create(ctx, 2), ctx.name("g")
    writer, reader = await producer(ctx), await consumer(ctx, topic, group=group)
    for n in range(50):
        await writer.send(topic, b"%d" % n)
    await writer.flush()
    got = [int(r.value) for r in await take(ctx, reader, 50)]
    await reader.commit()
    await asyncio.to_thread(ctx.restart)
    for n in range(50, 100):
        await writer.send(topic, b"%d" % n)
    await writer.flush()
    for _ in ctx.wait("the records after the restart"):
        got += [int(r.value) for batch in (await reader.getmany(timeout_ms=200)).values() for r in batch]
        if set(got) == set(range(100)):
            break


@case
async def restart_idempotent(ctx: Context) -> None:
    topic = await create(ctx)
    client = await producer(ctx, enable_idempotence=True)
    for n in range(100):
        await client.send(topic, b"%d" % n)
    await client.flush()
    await asyncio.to_thread(ctx.restart)
    for future in [await client.send(topic, b"%d" % n) for n in range(100, 200)]:
        await future
    same([int(r.value) for r in await read(ctx, topic, 200)], list(range(200)), "records")


@case
async def restart_topic_settings(ctx: Context) -> None:
    topic = await create(ctx, 3, retention__ms=123_456_789)
    await asyncio.to_thread(ctx.restart)
    ctx.shared.pop("admin")
    same(len((await describe(ctx, topic))["partitions"]), 3, "partitions")
