"""What a TxnOffsetCommit says of single messages: on a queue topic of the group, or on a topic that the group shares.

On a queue topic it is what an OffsetCommit says there. Of a share group's topic the metadata names records by the
offsets that they have there, and the committed offset says nothing: `ack1;a=17-20,25@2;n:5000=21`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.broker.loading import Loading, all_loaded
from gateway.broker.transacted_acks import MOST_SPANS, check_of_share_group
from gateway.wire.errors import Error
from semantics.lanes.marks import misspelt, names_deliveries, parse

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.transacted_acks import Saying
    from store.api import Put
    from store.pending import Pending

log = logging.getLogger("magnetar.queues")


class Acks(NamedTuple):
    """Of one partition."""

    topic: Topic
    partition: int
    offset: int
    metadata: str | None
    row: Put
    """the same as an offset: for who asks whether a member may commit it; and of a lane it is kept"""
    codes: list[tuple[int, int]]
    """what is answered of the topic's partitions, this one at `at`"""
    at: int

    @property
    def of_queue(self) -> bool:
        return self.topic.queue is not None

    @property
    def taken(self) -> bool:
        """Whether it was not refused."""
        return not self.codes[self.at][1]

    def refuse(self, error: int) -> None:
        """That is its answer."""
        self.codes[self.at] = self.partition, error


def acknowledges(broker: Broker, topic: Topic, group_id: str, metadata: str | None) -> bool:
    """Whether a commit of a group says something of messages. Raises KafkaError."""
    if topic.queue is not None:
        return topic.queue.subscription == group_id
    if not names_deliveries(metadata) or broker.queues.serving(topic, group_id) is not None:
        return False
    return broker.subscriptions.row(group_id, topic.name) is not None


def load(broker: Broker, group_id: str, acks: Sequence[Acks]) -> Pending[None]:
    """Until all that these speak of can be had, as far as it can."""
    loading: list[Loading] = []
    for each in acks:
        try:
            if each.of_queue:
                broker.queues.of(each.topic)
            else:
                _shared(broker, group_id, each)
        except Loading as error:
            loading.append(error)
        except KafkaError:
            # whoever asks is told
            continue
    return all_loaded(loading) if loading else None


def _shared(broker: Broker, group_id: str, acks: Acks) -> SubscriptionPartition:
    """Raises KafkaError; Loading."""
    found = broker.subscriptions.get(group_id, acks.topic.name)
    if found is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, "The subscription was deleted.")
    at = found.partition(acks.partition)
    at.ready()
    return at


def say(
    broker: Broker,
    group_id: str,
    member_id: str,
    acks: Sequence[Acks],
    saying: Saying,
    *,
    member: bool,
    full: int,
) -> None:
    """Say it in the transaction, in the open turn; what cannot be said is refused by itself. `member`: it is one of the
    group. `full`: the error code where the transaction can take nothing more.
    """
    for each in acks:
        try:
            if saying.full:
                log.warning(
                    "a transaction says something of too many messages: it can only be aborted",
                    extra={"group": group_id, "topic": each.topic.name, "most": MOST_SPANS},
                )
                each.refuse(full)
                continue
            if each.of_queue:
                queue = broker.queues.of(each.topic)
                queue.commit(each.partition, each.offset, each.metadata, member=member, saying=saying)
                if (why := misspelt(each.metadata)) is not None:
                    log.warning(
                        "commit with metadata that is nearly of a queue topic",
                        extra={
                            "group": group_id,
                            "topic": each.topic.name,
                            "lane": each.partition,
                            "reason": why,
                        },
                    )
                continue
            marks = parse(each.metadata)
            assert marks is not None
            check_of_share_group(marks)
            if error := saying.say_of_anybodys(_shared(broker, group_id, each), marks, member_id):
                log.info(
                    "commit in a transaction refused",
                    extra={
                        "group": group_id,
                        "topic": each.topic.name,
                        "partition": each.partition,
                        "reason": "A record that is named is in nobody's hands, or in those of another.",
                    },
                )
                each.refuse(error)
        except ValueError as error:
            # MarksError among them
            log.warning(
                "commit in a transaction refused",
                extra={
                    "group": group_id,
                    "topic": each.topic.name,
                    "partition": each.partition,
                    "reason": str(error),
                },
            )
            each.refuse(Error.INVALID_REQUEST)
        except KafkaError as error:
            final = error.code == Error.INVALID_RECORD_STATE
            log.info(
                "commit in a transaction refused" if final else "commit in a transaction cannot be taken now",
                extra={
                    "group": group_id,
                    "topic": each.topic.name,
                    "partition": each.partition,
                    "reason": str(error),
                },
            )
            each.refuse(error.code if final else Error.COORDINATOR_LOAD_IN_PROGRESS)
