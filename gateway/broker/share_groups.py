"""Share groups at work: heartbeats into the machines of `coordinators.share_group`, their subscriptions made.

A heartbeat that brings a topic into the group is answered when the group has its subscription there, so that
nothing published from then on is missed, and the answer is an assignment that can be fetched at once.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from gateway.broker.errors import KafkaError, from_code
from gateway.broker.group_kinds import Listed
from gateway.broker.loading import after, asking, check_loaded, until_loaded, when_loaded
from gateway.broker.machines import Caller, Live, Machines
from gateway.broker.share_admission import Admission, Beating, Connected, Read
from gateway.broker.share_sessions import Client
from gateway.broker.share_topics import Making, ShareTopics
from gateway.coordinators import group_rows
from gateway.coordinators.classic_events import Delete, Plain
from gateway.coordinators.group_rows import GroupHead, Kind, RowError, State
from gateway.coordinators.share_events import Beat, Gone, Heartbeat, Leave, Make
from gateway.coordinators.share_group import ShareGroup
from gateway.wire.errors import Error
from store.api import Family, StoreError, of_group
from store.pending import Asking, Pending

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.group_configs import GroupConfigs
    from gateway.broker.group_kinds import GroupKinds
    from gateway.broker.node import Node
    from gateway.config.group_configs import GroupConfig

log = logging.getLogger("magnetar.groups")

_MOST_WAITING = 1_000
"""Groups and reasons that the log has already"""


class Subscribing(Making, Read, Protocol):
    """The subscriptions of groups, as far as membership is concerned with them."""

    def member_gone(self, group: str, member: str, *, graceful: bool = False) -> None:
        """What a member held goes on to others."""
        ...


class Sessions(Connected, Protocol):
    """The connections of members."""

    def beat(self, group: str, member: str, connection: int, client: Client, /) -> None: ...


class ShareGroups(Machines[ShareGroup]):
    """All share groups of this node."""

    kind = Kind.SHARE

    def __init__(
        self,
        node: Node,
        kinds: GroupKinds,
        catalog: Catalog,
        configs: GroupConfigs,
        subscriptions: Subscribing,
        sessions: Sessions,
    ) -> None:
        super().__init__(node, kinds)
        self._catalog = catalog
        self._topics = ShareTopics(catalog, subscriptions)
        self._configs = configs
        self._subscriptions = subscriptions
        self._sessions = sessions
        self._admission = Admission(node, catalog, subscriptions, sessions)
        self._max_size = node.settings.integer("group.share.max.size")
        # see `several_plain`: by group, in which epoch that was so
        self._several: dict[str, tuple[int, bool]] = {}
        # groups that waited for a subscription, and why, as the log has it
        self._waiting: dict[tuple[str, str], None] = {}

    # -- membership --------------------------------------------------------------------------------------------------

    def heartbeat(self, beating: Beating, makes: Callable[[str], bool] | None = None) -> Any:
        """A heartbeat with an epoch of 0 or above; the answer is a Beat. Returns the response or an awaitable.

        `makes` says which topics its client may make: RETRY topics that it names and that are missing are made. None:
        they have been seen to, which took a while.
        """
        return after(self._loaded(beating.group_id), lambda: self._heartbeat(beating, makes))

    def _heartbeat(self, beating: Beating, makes: Callable[[str], bool] | None) -> Any:
        group_id, member_id, epoch, names, rack, client, connection, caller = beating
        try:
            live = self._find(group_id)
            if live is None and epoch != 0:
                raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
            if epoch == 0:
                self._configs.check_join(group_id)
            config = self._configs.get(group_id)
            self._admission.check(beating, live.core if live is not None else None)
            self._topics.check_homes(group_id, names or ())
            if live is None:
                # one that is stored keeps its id from consumer groups, also when its member has come in vain
                self._topics.check_ensure(group_id, names or ())
        except KafkaError as error:
            caller.answer(Beat(error.code, error.text))
            return caller.result()
        if makes is not None and (retries := self._missing_retries(beating, live, makes)):
            return self._with_retries(beating, retries)
        if live is None:
            live = self._enter(ShareGroup(group_id, self._max_size, self._node.clock.wall_ms()))
        core, version = live.core, self._topics.version
        core.max_size = self._most(config)
        topics, subscribed, before = None, frozenset[str](), core.topics
        if names is not None:
            self._topics.tell_patterns(group_id, member_id, names)
        if names is not None or core.seen != version:
            subscribed = core.subscribed()
            topics = self._topics.views(group_id, subscribed.union(names or ()))
        host, client_id = client
        event = Heartbeat(
            caller,
            member_id,
            epoch,
            client_id,
            host,
            rack,
            names,
            topics,
            version,
            config.session_timeout_ms,
            config.heartbeat_interval_ms,
        )
        response = self._run(live, event)
        if makes is not None and member_id in core.members:
            # else its connection may be gone by now; the next heartbeat says so again
            self._sessions.beat(group_id, member_id, connection, client)
        if epoch == 0 or live.due is None:
            # Later heartbeats only put off what is due: the timer will find out.
            self._arm(live)
            self._tidy(live)
        if not live.gone and (missing := self._topics.missing(group_id, core.topics, before, subscribed)):
            made = self._topics.ensure(group_id, missing)
            return self._with_subscriptions(beating, made, response)
        return response

    async def _with_subscriptions(self, beating: Beating, made: Awaitable[None], response: Any) -> Any:
        """The response once the group has its subscriptions."""
        try:
            await made
        except KafkaError as error:
            self._tell_waiting(beating.group_id, str(error))
            # what a policy forbids does not become right by trying again
            final = error.code == Error.POLICY_VIOLATION
            if final and beating.epoch == 0:
                self._turn_away(beating)
            code = error.code if final else Error.COORDINATOR_NOT_AVAILABLE
            return beating.caller.build(Beat(code, str(error)))
        return await response if isinstance(response, Awaitable) else response

    def _tell_waiting(self, group_id: str, why: str) -> None:
        """Once for each reason: its members ask again with each heartbeat."""
        if (group_id, why) in self._waiting:
            return
        log.warning("share group %s has no subscription yet: %s", group_id, why)
        self._waiting[group_id, why] = None
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def _most(self, config: GroupConfig) -> int:
        """Members that a group of that configuration may have."""
        return 1 if config.exclusive else self._max_size

    def _missing_retries(
        self, beating: Beating, live: Live[ShareGroup] | None, makes: Callable[[str], bool]
    ) -> list[tuple[str, str]]:
        """(base topic, RETRY topic) for those RETRY topics of its own group that a member names and may make, and that
        are missing while their base is there. Nothing for who is no member and does not become one.
        """
        named = self._topics.missing_retries(beating.group_id, beating.names or ())
        missing = [(base, name) for base, name in named if makes(name)]
        if not missing:
            return []
        if live is not None and beating.member_id not in live.core.members:
            most = self._most(self._configs.get(beating.group_id))
            welcome = beating.epoch == 0 and len(live.core.members) < most
        else:
            welcome = live is not None or beating.epoch == 0
        return missing if welcome else []

    async def _with_retries(self, beating: Beating, retries: list[tuple[str, str]]) -> Any:
        """A heartbeat's answer, once the RETRY topics that it names are there."""
        await self._topics.make_retries(beating.group_id, retries)
        response = self.heartbeat(beating)
        return await response if isinstance(response, Awaitable) else response

    def _turn_away(self, beating: Beating) -> None:
        """One that has come in vain is no member: its client gives up without a word, and would hold a place of others
        for as long as its session lasts.
        """
        live = self._find(beating.group_id)
        if live is not None and beating.member_id in live.core.members:
            self._run(live, Leave(Caller(lambda beat: beat), beating.member_id))
            self._tidy(live)

    def leave(self, beating: Beating) -> Any:
        """A heartbeat with epoch -1; the answer is a Beat."""
        return after(self._loaded(beating.group_id), lambda: self._left(beating))

    def _left(self, beating: Beating) -> Any:
        group_id, caller = beating.group_id, beating.caller
        try:
            live = self._find(group_id)
            if live is None:
                raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            self._admission.check_client(beating, live.core)
        except KafkaError as error:
            caller.answer(Beat(error.code, error.text))
            return caller.result()
        response = self._run(live, Leave(caller, beating.member_id))
        self._tidy(live)
        return response

    def _happen(self, core: ShareGroup, effect: Any) -> None:
        assert type(effect) is Gone
        self._subscriptions.member_gone(core.group_id, effect.member_id, graceful=effect.graceful)

    def _stepped(self, core: ShareGroup, before: State) -> None:
        if core.state is State.STABLE and before is not State.STABLE:
            self._node.metrics.rebalances.inc()

    def load(self, group_id: str) -> Pending[None]:
        """Until the group's members are known."""
        return self._loaded(group_id)

    # -- administrators ----------------------------------------------------------------------------------------------

    def get(self, group_id: str) -> ShareGroup | None:
        """The group, to look at; None if there is none.

        Raises KafkaError: GROUP_ID_NOT_FOUND if it is of another type; Loading.
        """
        live = self._find(group_id)
        return None if live is None or live.core.state is State.DEAD else live.core

    def members(self, group_id: str) -> int:
        """How many members it has; 0 for what is no share group. An empty group is not taken into memory for that.
        Raises Loading.
        """
        if group_id not in self._live:
            check_loaded(self._node.store, of_group(group_id))
            with contextlib.suppress(StoreError, RowError):
                row = self._node.store.get(Family.GROUP, group_rows.key(group_id))
                if row is None or group_rows.head(row).state == State.EMPTY:
                    return 0
        with contextlib.suppress(KafkaError):
            group = self.get(group_id)
            return len(group.members) if group is not None else 0
        return 0

    def members_on(self, group_id: str, topic: str) -> int:
        """How many members of a share group subscribe to a topic. Raises Loading."""
        if not self.members(group_id):
            return 0
        with contextlib.suppress(KafkaError):
            group = self.get(group_id)
            if group is not None:
                return group.readers(topic)
        return 0

    def several_plain(self, group_id: str) -> bool:
        """Whether members subscribe to more than one topic without partitions, as Pulsar has them."""
        live = self._live.get(group_id)
        if live is None:
            return False
        core = live.core
        known = self._several.get(group_id)
        if known is None or known[0] != core.epoch:
            get, plain_name = self._catalog.get, self._catalog.plain_name
            topics = (get(name) for name in core.topics)
            count = sum(topic is not None and plain_name(topic) is not None for topic in topics)
            known = self._several[group_id] = core.epoch, count > 1
        return known[1]

    def client_id(self, group_id: str, member_id: str) -> str:
        """The client id of a member; "" for what is no member."""
        with contextlib.suppress(KafkaError):
            group = self.get(group_id)
            member = group.members.get(member_id) if group is not None else None
            return member.client_id if member is not None else ""
        return ""

    async def make(self, group_id: str) -> None:
        """Have the group, empty if it is new. Raises KafkaError."""
        await stored(when_loaded(lambda: self.made(group_id)))

    def made(self, group_id: str) -> Pending[Plain]:
        """Have the group, empty if it is new, in the open turn: the answer when it is stored. What else is put into
        that turn is stored with it. Raises KafkaError; Loading.
        """
        live = self._find(group_id)
        if live is None:
            live = self._enter(ShareGroup(group_id, self._max_size, self._node.clock.wall_ms()))
        elif live.core.state is State.DEAD:
            raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE, f"Group {group_id} is being deleted.")
        asked: Pending[Plain] = self._run(live, Make(Caller(lambda answer: answer)))
        return asked

    async def delete(self, group_id: str) -> None:
        """Delete the group and its subscriptions. Raises KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
        async with self.kept_empty(group_id) as live:
            await self.delete_subscriptions(group_id, None)
            await self._delete(live)
        self._tidy(live)

    async def delete_subscriptions(
        self, group_id: str, topic: Topic | None, with_it: Callable[[], None] = lambda: None
    ) -> None:
        """Drop the group's subscription of a topic, or all; inside `kept_empty`. `with_it` is as `Subscriptions.delete`
        has it. Raises KafkaError.
        """
        await self._topics.delete(group_id, topic, with_it)

    def unsubscribed(self, group_id: str, topic: Topic) -> None:
        """A subscription was deleted together with its lanes."""
        self._topics.forget(group_id, topic)

    @contextlib.asynccontextmanager
    async def kept_empty(self, group_id: str) -> AsyncIterator[Live[ShareGroup]]:
        """A group without members, and nobody joins meanwhile.

        Raises KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND (none, or of another type).
        """
        live = await until_loaded(lambda: self._find(group_id))
        if live is None or live.core.state is State.DEAD:
            raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if live.core.members:
            raise KafkaError(Error.NON_EMPTY_GROUP, "The group is not empty.")
        with self._admission.closed(group_id):
            live.used = True
            yield live

    @contextlib.asynccontextmanager
    async def giving_way(self, group_id: str) -> AsyncIterator[None]:
        """There is no share group of that id meanwhile: an empty one is deleted, and its subscriptions stay, for who
        serves them then. Raises KafkaError NON_EMPTY_GROUP while it has members.
        """
        with self._admission.closed(group_id):
            try:
                live = await until_loaded(lambda: self._find(group_id))
            except KafkaError as error:
                if error.code != Error.GROUP_ID_NOT_FOUND:
                    raise
                # a group of consumers has the id
                live = None
            if live is not None and live.core.members:
                raise KafkaError(
                    Error.NON_EMPTY_GROUP,
                    f"Subscription {group_id} has consumers of a share group: one is served by share groups or by "
                    "lanes. Stop them first.",
                )
            if live is not None and live.core.state is not State.DEAD:
                await self._delete(live)
                self._tidy(live)
            yield

    async def _delete(self, live: Live[ShareGroup]) -> None:
        """Raises KafkaError."""
        await stored(self._run(live, Delete(Caller(lambda answer: answer))))

    # -- as a kind of groups -----------------------------------------------------------------------------------------

    def refusal(self, group_id: str) -> KafkaError:
        """What a request for a share group is told about a group of another kind."""
        return KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")

    def listed(self, group_id: str, head: GroupHead, row: bytes) -> Listed | None:
        """One of its groups, from its row, which says it all. Raises RowError."""
        state, members = State(head.state), 0
        if state is not State.EMPTY:
            found = group_rows.share(row)
            members = found.size + len(found.members)
        return Listed(group_id, head.protocol_type or "", state.shown, self.kind, members)

    def unwritten(self) -> Iterable[Listed]:
        """None: a share group is there when its row is."""
        return ()

    def reads(self, group_id: str, topic: str) -> bool:
        """Whether members of a group subscribe to a topic. Raises KafkaError."""
        group = self.get(group_id)
        return group is not None and topic in group.subscribed()

    def yields(self, group_id: str) -> bool:
        """Never: its subscriptions hold what it has not read."""
        return False

    def deletion(self, group_id: str) -> Awaitable[int]:
        """Delete an empty group and its subscriptions: a future of the error code."""
        return self._node.loop.create_task(self._deletion(group_id))

    async def _deletion(self, group_id: str) -> int:
        try:
            await self.delete(group_id)
        except KafkaError as error:
            return error.code
        return Error.NONE

    def sweep(self, group_id: str, head: GroupHead) -> Asking[None]:
        """It commits no offsets, and stays until it is deleted: its subscriptions hold what it has not read. But its
        members may never come back, and only in memory do their sessions run out. Raises KafkaError.
        """
        if head.state != State.EMPTY:
            yield from asking(lambda: self.get(group_id))

    # -- in memory and out -------------------------------------------------------------------------------------------

    def _load(self, group_id: str, row: bytes) -> ShareGroup:
        timeout = self._configs.get(group_id).session_timeout_ms
        now = self._node.clock.monotonic_ms()
        found = group_rows.share(row)
        members = (
            [
                group_rows.share_member(value)
                for _, value in self._node.store.scan(Family.MEMBER, group_rows.members_prefix(group_id))
            ]
            if found.size
            else []
        )
        return ShareGroup.load(group_id, found, members, self._max_size, timeout, now)

    def _enter(self, core: ShareGroup) -> Live[ShareGroup]:
        self._topics.enter(core.group_id)
        return super()._enter(core)

    def _leave(self, live: Live[ShareGroup]) -> None:
        super()._leave(live)
        self._several.pop(live.core.group_id, None)
        self._topics.leave(live.core.group_id)


async def stored(asked: Pending[Plain]) -> None:
    """Until what was asked of a group is stored. Raises KafkaError with the error of the answer, if it has one."""
    answer = await asked if isinstance(asked, Awaitable) else asked
    if answer.error:
        raise from_code(answer.error)
