"""Consumer groups of KIP-848 at work: heartbeats into the machines of `coordinators.consumer_group`. What is
theirs of the classic protocol: `mixed_groups`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.broker.group_kinds import Listed
from gateway.broker.group_offsets import Committer, Following
from gateway.broker.loading import after, asking, check_loaded
from gateway.broker.machines import Caller, Live
from gateway.broker.mixed_groups import ClassicGroups, MixedGroups
from gateway.broker.offset_expiry import OffsetExpiry
from gateway.coordinators import (
    consumer_rows,
    group_rows,
    offsets,
)
from gateway.coordinators.classic_events import Delete
from gateway.coordinators.consumer_events import (
    Beat,
    Heartbeat,
    Leave,
    Partition,
)
from gateway.coordinators.consumer_rows import ConsumerMemberRow
from gateway.coordinators.group_rows import GroupHead, Kind, State
from gateway.coordinators.mixed_group import MixedGroup
from gateway.rights import UNCHECKED, Rights
from gateway.wire.errors import Error
from store.api import Family, Put, Write, of_group
from store.pending import Asking, Pending

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.clock_watch import ClockWatch
    from gateway.broker.group_configs import GroupConfigs
    from gateway.broker.group_kinds import GroupKinds
    from gateway.broker.node import Node

log = logging.getLogger("magnetar.groups")


class Beating(NamedTuple):
    """A ConsumerGroupHeartbeat. What is None, or -1 for the timeout, is as it was."""

    group_id: str
    member_id: str
    epoch: int
    """0 to join, -1 to leave, -2 to leave and come back"""
    instance_id: str | None
    rack: str | None
    rebalance_timeout: int
    names: tuple[str, ...] | None
    pattern: str | None
    """a regular expression beside the names; "": none"""
    assignor: str | None
    owned: frozenset[Partition] | None
    client: tuple[str, str]
    """host and client id"""
    caller: Caller
    rights: Rights = UNCHECKED
    """of the member, which say what of its regular expression it is told"""


class ConsumerGroups(MixedGroups):
    """All consumer groups of this node."""

    kind = Kind.CONSUMER

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
        classic: ClassicGroups,
    ) -> None:
        """What is handed in: see `MixedGroups`."""
        super().__init__(node, kinds, catalog, configs, following, staged, beats, classic)
        self._expiry = OffsetExpiry(node, catalog, watch)

    # -- membership --------------------------------------------------------------------------------------------------

    def heartbeat(self, beating: Beating) -> Any:
        """A heartbeat with an epoch of 0 or above; the answer is a Beat. Returns the response or an awaitable."""
        return after(self._loaded(beating.group_id), lambda: self._heartbeat(beating))

    def _heartbeat(self, beating: Beating) -> Any:
        group_id, caller, names = beating.group_id, beating.caller, beating.names
        try:
            if beating.epoch == 0:
                self._configs.check_join(group_id)
            live, core, writes = self._found(beating)
            if names:
                self._check_named(core, beating.member_id, names)
            if beating.pattern:
                self._check_pattern(core, beating.pattern)
            self._heed(core, beating.member_id, beating.pattern, beating.rights)
            ready = self._patterns_ready(core, beating.pattern)
            if ready is not None:
                return after(ready, lambda: self._heartbeat(beating))
            config = self._configs.get(group_id)
        except KafkaError as error:
            caller.answer(Beat(error.code, error.text))
            return caller.result()
        core.limits = self._limits_of(config)
        host, client_id = beating.client
        if beating.assignor is not None and beating.assignor not in core.limits.assignors:
            # clients end with that
            log.info(
                "a member is refused: group.remote.assignor is none of %s",
                ", ".join(core.limits.assignors),
                extra={"group": group_id, "client": host, "client_id": client_id},
            )
        event = Heartbeat(
            caller,
            beating.member_id,
            beating.epoch,
            beating.instance_id,
            client_id,
            host,
            beating.rack,
            beating.rebalance_timeout,
            names,
            beating.pattern,
            beating.assignor,
            beating.owned,
            *self._seen(core, names, beating.pattern),
            config.consumer_session_timeout_ms,
            config.consumer_heartbeat_interval_ms,
        )
        if live is None:
            if writes and (refusal := core.refusal(event)) is not None:
                # the group stays as it is for one that is not let in
                caller.answer(refusal)
                return caller.result()
            live = self._entered(core, writes)
        response = self._run(live, event)
        self._arm(live)
        if beating.epoch == 0:
            self._tidy(live)
        return response

    def _found(self, beating: Beating) -> tuple[Live[MixedGroup] | None, MixedGroup, list[Write]]:
        """The group of a heartbeat. Of one that joins it may be new, or made of a classic group: then it is not in
        memory yet, and what makes it one is to be stored with it. Raises KafkaError; Loading.
        """
        group_id = beating.group_id
        if beating.epoch:
            try:
                live = self._find(group_id)
            except KafkaError as error:
                if error.code != Error.GROUP_ID_NOT_FOUND or not self._may_come_back(group_id):
                    raise
                live = None
            if live is None:
                raise _no_member(beating)
            return live, live.core, []
        try:
            live = self._find_or_displace(group_id)
        except KafkaError as error:
            made = self._made_of_classic(group_id) if error.code == Error.GROUP_ID_NOT_FOUND else None
            if made is None:
                raise
            return None, *made
        if live is not None:
            return live, live.core, []
        wall, wording = self._node.clock.wall_ms(), self._catalog.wording(group_id)
        return None, MixedGroup(group_id, self._limits, wall, wording), []

    def leave(self, beating: Beating) -> Any:
        """A heartbeat with epoch -1 or -2; the answer is a Beat."""
        return after(self._loaded(beating.group_id), lambda: self._left(beating))

    def _left(self, beating: Beating) -> Any:
        caller = beating.caller
        try:
            live = self._find(beating.group_id)
            if live is None:
                raise _no_member(beating)
        except KafkaError as error:
            caller.answer(Beat(error.code, error.text))
            return caller.result()
        response = self._run(live, Leave(caller, beating.member_id, beating.instance_id, beating.epoch))
        self._tidy(live)
        return response

    def _check_pattern(self, core: MixedGroup, text: str) -> None:
        """Raises KafkaError for what is no regular expression, or one too many."""
        try:
            self._patterns.check(core.group_id, text, core.patterns())
        except KafkaError as error:
            # librdkafka does not show the sentence
            log.warning("a member of consumer group %s is refused: %s", core.group_id, error)
            raise

    # -- offsets -----------------------------------------------------------------------------------------------------

    def _made(self, group_id: str) -> None:
        return None

    def _check_commit(self, core: MixedGroup, who: Committer, rows: Sequence[Write]) -> int:
        def places() -> frozenset[Partition]:
            puts = [row for row in rows if isinstance(row, Put) and row.family is Family.OFFSET]
            return frozenset(
                [(offsets.decode(row.value).topic_id, offsets.place(row.key).partition) for row in puts]
            )

        return core.check_commit(who.member_id, who.generation, places, old=who.old)

    def _stored_with(self, core: MixedGroup) -> list[Write]:
        return []

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> int:
        """The error code for a member that asks for committed offsets; 0 if it may. The group must be loaded."""
        try:
            group = self.get(group_id)
        except KafkaError as error:
            return error.code
        return group.check_fetch(member_id, epoch) if group is not None else 0

    # -- what others ask ---------------------------------------------------------------------------------------------

    def get(self, group_id: str) -> MixedGroup | None:
        """The group, to look at; None if there is none.

        Raises KafkaError: GROUP_ID_NOT_FOUND if it is of another type; Loading.
        """
        live = self._find(group_id)
        return None if live is None or live.core.state is State.DEAD else live.core

    def members(self, group_id: str) -> int:
        """How many members it has; 0 for what is no consumer group. Raises Loading."""
        if self._kinds.claimed_by_another(self.kind, group_id):
            return 0
        check_loaded(self._node.store, of_group(group_id))
        with contextlib.suppress(KafkaError):
            group = self.get(group_id)
            return len(group.members) if group is not None else 0
        return 0

    def has_member(self, group_id: str, member_id: str, instance_id: str | None) -> bool:
        """Whether it has this member, or a static one of this name. Raises KafkaError; Loading."""
        group = self.get(group_id)
        return group is not None and (member_id in group.members or instance_id in group.static)

    def owners(self, group_id: str, topic: Topic) -> dict[str, list[int]]:
        """See `ConsumerState.owners`. Raises KafkaError; Loading."""
        group = self.get(group_id)
        return group.owners(topic.topic_id, len(topic.partitions)) if group is not None else {}

    def assignment(self, group_id: str) -> dict[str, dict[str, list[int]]]:
        """Member -> topic -> the partitions that it has. Raises KafkaError; Loading."""
        group = self.get(group_id)
        if group is None:
            return {}
        names = {view.topic_id: name for name, view in group.topics.items()}
        return {
            member.member_id: {
                names[topic]: indexes
                for topic, indexes in consumer_rows.by_topic(member.assigned)
                if topic in names
            }
            for member in group.members.values()
        }

    def somebody_reads(self, topic: str) -> bool:
        """Whether a member of any group reads a topic. Groups with members are in memory."""
        return any(live.core.subscribes_to(topic) for live in self._live.values())

    # -- as a kind of groups -----------------------------------------------------------------------------------------

    def refusal(self, group_id: str) -> KafkaError:
        """What a request for a consumer group is told about a group of another kind."""
        return KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def listed(self, group_id: str, head: GroupHead, row: bytes) -> Listed | None:
        """One of its groups, from its row or as it is in memory. Raises RowError."""
        live = self._live.get(group_id)
        if live is not None:
            return self._listed(live.core)
        state = State(head.state)
        members = consumer_rows.group(row).size if state is not State.EMPTY else 0
        return Listed(group_id, head.protocol_type or "", state.shown, self.kind, members)

    def unwritten(self) -> Iterable[Listed]:
        """Groups in memory: their rows may still be those of other kinds."""
        return self.each_listed(lambda core: self._listed(core) if core.stored else None)

    def _listed(self, core: MixedGroup) -> Listed | None:
        if core.state is State.DEAD:
            return None
        return Listed(core.group_id, "consumer", core.state.shown, self.kind, len(core.members))

    def reads(self, group_id: str, topic: str) -> bool:
        """Whether members of a group subscribe to a topic. Raises KafkaError."""
        group = self.get(group_id)
        return group is not None and group.subscribes_to(topic)

    def deletion(self, group_id: str) -> Pending[int]:
        """Delete an empty group and its offsets: the error code, or a future of it."""
        caller = Caller(lambda plain: plain.error)
        try:
            live = self._find(group_id)
        except KafkaError as error:
            return error.code
        if live is None:
            return Error.GROUP_ID_NOT_FOUND
        answer: Pending[int] = self._run(live, Delete(caller))
        self._tidy(live)
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
        # A member's partitions come and go with its heartbeats; what it subscribes to is its own all the while.
        if core is None or not core.members:
            since = head.since if core is None else core.since
            rule, empty = offsets.Retention(since, None), head.state == State.EMPTY or core is not None
        else:
            rule, empty = offsets.Retention(None, frozenset(core.subscribed())), False
        none_left = yield from self._expiry.expire(group_id, rule, lambda: self.busy(group_id))
        if none_left and empty:
            yield from asking(lambda: check_loaded(self._node.store, of_group(group_id)))
            # offsets expire, and its subscription does not
            none_left = not self._following.serves(group_id)
        if none_left and empty and not self.busy(group_id) and not self._staged(group_id):
            log.info("group %s has no members and no offsets any more: deleted", group_id)
            self.deletion(group_id)

    # -- in memory and out -------------------------------------------------------------------------------------------

    def _load(self, group_id: str, row: bytes) -> MixedGroup:
        found = consumer_rows.group(row)
        members: Iterable[ConsumerMemberRow] = (
            [
                consumer_rows.member(value)
                for _, value in self._node.store.scan(Family.MEMBER, group_rows.members_prefix(group_id))
            ]
            if found.size
            else []
        )
        return self._loaded_from(group_id, found, members)


def _no_member(beating: Beating) -> KafkaError:
    """There is no such group. Clients join again, where they would give up for ever at GROUP_ID_NOT_FOUND."""
    text = f"Member {beating.member_id} is not a member of group {beating.group_id}."
    return KafkaError(Error.UNKNOWN_MEMBER_ID, text)
