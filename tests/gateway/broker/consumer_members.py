"""Members of consumer groups of KIP-848 on the wire, and what others see of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.serving import Client

REBALANCE = 30_000

Owned = Mapping[bytes, Sequence[int]]
"""Partitions by the ids of their topics."""


async def beat(
    client: Client,
    member: str,
    epoch: int,
    *names: str,
    group: str = "g",
    owned: Owned | None = None,
    version: int = 1,
    **fields: Any,
) -> Any:
    """A ConsumerGroupHeartbeat, of one that joins with all that it must say."""
    request = messages.ConsumerGroupHeartbeatRequest
    if epoch == 0:
        owned = owned or {}
        fields.setdefault("rebalance_timeout_ms", REBALANCE)
    return await client.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        version,
        request(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=list(names) if names else None,
            topic_partitions=None
            if owned is None
            else [
                request.TopicPartitions(topic_id=topic, partitions=list(its)) for topic, its in owned.items()
            ],
            **fields,
        ),
    )


def assigned(answer: Any) -> dict[bytes, list[int]] | None:
    """By topic id; None if the answer says nothing of it."""
    if answer.assignment is None:
        return None
    return {topic.topic_id: list(topic.partitions) for topic in answer.assignment.topic_partitions}


async def describe(client: Client, group: str = "g", version: int = 1) -> Any:
    answer = await client.ask(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        version,
        messages.ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True),
    )
    (described,) = answer.groups
    return described


async def commit(
    client: Client, member: str, epoch: int, index: int = 0, *, offset: int = 5, version: int = 9
) -> int:
    """The error code of a member's OffsetCommit in t."""
    request = messages.OffsetCommitRequest
    answer = await client.ask(
        ApiKey.OFFSET_COMMIT,
        version,
        request(
            group_id="g",
            generation_id_or_member_epoch=epoch,
            member_id=member,
            topics=[
                request.OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        request.OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        ),
    )
    return int(answer.topics[0].partitions[0].error_code)


async def fetched(client: Client, member: str | None, epoch: int, version: int = 9) -> tuple[int, int]:
    """The error code and the offset of a member's OffsetFetch of t's first partition."""
    request = messages.OffsetFetchRequest
    answer = await client.ask(
        ApiKey.OFFSET_FETCH,
        version,
        request(
            groups=[
                request.OffsetFetchRequestGroup(
                    group_id="g",
                    member_id=member,
                    member_epoch=epoch,
                    topics=[request.OffsetFetchRequestTopics(name="t", partition_indexes=[0])],
                )
            ]
        ),
    )
    (group,) = answer.groups
    if group.error_code:
        return group.error_code, -1
    return 0, group.topics[0].partitions[0].committed_offset


async def listed(client: Client, *kinds: str) -> list[tuple[str, str, str]]:
    """Id, type and state of groups, of all types or of these."""
    answer = await client.ask(ApiKey.LIST_GROUPS, 5, messages.ListGroupsRequest(types_filter=list(kinds)))
    return [(one.group_id, one.group_type, one.group_state) for one in answer.groups]
