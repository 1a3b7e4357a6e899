"""Who may join a share group, and who speaks for a member: what is asked of a heartbeat before the machine takes it."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gateway.broker.errors import KafkaError
from gateway.broker.machines import Caller
from gateway.broker.policies import check_consumers
from gateway.broker.share_sessions import Client
from gateway.config.group_configs import GroupConfig
from gateway.config.group_table import KEY_SHARED, STICKY
from gateway.coordinators.share_group import ShareGroup
from gateway.wire.errors import Error

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.node import Node

log = logging.getLogger("magnetar.groups")


class ConfigsOn(Protocol):
    """What a group's configs come to on a topic."""

    def on(self, group: str, topic: str, /) -> GroupConfig: ...


class Read(Protocol):
    """The subscriptions of groups, as far as they say who may read."""

    @property
    def configs(self) -> ConfigsOn: ...

    def consumers(self, topic: Topic, /) -> int:
        """How many consumers all subscriptions of a topic have together. Raises KafkaError."""
        ...

    def lanes_of(self, group: str, /) -> str | None:
        """A queue topic that serves one of the group's subscriptions. Raises KafkaError."""
        ...


class Connected(Protocol):
    """Who is there to speak for a member."""

    def has_connection(self, group: str, member: str, client: Client, /) -> bool: ...


class Beating(NamedTuple):
    """A ShareGroupHeartbeat."""

    group_id: str
    member_id: str
    epoch: int
    """0 to join, -1 to leave"""
    names: tuple[str, ...] | None
    """the topics that the member subscribes to; None: the same as before"""
    rack: str | None
    client: Client
    connection: int
    """its number"""
    caller: Caller


class Admission:
    """To all share groups of this node. The checks are given None for a group that is not there."""

    def __init__(self, node: Node, catalog: Catalog, subscriptions: Read, sessions: Connected) -> None:
        self._node = node
        self._catalog = catalog
        self._subscriptions = subscriptions
        self._sessions = sessions
        # by group: administrators at work who need it empty
        self._closing: Counter[str] = Counter()

    @contextlib.contextmanager
    def closed(self, group_id: str) -> Iterator[None]:
        """Nobody joins the group meanwhile."""
        self._closing[group_id] += 1
        try:
            yield
        finally:
            self._closing[group_id] -= 1
            if not self._closing[group_id]:
                del self._closing[group_id]

    def check(self, beating: Beating, group: ShareGroup | None) -> None:
        """Of one that joins or goes on. Raises KafkaError."""
        self.check_client(beating, group)
        if beating.epoch == 0:
            self._check_join(beating, group)
        if beating.names is not None:
            self._check_consumers(beating, group)

    def check_client(self, beating: Beating, group: ShareGroup | None) -> None:
        """Raises KafkaError when the member is another client's that is still there: nobody else speaks for it."""
        group_id, member_id = beating.group_id, beating.member_id
        member = group.members.get(member_id) if group is not None else None
        if member is None or (member.client_host, member.client_id) == beating.client:
            return
        if self._sessions.has_connection(group_id, member_id, (member.client_host, member.client_id)):
            raise KafkaError(
                Error.FENCED_MEMBER_EPOCH, f"Member {member_id} of group {group_id} is another client's."
            )

    def _check_join(self, beating: Beating, group: ShareGroup | None) -> None:
        """Raises KafkaError when nobody may join now, or not this one."""
        if beating.group_id in self._closing:
            raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE, f"Group {beating.group_id} is being changed.")
        if group is None and (lanes := self._subscriptions.lanes_of(beating.group_id)) is not None:
            why = (
                f"Subscription {beating.group_id} is served by the lanes of {lanes}: read that in a consumer group of "
                "that name. One is served by lanes or by share groups."
            )
            # librdkafka says nothing but "Invalid request"
            log.warning("a member of share group %s is refused: %s", beating.group_id, why)
            raise KafkaError(Error.INVALID_REQUEST, why)
        for topic in beating.names or ():
            self._check_ranges(beating, group, self._subscriptions.configs.on(beating.group_id, topic))

    def _check_consumers(self, beating: Beating, group: ShareGroup | None) -> None:
        """Raises KafkaError when a topic that the member has not subscribed to as yet takes no more consumers."""
        member = group.members.get(beating.member_id) if group is not None else None
        before = member.names if member is not None else ()
        for name in beating.names or ():
            topic = self._catalog.get(name) if name not in before else None
            if topic is not None:
                readers = group.readers(name) if group is not None else 0
                of_topic = partial(self._subscriptions.consumers, topic)
                check_consumers(self._node, self._catalog, topic, beating.group_id, readers, of_topic)

    def _check_ranges(self, beating: Beating, group: ShareGroup | None, config: GroupConfig) -> None:
        """Raises KafkaError when a subscription deals its slots by ranges, and this member has none of its own."""
        group_id, member_id, (_, client_id) = beating.group_id, beating.member_id, beating.client
        if config.subscription.type != KEY_SHARED or config.mode != STICKY or member_id in config.ranges:
            return
        # Pulsar turns away a consumer without ranges, and one whose ranges another has.
        if client_id not in config.ranges:
            raise KafkaError(
                Error.INVALID_REQUEST,
                f"Group {group_id} has sticky ranges, and pulsar.key.shared.ranges has none for member {member_id} or "
                f"client {client_id}.",
            )
        if group is None:
            return
        for other in group.members.values():
            if (
                other.client_id == client_id
                and other.member_id != member_id
                and other.member_id not in config.ranges
            ):
                raise KafkaError(
                    Error.INVALID_REQUEST,
                    f"The sticky ranges of client {client_id} in group {group_id} are those of member "
                    f"{other.member_id} already: each member needs a client id of its own.",
                )
