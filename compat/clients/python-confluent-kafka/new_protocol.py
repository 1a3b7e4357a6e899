"""confluent-kafka: groups of the new protocol (KIP-848), which librdkafka speaks with group.protocol=consumer."""

from __future__ import annotations

from typing import Any

from base import admin, consumer, create, produce, take
from common import Context, case, check, restart_case, same, sample
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic
from groups import Member, settle

NEW = {"group_protocol": "consumer", "session_timeout_ms": None, "heartbeat_interval_ms": None}
"""The server says for how long a member may be silent."""


def member(ctx: Context, topic: str, group: str, **conf: Any) -> Member:
    return Member(ctx, topic, group, **{**NEW, **conf})


@case
def protocol_sharing(ctx: Context) -> None:
    topic, group = create(ctx, 4), ctx.name("g")
    produce(ctx, topic, sample(200))
    commits = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}
    first = member(ctx, topic, group, **commits)
    settle(ctx, [first], [4])
    second = member(ctx, topic, group, **commits)
    settle(ctx, [first, second], [2, 2])
    everywhere = [TopicPartition(topic, index) for index in range(4)]
    for _ in ctx.wait("every record, and the offsets behind them"):
        first.poll()
        second.poll()
        committed = [each.offset for each in second.client.committed(everywhere, timeout=10)]
        if sum(committed) == 200 and set(first.seen) | set(second.seen) == set(range(200)):
            break
    first.client.close()
    settle(ctx, [second], [4])


@case
def protocol_static(ctx: Context) -> None:
    topic, group = create(ctx, 4), ctx.name("g")
    one = member(ctx, topic, group, group_instance_id="one")
    two = member(ctx, topic, group, group_instance_id="two")
    settle(ctx, [one, two], [2, 2])
    changes, share = one.changes, two.partitions
    two.client.close()
    again = member(ctx, topic, group, group_instance_id="two")
    settle(ctx, [one, again], [2, 2])
    same(again.partitions, share, "the returning member's partitions")
    same(one.changes, changes, "rebalances of the other member")


@case
def protocol_stops_polling(ctx: Context) -> None:
    topic, group = create(ctx, 2), ctx.name("g")
    lazy = member(ctx, topic, group, max_poll_interval_ms=6000)
    settle(ctx, [lazy], [2])
    eager = member(ctx, topic, group)
    settle(ctx, [eager], [2])


@case
def protocol_new_partitions(ctx: Context) -> None:
    topic, group = create(ctx, 1), ctx.name("g")
    only = member(ctx, topic, group, topic_metadata_refresh_interval_ms=500)
    settle(ctx, [only], [1])
    admin(ctx).create_partitions([NewPartitions(topic, 3)])[topic].result(ctx.left)
    settle(ctx, [only], [3])


@case
def protocol_pattern(ctx: Context) -> None:
    group, prefix = ctx.name("g"), ctx.name("p")
    client = consumer(ctx, group, **NEW)
    client.subscribe([f"^{prefix}-.*"])
    for name in (f"{prefix}-1", f"{prefix}-2"):
        admin(ctx).create_topics([NewTopic(name, 1, 1)])[name].result(ctx.left)
        produce(ctx, name, sample(10))
        same({message.topic() for message in take(ctx, client, 10)}, {name}, "where they are from")


@case
def protocol_described(ctx: Context) -> None:
    topic, group = create(ctx, 3), ctx.name("g")
    only = member(ctx, topic, group, client_id="reader", group_remote_assignor="range")
    settle(ctx, [only], [3])
    listed = admin(ctx).list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(ctx.left)
    (found,) = [each for each in listed.valid if each.group_id == group]
    same(found.state, ConsumerGroupState.STABLE, "state")
    described = admin(ctx).describe_consumer_groups([group])[group].result(ctx.left)
    same((described.type, described.partition_assignor), (ConsumerGroupType.CONSUMER, "range"), "what it is")
    (one,) = described.members
    same(one.client_id, "reader", "client id")
    same({each.partition for each in one.assignment.topic_partitions}, {0, 1, 2}, "what it has")


@case
def protocol_in_turns(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, sample(90))
    begin = 0
    for conf in ({}, NEW, {}):
        client = consumer(ctx, group, **conf)
        client.subscribe([topic])
        same([m.offset() for m in take(ctx, client, 30)], list(range(begin, begin + 30)), "offsets")
        begin += 30
        client.commit(offsets=[TopicPartition(topic, 0, begin)], asynchronous=False)
        client.close()


@restart_case
def restart_protocol(ctx: Context) -> None:
    topic, group = create(ctx, 4), ctx.name("g")
    members = [member(ctx, topic, group, reconnect_backoff_max_ms=500) for _ in range(2)]
    settle(ctx, members, [2, 2])
    changes, shares = [each.changes for each in members], [each.partitions for each in members]
    ctx.restart()
    produce(ctx, topic, sample(50))
    for _ in ctx.wait("the records after the restart"):
        for each in members:
            message = each.client.poll(0.05)
            # A lost connection is an event of its own in librdkafka, not the end.
            if message is not None and not message.error():
                each.seen.append(int(message.key().split(b"-")[1]))
        if set(members[0].seen) | set(members[1].seen) == set(range(50)):
            break
    same([each.partitions for each in members], shares, "what each has")
    same([each.changes for each in members], changes, "rebalances")
    check(members[0].client.memberid(), "it is a member")
