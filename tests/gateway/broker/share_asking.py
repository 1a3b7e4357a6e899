"""Share fetches and acknowledgements in a line each, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.asking import offsets
from tests.gateway.broker.held import until
from tests.gateway.serving import Client, batch, create, produce_body

GROUP = "g"
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
FOR_LONG = 60_000

Acks = Mapping[int, Sequence[tuple[int, int, int | Sequence[int]]]]
"""Partition to (first offset, last offset, one type for all or one for each)."""

Fetch = messages.ShareFetchRequest
Acknowledge = messages.ShareAcknowledgeRequest


def share_fetch_body(
    member: str | None,
    epoch: int,
    topic_id: bytes = b"",
    partitions: Sequence[int] = (),
    *,
    group: str | None = GROUP,
    acks: Acks | None = None,
    forget: Sequence[int] = (),
    max_wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    max_records: int = 500,
    mode: int = 0,
    renew: bool = False,
) -> Any:
    """A ShareFetch of partitions of one topic; those that are acknowledged are named with the others."""
    acks = acks or {}
    asked = list(dict.fromkeys([*partitions, *acks]))
    return Fetch(
        group_id=group,
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=max_wait,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        max_records=max_records,
        batch_size=max_records,
        share_acquire_mode=mode,
        is_renew_ack=renew,
        topics=[
            Fetch.FetchTopic(
                topic_id=topic_id,
                partitions=[
                    Fetch.FetchPartition(
                        partition_index=index,
                        acknowledgement_batches=_batches(Fetch.AcknowledgementBatch, acks.get(index, ())),
                    )
                    for index in asked
                ],
            )
        ]
        if asked
        else [],
        forgotten_topics_data=[Fetch.ForgottenTopic(topic_id=topic_id, partitions=list(forget))]
        if forget
        else [],
    )


def share_acknowledge_body(
    member: str | None,
    epoch: int,
    topic_id: bytes,
    acks: Acks,
    *,
    group: str | None = GROUP,
    renew: bool = False,
) -> Any:
    return Acknowledge(
        group_id=group,
        member_id=member,
        share_session_epoch=epoch,
        is_renew_ack=renew,
        topics=[
            Acknowledge.AcknowledgeTopic(
                topic_id=topic_id,
                partitions=[
                    Acknowledge.AcknowledgePartition(
                        partition_index=index,
                        acknowledgement_batches=_batches(Acknowledge.AcknowledgementBatch, each),
                    )
                    for index, each in acks.items()
                ],
            )
        ],
    )


def _batches(kind: Any, acks: Sequence[tuple[int, int, int | Sequence[int]]]) -> list[Any]:
    return [
        kind(
            first_offset=first,
            last_offset=last,
            acknowledge_types=[types] if isinstance(types, int) else list(types),
        )
        for first, last, types in acks
    ]


async def share_fetch(client: Client, *args: Any, version: int = 2, **options: Any) -> Any:
    """See `share_fetch_body`. The message of the answer."""
    return await client.ask(ApiKey.SHARE_FETCH, version, share_fetch_body(*args, **options))


async def share_acknowledge(client: Client, *args: Any, version: int = 2, **options: Any) -> Any:
    """See `share_acknowledge_body`. The message of the answer."""
    return await client.ask(ApiKey.SHARE_ACKNOWLEDGE, version, share_acknowledge_body(*args, **options))


def told(answer: Any) -> dict[int, Any]:
    """Partitions by index, in the order of the answer, which itself must be no error."""
    assert answer.error_code == 0, answer.error_code
    return {each.partition_index: each for topic in answer.responses for each in topic.partitions}


def errors(answer: Any) -> dict[int, int]:
    return {index: each.error_code for index, each in told(answer).items()}


def ack_errors(answer: Any) -> dict[int, int]:
    """Of a ShareFetch."""
    return {index: each.acknowledge_error_code for index, each in told(answer).items()}


def acquired(answer: Any) -> dict[int, dict[int, int]]:
    """Partition to acquired offset to delivery count. Every acquired offset must be among the records."""
    found: dict[int, dict[int, int]] = {}
    for index, each in told(answer).items():
        counts = {
            offset: some.delivery_count
            for some in each.acquired_records
            for offset in range(some.first_offset, some.last_offset + 1)
        }
        assert set(counts) <= set(offsets(each.records)), "acquired and not sent"
        if counts:
            found[index] = counts
    return found


async def topic(gateway: Gateway, client: Client, records: int = 0, partitions: int = 1) -> bytes:
    """A topic that the group reads, with so many records in each partition, each a batch; its id."""
    topic_id = await create(client, "t", partitions)
    await gateway.broker.subscriptions.ensure(GROUP, "t")
    for index in range(partitions):
        for value in range(records):
            await put(client, b"%d" % value, partition=index)
    return topic_id


async def half_filled(gateway: Gateway, client: Client, records: int = 4) -> bytes:
    """A topic of two partitions that the group reads, with records in partition 0 alone; its id."""
    topic_id = await topic(gateway, client, partitions=2)
    for value in range(records):
        await put(client, b"%d" % value)
    return topic_id


async def put(client: Client, *values: bytes, partition: int = 0) -> None:
    await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(*values), partition=partition))


async def parked(gateway: Gateway, count: int = 1) -> None:
    await until(lambda: gateway.broker.metrics.fetches_parked.value == count)


async def alter_group(client: Client, **configs: str) -> None:
    """Set configs of the group."""
    request = messages.IncrementalAlterConfigsRequest
    changes = [
        request.AlterableConfig(name=name, config_operation=0, value=value) for name, value in configs.items()
    ]
    group = request.AlterConfigsResource(resource_type=32, resource_name=GROUP, configs=changes)
    answer = await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request(resources=[group]))
    assert [each.error_code for each in answer.responses] == [0], answer.responses


def serving(gateway: Gateway, partition: int = 0) -> SubscriptionPartition:
    """What serves a partition."""
    subscription = gateway.broker.subscriptions.get(GROUP, "t")
    assert subscription is not None
    return subscription.partition(partition)
