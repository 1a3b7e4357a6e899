"""What a subscription is before it is stored: whether it may be, where it begins, and its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker import offsets_by_time
from gateway.broker.errors import KafkaError
from gateway.broker.loading import until_loaded
from gateway.broker.policies import check_subscriptions, check_type
from gateway.broker.subscriptions import rows
from gateway.broker.subscriptions.rows import SubscriptionRow
from gateway.wire.batch import BatchError
from gateway.wire.errors import Error
from semantics.subscriptions.cursor import Cursor
from store.api import Write
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.subscriptions.configs import SubscriptionConfigs
    from gateway.broker.subscriptions.node import Delivering
    from gateway.config.group_configs import GroupConfig


class NewSubscriptions:
    """Subscriptions that are not there yet (`Subscriptions.new`)."""

    def __init__(self, node: Delivering, configs: SubscriptionConfigs) -> None:
        self._node = node
        self._configs = configs
        self._next_id = rows.next_id(node.store)

    def check(self, topic: Topic, config: GroupConfig) -> None:
        """Whether a topic may have one more subscription, of such a kind. Raises KafkaError POLICY_VIOLATION,
        StoreError.
        """
        node = self._node
        if node.catalog.is_view(topic):
            raise KafkaError(
                Error.POLICY_VIOLATION,
                f"'{topic.name}' shows what the gateway keeps: it can be read, and has no subscriptions.",
            )
        check_type(node, node.catalog, topic, config.subscription.type)
        check_subscriptions(node, node.catalog, topic, rows.of_topic(node.store, topic.topic_id))

    async def starts(self, topic: Topic, config: GroupConfig) -> list[int]:
        """Where a new subscription begins in each partition. Raises StoreError, KafkaError."""
        node = self._node
        strategy, ago = config.offset_reset
        count = len(topic.partitions)
        if strategy == "earliest":
            return [0] * count
        if strategy == "latest":
            return [
                (await until_loaded(partial(node.in_use.log_of, topic, index))).end_offset
                for index in range(count)
            ]
        since = node.clock.wall_ms() - ago
        starts: list[int] = []
        for index in range(count):
            partition = await until_loaded(partial(node.in_use.partition, topic, index))
            end = partition.high_watermark
            try:
                found = await offsets_by_time.first_at_or_after(partition, since, node.decompression_limit)
            except BatchError as error:
                raise KafkaError(error.code, str(error)) from error
            starts.append(found[1] if found is not None else end)
        return starts

    @step("subscription.before", "subscription.after")
    def writes(
        self,
        group: str,
        topic: Topic,
        starts: Sequence[int],
        overrides: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        queue: str = "",
        selector: bytes = b"",
    ) -> tuple[SubscriptionRow, list[Write]]:
        """What makes a subscription that begins at `starts`, an offset for each partition (0: its first record).
        `queue`, `selector`: the queue topic that serves it, and what its lanes own. Raises KafkaError POLICY_VIOLATION
        for a group of another home.
        """
        node = self._node
        namespaces = node.catalog.namespaces
        if not namespaces.may_subscribe(group, topic.name):
            raise KafkaError(
                Error.POLICY_VIOLATION,
                f"Subscriptions on {topic.name} are of groups of clients at home in "
                f"{namespaces.home_of(topic.name)}, and of no others.",
            )
        number = self._next_id
        self._next_id += 1
        row = SubscriptionRow(
            number,
            group,
            topic.name,
            topic.topic_id,
            node.clock.wall_ms(),
            "",
            selector=selector,
            overrides=dict(overrides or {}),
            properties=dict(properties or {}),
            queue=queue,
        )
        config = self._configs.of(row)
        row.type = config.subscription.type
        writes = [*rows.writes_registered(row), rows.writes_next_id(self._next_id)]
        for partition, start in zip(topic.partitions, starts, strict=True):
            if start:
                fresh = Cursor.fresh(config.subscription, start)
                writes += rows.writes_of(rows.prefix(number, partition), fresh.writes())
        return row, writes
