"""Classic groups at work, and what all groups have committed. How steps become commits and answers: `machines`.

How offsets are committed is in `group_offsets`; what their rows say is in `gateway.coordinators.offsets`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gateway.broker.errors import KafkaError
from gateway.broker.group_kinds import Listed
from gateway.broker.group_offsets import Committer, Following, OffsetGroups, OffsetWrites
from gateway.broker.loading import after, asking, check_loaded
from gateway.broker.machines import Caller, Live
from gateway.broker.offset_expiry import OffsetExpiry
from gateway.coordinators import classic_failover, group_rows, offsets, subscription
from gateway.coordinators.classic_events import (
    Delete,
    HandOver,
    Heartbeat,
    Join,
    Rebalance,
    Request,
    Sync,
)
from gateway.coordinators.classic_failover import TopicOf
from gateway.coordinators.classic_group import ClassicGroup
from gateway.coordinators.group_rows import ClassicRow, GroupHead, Kind, State
from gateway.coordinators.group_state import Limits
from gateway.coordinators.offsets import Committed
from gateway.wire.errors import Error
from store.api import Family, Write, of_group
from store.pending import Asking, Pending
from store.transient import first_offset

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.clock_watch import ClockWatch
    from gateway.broker.group_configs import GroupConfigs
    from gateway.broker.group_kinds import GroupKinds
    from gateway.broker.node import Node

log = logging.getLogger("magnetar.groups")


FEW = 4
"""Partitions whose offsets are looked up one by one."""
_SHARING_OUT = frozenset({Join, Sync})
"""Requests to which the group's own configs have something to say."""


class Groups(OffsetGroups[ClassicGroup]):
    """All classic groups of this node."""

    kind = Kind.CLASSIC

    def __init__(
        self,
        node: Node,
        kinds: GroupKinds,
        catalog: Catalog,
        configs: GroupConfigs,
        watch: ClockWatch,
        following: Following,
        staged: Callable[[str], Sequence[bytes]],
        beats: Callable[[Sequence[bytes]], list[Write]],
    ) -> None:
        """`staged`, `beats`: see `OffsetGroups`."""
        super().__init__(node, kinds, following, staged, beats)
        settings = node.settings
        self._limits = Limits(
            settings.integer("group.initial.rebalance.delay.ms"), settings.integer("group.max.size")
        )
        # of a group with one member at most: nobody else is worth waiting for
        self._exclusive = Limits(0, 1)
        self._catalog = catalog
        self._configs = configs
        configs.watch(self._configured)
        self._expiry = OffsetExpiry(node, catalog, watch)

    # -- membership ------------------------------------------------------------------------------------------

    def run(self, group_id: str, event: Request) -> Any:
        """Take a request to its group. `event.token` is its Caller; returns the response, or a promise of it."""
        return after(self._loaded(group_id), lambda: self._ran(group_id, event))

    def _ran(self, group_id: str, event: Request) -> Any:
        caller: Caller = event.token
        joins = type(event) is Join and not event.member_id
        try:
            if type(event) is Join:
                self._configs.check_join(group_id)
            live = self._find_or_displace(group_id) if joins else self._find(group_id)
            limits = self._limits_of(group_id) if type(event) in _SHARING_OUT else None
        except KafkaError as error:
            code = error.code
            if code == Error.INCONSISTENT_GROUP_PROTOCOL and type(event) is not Join:
                # Nobody is a member of the classic group that there is not.
                code = Error.UNKNOWN_MEMBER_ID
            caller.answer(event.refused(code))
            return caller.result()
        if live is None:
            if joins:
                live = self._enter(self._new(group_id))
            else:
                missing = Error.GROUP_ID_NOT_FOUND if type(event) is Delete else Error.UNKNOWN_MEMBER_ID
                caller.answer(event.refused(missing))
                return caller.result()
        if limits is not None:
            live.core.limits = limits
        if type(event) is Sync and live.core.shares_out(event) and self._configs.get(group_id).failover:
            event = event._replace(assignments=self._by_failover(live.core, event.assignments))
        response = self._run(live, event)
        if type(event) is not Heartbeat:
            # Heartbeats only put off what is due: the timer will find out.
            self._arm(live)
            self._tidy(live)
        return response

    def _new(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(
            group_id, self._limits, self._node.clock.wall_ms(), self._catalog.wording(group_id)
        )

    def _limits_of(self, group_id: str) -> Limits:
        """What a group obeys as its configs are now. Raises KafkaError."""
        config = self._configs.get(group_id)
        if config.exclusive:
            return self._exclusive
        return self._limits._replace(priorities=config.priorities) if config.failover else self._limits

    def _by_failover(self, core: ClassicGroup, made: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """What the members of a group of type failover are told in place of what their leader made."""
        catalog = self._catalog
        found = ((name, catalog.get(name)) for name in core.subscribed or ())
        topics = {
            name: TopicOf(len(topic.partitions), catalog.plain_name(topic))
            for name, topic in found
            if topic is not None
        }
        return classic_failover.assignments(core, made, topics, core.limits.priorities)

    def _configured(self, group_id: str) -> None:
        """A group's configs are others now: its members share out anew if they say who comes first."""
        live = self._live.get(group_id)
        if live is None or live.core.state is State.EMPTY:
            return
        limits = self._limits_of(group_id)
        if limits.priorities != live.core.limits.priorities:
            live.core.limits = limits
            self.rebalance(group_id, "its members have other priorities")

    def rebalance(self, group_id: str, reason: str) -> None:
        """Have the members of a group share out the partitions of its topics anew, if it has any. Raises KafkaError;
        Loading.
        """
        self._told(group_id, Rebalance(reason))

    # -- as consumer groups, and back --------------------------------------------------------------------------

    def given(self, group_id: str) -> ClassicRow | None:
        """A group with members, as another kind may go on with it. None: it has none, or is not there. Raises
        KafkaError; Loading.
        """
        core = self.get(group_id)
        return core.handed_over() if core is not None and core.state is not State.EMPTY else None

    def let_go(self, group_id: str) -> None:
        """Another kind goes on with it, in the open turn: whoever waits is sent to join that."""
        live = self._live[group_id]
        self._step(live, HandOver())
        if not live.gone:
            self._part(live)

    def take(self, group_id: str, row: ClassicRow, writes: Sequence[Write]) -> None:
        """Go on with what was a group of another kind, in the open turn. `writes`: that it is this one by now."""
        core = ClassicGroup.load(
            group_id,
            row,
            self._limits_of(group_id),
            self._node.clock.monotonic_ms(),
            self._catalog.wording(group_id),
        )
        live = self._enter(core)
        self._send(live, writes, [])
        self._arm(live)

    def get(self, group_id: str) -> ClassicGroup | None:
        """The group, to look at; None if there is none. Raises KafkaError if it cannot be read; Loading."""
        live = self._find(group_id)
        if live is None or live.core.state is State.DEAD:
            return None
        return live.core

    def assignment(self, group_id: str) -> dict[str, dict[str, list[int]]]:
        """Member -> topic -> the partitions that it was given. Raises KafkaError; Loading."""
        core = self.get(group_id)
        if core is None or core.protocol_type != subscription.CONSUMER:
            return {}
        found = {member.member_id: subscription.assignment(member.assignment) for member in core.roster}
        inward = core.wording.inward
        return {
            member: {inward(topic): indexes for topic, indexes in topics.items()}
            for member, topics in found.items()
        }

    def owners(self, group_id: str, topic: Topic) -> dict[str, list[int]]:
        """Member -> the partitions of one topic that it was given. Raises KafkaError; Loading."""
        found = self.assignment(group_id)
        return {member: its for member, topics in found.items() if (its := topics.get(topic.name))}

    def somebody_reads(self, topic: str) -> bool:
        """Whether a member of any group reads a topic. Groups with members are in memory."""
        for group_id in list(self._live):
            with contextlib.suppress(KafkaError):
                if self.reads(group_id, topic):
                    return True
        return False

    def members(self, group_id: str) -> int:
        """How many members it has; 0 for what is no classic group. Raises KafkaError; Loading."""
        core = self.get(group_id)
        return len(core.roster) if core is not None else 0

    def has_member(self, group_id: str, member_id: str, instance_id: str | None) -> bool:
        """Whether it has this member, or a static one of this name. Raises KafkaError; Loading."""
        core = self.get(group_id)
        if core is None:
            return False
        return core.roster.get(member_id) is not None or (
            instance_id is not None and instance_id in core.roster.static
        )

    def stable(self, group_id: str) -> bool:
        """Whether its members have what was shared out last, and share nothing out now. Raises KafkaError; Loading."""
        core = self.get(group_id)
        return core is not None and core.state is State.STABLE

    def rebalancing(self, group_id: str) -> bool:
        """Whether its members are about to share partitions out anew. Raises KafkaError; Loading."""
        core = self.get(group_id)
        return core is not None and core.state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE)

    # -- offsets ---------------------------------------------------------------------------------------------

    def _made(self, group_id: str) -> Live[ClassicGroup]:
        return self._enter(self._new(group_id))

    def _check_commit(self, core: ClassicGroup, who: Committer, rows: Sequence[Write]) -> int:
        now = self._node.clock.monotonic_ms()
        return core.check_commit(who.member_id, who.instance_id, who.generation, now)

    def _stored_with(self, core: ClassicGroup) -> list[Write]:
        return core.store_simple()

    def committed(self, group_id: str, topic: Topic, partitions: Sequence[int]) -> list[Committed | None]:
        """What a group that is loaded has committed in a topic, None where it has not. Raises StoreError."""
        prefix = offsets.topic_prefix(offsets.group_prefix(group_id), topic.name)
        if len(partitions) > FEW and 2 * len(partitions) > len(topic.partitions):
            # most groups have nothing there: to find that out takes one look
            rows = {
                offsets.place(key).partition: offsets.decode(value)
                for key, value in self._node.store.scan(Family.OFFSET, prefix)
            }
            if not rows:
                return [None] * len(partitions)
            some = [rows.get(partition) for partition in partitions]
            return [row if row is not None and self._counts(row, topic) else None for row in some]
        get = self._node.store.get
        found: list[Committed | None] = []
        for partition in partitions:
            value = get(Family.OFFSET, prefix + offsets.key_suffix(partition)) if partition >= 0 else None
            row = offsets.decode(value) if value is not None else None
            found.append(row if row is not None and self._counts(row, topic) else None)
        return found

    def _counts(self, row: Committed, topic: Topic) -> bool:
        """Whether an offset was committed in this topic, and not in another of that name, or in messages that a
        non-persistent one had before the gateway started: there a group begins as one that has committed nothing.
        """
        if row.topic_id != topic.topic_id:
            return False
        return not topic.transient or row.offset >= first_offset(
            self._node.store.leader_epoch(topic.partitions[0])
        )

    def all_committed(self, group_id: str) -> list[tuple[Topic, list[tuple[int, Committed]]]]:
        """Everything a group that is loaded has committed in topics that exist, by topic. Raises StoreError."""
        catalog = self._catalog
        found: list[tuple[Topic, list[tuple[int, Committed]]]] = []
        name: str | None = None
        topic: Topic | None = None
        for key, value in self._node.store.scan(Family.OFFSET, offsets.group_prefix(group_id)):
            place = offsets.place(key)
            if place.topic != name:
                name = place.topic
                topic = catalog.get(name)
                if topic is not None:
                    found.append((topic, []))
            row = offsets.decode(value)
            if topic is not None and self._counts(row, topic):
                found[-1][1].append((place.partition, row))
        return [(topic, rows) for topic, rows in found if rows]

    # -- as a kind of groups -------------------------------------------------------------------------------------

    def refusal(self, group_id: str) -> KafkaError:
        """What a request for a classic group is told about a group of another kind."""
        return KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL, f"{group_id} is a group of another type.")

    def listed(self, group_id: str, head: GroupHead, row: bytes) -> Listed | None:
        """One of its groups, from its row or as it is in memory. Raises RowError."""
        live = self._live.get(group_id)
        if live is not None:
            return self._listed(live.core)
        state = State(head.state)
        members = len(group_rows.classic(row).members) if state is not State.EMPTY else 0
        return Listed(group_id, head.protocol_type or "", state.shown, self.kind, members)

    def unwritten(self) -> Iterable[Listed]:
        """Groups in memory: the first members of a new one wait before it is stored."""
        return self.each_listed(self._listed)

    def _listed(self, core: ClassicGroup) -> Listed | None:
        if core.state is State.DEAD:
            return None
        return Listed(core.group_id, core.protocol_type or "", core.state.shown, self.kind, len(core.roster))

    def reads(self, group_id: str, topic: str) -> bool:
        """Whether members of a group subscribe to a topic. Raises KafkaError."""
        core = self.get(group_id)
        return core is not None and core.subscribed is not None and topic in core.subscribed

    def deletion(self, group_id: str) -> Pending[int]:
        """Delete an empty group and its offsets: the error code, or a future of it."""
        answer: Pending[int] = self.run(group_id, Delete(Caller(lambda plain: plain.error)))
        return answer

    def sweep(self, group_id: str, head: GroupHead) -> Asking[None]:
        """Offsets expire, and an empty group without any goes, unless it has a queue topic. Raises KafkaError,
        StoreError.
        """
        if self._kinds.claimed_by_another(self.kind, group_id):
            return
        if head.state != State.EMPTY:
            # Its members may never come back, and only in memory do their sessions run out.
            yield from asking(lambda: self.get(group_id))
        core = self.look(group_id)
        if core is not None:
            rule = offsets.retention(core.protocol_type, core.state, core.since, core.subscribed)
            empty = core.state is State.EMPTY and core.idle
        else:
            rule = offsets.retention(head.protocol_type, State(head.state), head.since, None)
            empty = head.state == State.EMPTY
        none_left = yield from self._expiry.expire(group_id, rule, lambda: self.busy(group_id))
        if none_left and empty:
            yield from asking(lambda: check_loaded(self._node.store, of_group(group_id)))
            # offsets expire, and its subscription does not
            none_left = not self._following.serves(group_id)
        if none_left and empty and not self.busy(group_id) and not self._staged(group_id):
            log.info("group %s has no members and no offsets any more: deleted", group_id)
            self.deletion(group_id)

    # -- in memory and out -----------------------------------------------------------------------------------

    def _load(self, group_id: str, row: bytes) -> ClassicGroup:
        now = self._node.clock.monotonic_ms()
        wording = self._catalog.wording(group_id)
        return ClassicGroup.load(group_id, group_rows.classic(row), self._limits_of(group_id), now, wording)

    def close(self) -> None:
        """The gateway stops: nobody waits any longer for others to join or sync."""
        for live in list(self._live.values()):
            for caller, event in list(live.waiting.items()):
                if type(event) is not OffsetWrites:
                    caller.answer(event.refused(Error.COORDINATOR_NOT_AVAILABLE))
                    del live.waiting[caller]
