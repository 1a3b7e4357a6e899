"""Members of share groups in a line each."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.serving import Client


def alter(gateway: Gateway, group: str, **configs: str) -> Awaitable[object]:
    """The group says this of itself; two underscores are a dot."""
    named = {name.replace("__", "."): value for name, value in configs.items()}
    return gateway.broker.group_configs.alter(group, lambda old: {**old, **named})


def beat_body(group: str, member: str, epoch: int, *names: str, rack: str | None = None) -> Any:
    """A ShareGroupHeartbeat; without names the subscription is as it was."""
    return messages.ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        rack_id=rack,
        subscribed_topic_names=list(names) or None,
    )


async def beat(client: Client, group: str, member: str, epoch: int, *names: str, **options: Any) -> Any:
    body = beat_body(group, member, epoch, *names, **options)
    return await client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, body)


def assigned(answer: Any) -> dict[bytes, list[int]] | None:
    """Topic id to partitions; None if nothing was said of them."""
    assert answer.error_code == 0, answer
    if answer.assignment is None:
        return None
    return {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}


async def describe(client: Client, *groups: str, operations: bool = False) -> list[Any]:
    answer = await client.ask(
        ApiKey.SHARE_GROUP_DESCRIBE,
        1,
        messages.ShareGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations),
    )
    return list(answer.groups)


async def delete(client: Client, *groups: str) -> dict[str, int]:
    """Group to error."""
    answer = await client.ask(
        ApiKey.DELETE_GROUPS, 2, messages.DeleteGroupsRequest(groups_names=list(groups))
    )
    return {each.group_id: each.error_code for each in answer.results}
