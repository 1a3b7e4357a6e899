"""The broker: what the APIs and the admin server talk to. It puts the parts together on the node that they run on.

Read `turn.py` (how writes become commits), `partition.py` (append and read), `fetching.py` (read many, wait) next.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.audit import Audit
from gateway.auth.tokens import Tokens
from gateway.broker import policies
from gateway.broker.access import Access
from gateway.broker.audit_log import AuditLog
from gateway.broker.backlog_quota import BacklogQuotas
from gateway.broker.broker_configs import BrokerConfigs
from gateway.broker.catalog import Topic
from gateway.broker.classic_requests import ClassicRequests
from gateway.broker.client_metrics import ClientMetrics
from gateway.broker.client_quotas import ClientQuotas
from gateway.broker.client_software import ClientSoftware
from gateway.broker.clock_watch import ClockWatch, last_seen
from gateway.broker.committing import Committing
from gateway.broker.compacting import Compacting
from gateway.broker.compaction import Compaction
from gateway.broker.consumer_groups import ConsumerGroups
from gateway.broker.damage import Damage
from gateway.broker.fetch_sessions import FetchSessions
from gateway.broker.first_times import FirstTimes
from gateway.broker.group_configs import GroupConfigs
from gateway.broker.group_holds import GroupHolds
from gateway.broker.group_kinds import GroupKinds
from gateway.broker.groups import Groups
from gateway.broker.held_back import HeldBack
from gateway.broker.in_use import InUse
from gateway.broker.inactive_topics import InactiveTopics
from gateway.broker.internal_topics import InternalTopics
from gateway.broker.lane_members import LaneMembers
from gateway.broker.ledgers import rollover
from gateway.broker.message_ttl import MessageTtl
from gateway.broker.permissions import Permissions
from gateway.broker.placement import OneNode, Placement
from gateway.broker.producer_ids import ProducerIds
from gateway.broker.publishers import Publishing
from gateway.broker.queues.registry import Queues
from gateway.broker.quota_gate import Refusals
from gateway.broker.receiving import Receiving
from gateway.broker.redrive.jobs import Redrive
from gateway.broker.resource_groups import ResourceGroup, ResourceGroups
from gateway.broker.retention import Retention
from gateway.broker.sampling import Sampling
from gateway.broker.share_groups import ShareGroups
from gateway.broker.share_sessions import ShareSessions
from gateway.broker.subscription_expiry import SubscriptionExpiry
from gateway.broker.subscriptions.registry import Subscriptions
from gateway.broker.subscriptions.rows import has_any
from gateway.broker.tenancy import Tenancy
from gateway.broker.this_node import ThisNode
from gateway.broker.topics import Topics
from gateway.broker.traffic import Traffic
from gateway.broker.transactions import Transactions
from gateway.broker.transient import Transients
from gateway.broker.undelayed import Undelayed
from gateway.broker.users import Users
from gateway.broker.watching import Watching
from gateway.compaction import running
from gateway.config.topic_configs import effective
from gateway.peer import Numbers
from gateway.tenant_use import TenantUses
from semantics import group_names
from store.api import Durability, Store
from store.transient import TransientStore

if TYPE_CHECKING:
    from gateway.broker.held_back import Place
    from gateway.broker.partition import Partition
    from gateway.broker.quota_gate import Gate
    from gateway.broker.readable import Readable
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.broker.topic_runtime import TopicRuntime
    from gateway.broker.topics import Follows
    from gateway.clock import Clock
    from gateway.config import Settings
    from gateway.config.schema import Value
    from gateway.config.topic_configs import TopicConfig
    from gateway.metrics_catalog import GatewayMetrics
    from semantics.names import Namespace
    from semantics.policies import Found, Policy


log = logging.getLogger("magnetar.broker")

DECOMPRESSION_LIMIT = 64 * 1024 * 1024
"""Bytes that one batch may unfold to where its records must be looked at, or as many as a request may have if that is
more: 8 KB of zstd can grow to 256 MB."""


class Broker(ThisNode):
    """One node. Everything runs on its event loop."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        metrics: GatewayMetrics,
        loop: asyncio.AbstractEventLoop,
        *,
        cluster_id: bytes,
        version: str,
        data: Path | None = None,
        transient: TransientStore | None = None,
    ) -> None:
        """`transient` is for non-persistent topics: without it there are none. Raises TokensError; StoreError."""
        super().__init__(settings, store, clock, metrics, loop, data, transient)
        self.version = version
        self.cluster_id = base64.urlsafe_b64encode(cluster_id).decode().rstrip("=")
        self.started_at = clock.wall_ms()
        self.audit = Audit(settings.integer("audit.max.per.second"), clock.wall_ms, loop.time)
        self.catalog.namespaces.homes = settings.homes
        self.catalog.namespaces.guarded = settings.authorization
        self.transients = Transients(self, transient)
        self.broker_configs = BrokerConfigs(self, self.reconfigure)
        self.group_configs = GroupConfigs(self)
        self.client_metrics = ClientMetrics(self)
        self.tokens = Tokens(settings, clock)
        self.users = Users(store, self._write_users)
        self.client_quotas = ClientQuotas(self, metrics.throttled)
        self.resource_groups = ResourceGroups(self)
        self.tenant_uses = TenantUses()
        metrics.watch_tenants(self.tenant_uses.shown)
        self.receiving = Receiving(settings.integer("memory.max.bytes"))
        self.clock_watch = ClockWatch(clock, last_seen(store))
        self.damage = Damage(metrics, clock.monotonic_ms)
        self.producer_ids = ProducerIds(self)
        self.fetch_sessions = FetchSessions(settings.integer("max.incremental.fetch.session.cache.slots"))
        self.share_sessions = ShareSessions(self, lambda group: self.share_groups.look(group))
        # listener name -> (host, port) that clients are told
        self.endpoints: dict[str, tuple[str, int]] = {}
        # who leads and coordinates what
        self.placement: Placement = OneNode(
            settings.integer("node.id"), self.endpoints, settings.optional_text("broker.rack")
        )
        self.connection_numbers = Numbers()
        # what those that there are have published to
        self.publishing: set[Publishing] = set()
        self.client_software = ClientSoftware()
        # one batch at a time is prepared in a thread: see preparing.py
        self.preparing = asyncio.Lock()
        # bytes of requests that wait for that
        self.preparing_bytes = 0
        # bytes of those that wait for what their clients owe: see apis/produce_owed.py
        self.owing_bytes = 0
        # answers to Metadata by (version, listener, whether queue topics show, request bytes), as long as the catalog
        # stays as it is, and the placement at the version that they are of
        self.metadata_cache: dict[tuple[int, str, bool, bytes], bytes] = {}
        self.metadata_placement = self.placement.version
        # bytes that clients have not taken yet, over all connections
        self.unsent_bytes = 0
        # what can be sent as it is can be looked at
        self.decompression_limit = max(DECOMPRESSION_LIMIT, settings.integer("socket.request.max.bytes"))
        self.traffic = Traffic()
        self.undelayed = Undelayed()
        self.refusals = Refusals()
        self.in_use = InUse(
            self,
            self.catalog,
            self._configured,
            self._without_log,
            lambda topic_id: has_any(self.durable, topic_id),
        )
        self.internal_topics = InternalTopics(
            self, self.catalog, self.commit_watch, self.cluster_id, self.metadata_cache.clear
        )
        # as APIs and the admin server ask for them
        self.topic = self.in_use.topic
        self.at_home = self.in_use.at_home
        self.topic_by_id = self.in_use.topic_by_id
        self.partition_of = self.in_use.partition_of
        self.partition = self.in_use.partition
        self.log_of = self.in_use.log_of
        self.runtimes = self.in_use.runtimes
        self.topics = Topics(
            self, self.catalog, self.in_use, self.turn.end, self.topic_changed, self.transients
        )
        self.audit_log = AuditLog(self, self.catalog, self.topics, self.in_use)
        self.tenancy = Tenancy(self, self.catalog, self.topics, self._policies_changed)
        self.access = Access(self, self.catalog)
        self.tenancy.gone_with.append(self.access.namespace_goes)
        self.tenancy.watchers.append(self.access.changed)
        self.tenancy.doubting.append(self.access.read_again)
        self.access.watchers.append(self.rights_changed)
        self.permissions = Permissions(self.access)
        self.subscriptions = Subscriptions(
            self,
            members_of=lambda group: self.share_groups.members(group),
            members_on=lambda group, topic: self.share_groups.members_on(group, topic),
            lane_members_of=lambda group: self.lane_members.members(group),
            readers_of=lambda group: self.committing.members(group),
            several_plain=lambda group: self.share_groups.several_plain(group),
            entrusted=lambda subscription, partition: self.transactions.entrusted(subscription, partition),
            withdraw=lambda subscription, partition, holds: self.transactions.withdraw(
                subscription, partition, holds
            ),
        )
        self.queues = Queues(
            self,
            self.subscriptions,
            lambda: self.lane_members,
            lambda: self.share_groups,
            self.topic_changed,
            newest_connection=lambda: self.connection_numbers.newest,
        )
        self.topics.come_with.append(self.queues.come)
        self.topics.waited_for.append(self.queues.patterned.made)
        self.topics.tied.append(self.queues.tied)
        self.topics.followed_by += [
            self.queues.follow,
            self.subscriptions.follow,
            self.fetch_sessions.follow,
            self.transients.follow,
        ]
        self.retention = Retention(
            self,
            watch=self.clock_watch,
            catalog=self.catalog,
            topics=self.topics,
            subscriptions=self.subscriptions,
            effective=self.effective,
            in_use=self.in_use.runtimes,
            unfolds_to=self.decompression_limit,
            load_lanes=self.load_lanes,
            undelayed=self.undelayed,
            groups=GroupHolds(self, lambda topic: self.effective(topic).groups_hold),
        )
        self.compaction = Compaction(
            self,
            catalog=self.catalog,
            effective=self.effective,
            compacting=Compacting(
                self,
                watch=self.clock_watch,
                topics=self.topics,
                in_use=self.in_use,
                subscriptions=self.subscriptions,
                effective=self.effective,
                unfolds_to=self.decompression_limit,
                run=running.run,
            ),
        )
        self.message_ttl_job = MessageTtl(
            self,
            watch=self.clock_watch,
            catalog=self.catalog,
            subscriptions=self.subscriptions,
            ttl_of=lambda topic: policies.longest_wait(self, self.catalog, topic),
            from_publish=lambda topic: self.effective(topic).ttl_from_publish,
            load_lanes=self.load_lanes,
            undelayed=self.undelayed,
        )
        self.redrive = Redrive(self, self.subscriptions)
        self.subscription_expiry = SubscriptionExpiry(
            self,
            catalog=self.catalog,
            subscriptions=self.subscriptions,
            limit_of=lambda topic: policies.unused_subscription(self, self.catalog, topic),
            delete=self._delete_unused,
        )
        self.inactive_topics = InactiveTopics(
            self,
            catalog=self.catalog,
            in_use=self.in_use,
            subscriptions=self.subscriptions,
            limit_of=lambda topic: policies.unused_topic(self, self.catalog, topic),
            publishing=lambda: self.publishing,
            read_by_members=lambda topic: (
                self.groups.somebody_reads(topic.name) or self.consumer_groups.somebody_reads(topic.name)
            ),
            when_caught_up=lambda topic: policies.unused_when_caught_up(self, self.catalog, topic),
            effective=self.effective,
            delete=lambda name, only_if: self.topics.delete(name, only_if=only_if),
        )
        self.backlog_quotas = BacklogQuotas(
            self,
            watch=self.clock_watch,
            subscriptions=self.subscriptions,
            load_lanes=self.load_lanes,
            expire=lambda topic, age, index: self.message_ttl_job.expire(topic, age, index=index),
        )
        self.watching = Watching(self, self.subscriptions, lambda: self.clock_ns(), self.decompression_limit)
        self.first_times = FirstTimes(self, self.undelayed)
        self.sampling = Sampling(
            self,
            catalog=self.catalog,
            subscriptions=self.subscriptions,
            times=self.first_times,
            clock_ns=lambda: self.clock_ns(),
        )
        self.transactions: Transactions = Transactions(
            self,
            store=self.durable,
            turn=lambda: self.turn,
            in_use=self.in_use,
            producer_ids=self.producer_ids,
            groups=lambda: self.committing,
            subscriptions=lambda: self.subscriptions,
            watch=self.clock_watch,
        )
        self.held_back = HeldBack(self, self._measure)
        self.group_kinds = GroupKinds(self)
        self.reconfigure(settings)
        self.broker_configs.load()
        self.client_quotas.load()
        self.resource_groups.load()
        self.groups: Groups = Groups(
            self,
            self.group_kinds,
            self.catalog,
            self.group_configs,
            self.clock_watch,
            self.queues,
            staged=lambda group: self.transactions.staged.of_group(group),
            beats=self.transactions.beaten,
        )
        self.share_groups: ShareGroups = ShareGroups(
            self, self.group_kinds, self.catalog, self.group_configs, self.subscriptions, self.share_sessions
        )
        self.consumer_groups: ConsumerGroups = ConsumerGroups(
            self,
            self.group_kinds,
            self.catalog,
            self.group_configs,
            self.clock_watch,
            self.queues,
            staged=lambda group: self.transactions.staged.of_group(group),
            beats=self.transactions.beaten,
            classic=self.groups,
        )
        self.committing: Committing = Committing(self.group_kinds, self.groups, self.consumer_groups)
        self.classic_requests = ClassicRequests(self.committing, self.groups, self.consumer_groups)
        self.lane_members = LaneMembers(self.committing, self.groups, self.consumer_groups)
        self.group_kinds.add(self.groups)
        self.group_kinds.add(self.consumer_groups)
        self.group_kinds.add(self.share_groups)
        self.tenancy.leaving.append(self._namespace_leaves)

    async def _namespace_leaves(self, namespace: Namespace) -> None:
        """Who makes one of this name later inherits no user, and nothing that its clients have. Raises KafkaError,
        StoreError.
        """
        trusted = {each.removeprefix("User:") for each in self.settings.super_users}
        await self.users.drop(str(namespace), trusted)
        prefix = group_names.scope_of(namespace)
        await self.transactions.forget(prefix)
        await self.group_kinds.drop(prefix)
        await self.group_configs.drop(prefix)

    # -- settings ---------------------------------------------------------------------------------------------------

    def reconfigure(self, settings: Settings) -> None:
        """Take over settings, of which some may change while the broker runs."""
        self.settings = settings
        self.node_id = settings.integer("node.id")
        self.durability = Durability(settings.text("durability"))
        self.memory_limit = settings.integer("memory.max.bytes")
        self.fetch_max_bytes = settings.integer("fetch.max.bytes")
        self.store.rollover = rollover(settings)
        self.group_configs.forget()
        self.subscriptions.configs.settings_changed()
        self.in_use.reconfigure()

    def _without_log(self, runtime: TopicRuntime, index: int) -> Readable:
        """What is read of a topic that has no records of its own. Raises KafkaError; Loading."""
        if runtime.topic.queue is not None:
            return self.queues.lane(runtime, index)
        return self.internal_topics.readable(runtime, index)

    def effective(self, topic: Topic) -> TopicConfig:
        """A topic's configuration as it is in force."""
        return self.in_use.config_of(topic) or self._configured(topic)

    def _configured(self, topic: Topic) -> TopicConfig:
        """What a topic's row, its namespace's and the settings come to."""
        config = effective(topic.configs, self.settings, self.catalog.namespaces.policies_of(topic.name))
        return self.transients.effective(config) if topic.transient else config

    def message_ttl(self, topic: Topic) -> int:
        """How long messages of a topic wait for their acknowledgement, in ms; 0 is for ever."""
        return policies.message_ttl(self, self.catalog, topic)

    def policy(self, policy: Policy, topic: Topic) -> Found[Value] | None:
        """What a policy comes to for a topic, and who says it; None where nobody does."""
        return policies.found(self, self.catalog, policy, topic)

    # -- topics -----------------------------------------------------------------------------------------------------

    def retries_into(self, topic: str) -> tuple[str, str] | None:
        """(Pulsar's full name of the base topic, subscription) if a topic of this name is a retry letter topic."""
        return self.subscriptions.configs.retries_into(topic)

    def full_name(self, topic: str) -> str:
        """Pulsar's name of a topic of this name in the catalog."""
        return str(self.catalog.full(topic))

    def rights_changed(self) -> None:
        """What clients may do has changed, and `Peer.rights` says so already: whatever remembers what it found looks
        again.
        """
        self.fetch_sessions.rights_changed()
        self.share_sessions.rights_changed()
        self.consumer_groups.rights_changed()

    def topic_changed(self, name: str, topic: Topic | None) -> None:
        """A catalog change is durable: it shows everywhere."""
        before = self.catalog.changed(name, topic)
        self.metadata_cache.clear()
        self.in_use.topic_changed(name, topic)
        if (
            before is not None
            and topic is not None
            and topic.queue is not None
            and len(topic.partitions) > len(before.partitions)
        ):
            self.queues.grown(topic)
        self.queues.topic_changed(name)
        if (
            before is not None
            and topic is not None
            and (before.configs, before.subscription_policies) != (topic.configs, topic.subscription_policies)
        ):
            self.subscriptions.configs.policies_changed(topic)
            self.message_ttl_job.changed(before, topic)

    def _policies_changed(
        self, namespace: Namespace, before: Mapping[str, str], after: Mapping[str, str]
    ) -> None:
        """What the policies of a namespace say is different now."""
        self.in_use.reconfigure(namespace)
        self.subscriptions.configs.policies_changed()
        old, new = [policies.longest_wait_in(self.settings, {}, said) for said in (before, after)]
        self.message_ttl_job.namespace_changed(namespace, old, new)

    def measure_backlog(self, partition: Partition, gate: Gate) -> asyncio.Future[None]:
        """Begin to measure what subscriptions have not acknowledged of a partition, or join who does."""
        return self.backlog_quotas.measure(partition, gate)

    def resource_group_of(self, topic: str) -> ResourceGroup | None:
        """The group that the namespace of a topic of the catalog is in."""
        name = self.catalog.namespaces.resource_group_of(topic)
        return self.resource_groups.get(name) if name else None

    def waited_for(self, topic_id: bytes, index: int) -> bool:
        """Whether batches wait until a partition's backlog is smaller."""
        return self.held_back.waited_for((topic_id, index))

    async def _measure(self, place: Place) -> None:
        """For those who wait for it; nothing where there is no quota any more."""
        runtime = self.topic_by_id(place[0])
        partition = runtime.partitions[place[1]] if runtime is not None else None
        if partition is not None and partition.gate is not None:
            await self.measure_backlog(partition, partition.gate)

    async def _delete_unused(self, topic: Topic, row: SubscriptionRow) -> None:
        """Delete a subscription that nobody has used, with its lanes. Raises KafkaError."""
        lanes = self.catalog.get(row.queue) if row.queue else None
        if lanes is None or lanes.queue is None:
            await self.share_groups.delete_subscriptions(row.group, topic)
        elif not lanes.queue.pattern:
            # of a pattern it is one of many, which stand and fall together
            await self.queues.unsubscribe(lanes)
            self.share_groups.unsubscribed(row.group, topic)

    def load_lanes(self, topic: Topic, group: str) -> None:
        """If lanes serve a group's subscription on a topic: its cursors know from now on what these hold. Raises
        KafkaError; Loading.
        """
        queue = self.queues.serving(topic, group)
        if queue is not None:
            self.queues.of(queue)

    # -- what the admin server calls --------------------------------------------------------------------------------

    async def create_topic(
        self, name: str, partitions: int, configs: dict[str, str], **options: Any
    ) -> Topic:
        """Raises KafkaError."""
        return await self.topics.create(name, partitions, configs, **options)

    async def delete_topic(self, name: str, *also: Follows) -> None:
        """`also` as `Topics.delete` has it. Raises KafkaError."""
        await self.topics.delete(name, *also)

    async def create_partitions(self, name: str, count: int) -> None:
        """Grow a topic to `count` partitions. Raises KafkaError."""
        await self.topics.grow(name, count)
