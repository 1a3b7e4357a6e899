"""Share groups at work: heartbeats into the machines of `coordinators.share_group`, their subscriptions made.

A heartbeat that brings a topic into the group is answered when the group has its subscription there, so that
nothing published from then on is missed, and the answer is an assignment that can be fetched at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gateway.broker.errors import KafkaError, from_code
from gateway.broker.group_kinds import Listed
from gateway.broker.loading import after, asking, check_loaded, until_loaded
from gateway.broker.machines import Caller, Live, Machines
from gateway.broker.share_sessions import Client
from gateway.broker.subscriptions import letter_names
from gateway.config.group_configs import GroupConfig
from gateway.config.group_table import KEY_SHARED, STICKY
from gateway.coordinators import group_rows
from gateway.coordinators.classic_events import Delete, Plain
from gateway.coordinators.group_rows import GroupHead, Kind, RowError, State
from gateway.coordinators.share_events import Beat, Gone, Heartbeat, Leave, Make, TopicView
from gateway.coordinators.share_group import ShareGroup
from gateway.wire.errors import Error
from store.api import Family, StoreError, of_group
from store.pending import Asking, Pending

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.group_configs import GroupConfigs
    from gateway.broker.group_kinds import GroupKinds
    from gateway.broker.node import Node

log = logging.getLogger("magnetar.groups")


class ConfigsOn(Protocol):
    """What a group's configs come to on a topic."""

    def on(self, group: str, topic: str, /) -> GroupConfig: ...


class Subscribing(Protocol):
    """The subscriptions of groups, as far as membership is concerned with them. All raise KafkaError."""

    @property
    def configs(self) -> ConfigsOn: ...

    async def ensure(self, group: str, topic: str, starts: Sequence[int] | None = None) -> object:
        """The group's subscription on a topic, made if it is missing."""
        ...

    async def make_retries(self, group: str, topic: str, retries: str, /) -> None:
        """Make the RETRY topic of a group on a topic."""
        ...

    async def delete(self, group: str, topic_id: bytes | None = None) -> int:
        """Delete a group's subscriptions, or the one on a topic."""
        ...

    def member_gone(self, group: str, member: str, *, graceful: bool = False) -> None:
        """What a member held goes on to others."""
        ...


class Connected(Protocol):
    """Who is there to speak for a member."""

    def beat(self, group: str, member: str, connection: int, client: Client, /) -> None: ...

    def has_connection(self, group: str, member: str, client: Client, /) -> bool: ...


class _Known:
    """What has been seen to on behalf of a group in memory."""

    __slots__ = ("closing", "ensured", "ensuring", "younger")

    def __init__(self) -> None:
        # topics with a subscription, as they were when it was made
        self.ensured: dict[str, TopicView] = {}
        self.ensuring: dict[tuple[str, TopicView], asyncio.Future[None]] = {}
        # topics that were made after members had subscribed to them
        self.younger: set[str] = set()
        # administrators at work who need it empty: nobody joins meanwhile
        self.closing = 0


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
        sessions: Connected,
    ) -> None:
        super().__init__(node, kinds)
        self._catalog = catalog
        self._configs = configs
        self._subscriptions = subscriptions
        self._sessions = sessions
        self._max_size = node.settings.integer("group.share.max.size")
        self._known: dict[str, _Known] = {}

    # -- membership --------------------------------------------------------------------------------------------------

    def heartbeat(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        names: tuple[str, ...] | None,
        rack: str | None,
        client_id: str,
        client_host: str,
        connection: int,
        caller: Caller,
        *,
        makes_retries: bool = True,
    ) -> Any:
        """A heartbeat with an epoch of 0 or above; the answer is a Beat. Returns the response or an awaitable.

        `makes_retries` False: RETRY topics that are missing have been seen to.
        """
        return after(
            self._loaded(group_id),
            lambda: self._heartbeat(
                group_id,
                member_id,
                epoch,
                names,
                rack,
                client_id,
                client_host,
                connection,
                caller,
                makes_retries=makes_retries,
            ),
        )

    def _heartbeat(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        names: tuple[str, ...] | None,
        rack: str | None,
        client_id: str,
        client_host: str,
        connection: int,
        caller: Caller,
        *,
        makes_retries: bool,
    ) -> Any:
        try:
            live = self._find(group_id)
            if live is None and epoch != 0:
                raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
            config = self._configs.get(group_id)
            self._check_client(group_id, live, member_id, (client_host, client_id))
            if epoch == 0:
                self._check_join(group_id, live, names, member_id, client_id)
        except KafkaError as error:
            caller.answer(Beat(error.code, error.text))
            return caller.result()
        retries = self._missing_retries(group_id, live, epoch, member_id, names) if makes_retries else []
        if retries:
            return self._with_retries(
                retries, group_id, member_id, epoch, names, rack, client_id, client_host, connection, caller
            )
        if live is None:
            live = self._enter(ShareGroup(group_id, self._max_size, self._node.clock.wall_ms()))
        known, core, version = self._known[group_id], live.core, self._catalog.version
        topics, subscribed, before = None, frozenset[str](), core.topics
        if names is not None or core.seen != version:
            subscribed = core.subscribed()
            topics = self._topics(subscribed.union(names or ()))
        event = Heartbeat(
            caller,
            member_id,
            epoch,
            client_id,
            client_host,
            rack,
            names,
            topics,
            version,
            config.session_timeout_ms,
            config.heartbeat_interval_ms,
        )
        response = self._run(live, event)
        if makes_retries and member_id in core.members:
            # else its connection may be gone by now; the next heartbeat says so again
            self._sessions.beat(group_id, member_id, connection, (client_host, client_id))
        if epoch == 0 or live.due is None:
            # Later heartbeats only put off what is due: the timer will find out.
            self._arm(live)
            self._tidy(live)
        missing = [item for item in core.topics.items() if known.ensured.get(item[0]) != item[1]]
        if missing and not live.gone:
            known.younger |= {
                name for name, view in missing if name in subscribed and before.get(name) != view
            }
            return self._with_subscriptions(group_id, known, missing, caller, response)
        return response

    def leave(self, group_id: str, member_id: str, client_id: str, client_host: str, caller: Caller) -> Any:
        """A heartbeat with epoch -1; the answer is a Beat."""
        return after(
            self._loaded(group_id), lambda: self._left(group_id, member_id, client_id, client_host, caller)
        )

    def _left(self, group_id: str, member_id: str, client_id: str, client_host: str, caller: Caller) -> Any:
        try:
            live = self._find(group_id)
            if live is None:
                raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            self._check_client(group_id, live, member_id, (client_host, client_id))
        except KafkaError as error:
            caller.answer(Beat(error.code, error.text))
            return caller.result()
        response = self._run(live, Leave(caller, member_id))
        self._tidy(live)
        return response

    def _check_client(
        self, group_id: str, live: Live[ShareGroup] | None, member_id: str, client: Client
    ) -> None:
        """Raises KafkaError when the member is another client's that is still there: nobody else speaks for it."""
        member = live.core.members.get(member_id) if live is not None else None
        if member is None or (member.client_host, member.client_id) == client:
            return
        if self._sessions.has_connection(group_id, member_id, (member.client_host, member.client_id)):
            raise KafkaError(
                Error.FENCED_MEMBER_EPOCH, f"Member {member_id} of group {group_id} is another client's."
            )

    def _check_join(
        self,
        group_id: str,
        live: Live[ShareGroup] | None,
        names: tuple[str, ...] | None,
        member_id: str,
        client_id: str,
    ) -> None:
        """Raises KafkaError when nobody may join now, or not this one."""
        if live is not None and self._known[group_id].closing:
            raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE, f"Group {group_id} is being changed.")
        for topic in names or ():
            config = self._subscriptions.configs.on(group_id, topic)
            self._check_ranges(group_id, live, config, member_id, client_id)

    def _check_ranges(
        self,
        group_id: str,
        live: Live[ShareGroup] | None,
        config: GroupConfig,
        member_id: str,
        client_id: str,
    ) -> None:
        """Raises KafkaError when a subscription deals its slots by ranges, and this member has none of its own."""
        if config.subscription.type != KEY_SHARED or config.mode != STICKY or member_id in config.ranges:
            return
        # Pulsar turns away a consumer without ranges, and one whose ranges another has.
        if client_id not in config.ranges:
            raise KafkaError(
                Error.INVALID_REQUEST,
                f"Group {group_id} has sticky ranges, and pulsar.key.shared.ranges has none for member {member_id} or "
                f"client {client_id}.",
            )
        if live is None:
            return
        for other in live.core.members.values():
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

    def _missing_retries(
        self,
        group_id: str,
        live: Live[ShareGroup] | None,
        epoch: int,
        member_id: str,
        names: tuple[str, ...] | None,
    ) -> list[tuple[str, str]]:
        """(base topic, RETRY topic) for those RETRY topics of its own group that a member names, and that are missing
        while their base is there. Nothing for who is no member and does not become one.
        """
        suffix = f"-{group_id}{letter_names.RETRY}"
        asked = [name for name in names or () if name.endswith(suffix)]
        if not asked:
            return []
        if live is not None and member_id not in live.core.members:
            welcome = epoch == 0 and len(live.core.members) < self._max_size
        else:
            welcome = live is not None or epoch == 0
        get = self._catalog.get
        return [
            (name.removesuffix(suffix), name)
            for name in asked
            if welcome and get(name) is None and get(name.removesuffix(suffix)) is not None
        ]

    async def _with_retries(self, retries: list[tuple[str, str]], group_id: str, *beat: Any) -> Any:
        """A heartbeat's answer, once the RETRY topics that it names are there: a first retry must not wait until the
        clients have heard of a new topic.
        """
        for base, name in retries:
            try:
                await self._subscriptions.make_retries(group_id, base, name)
            except KafkaError as error:
                log.warning("share group %s gets no retry letter topic %s: %s", group_id, name, error)
        response = self.heartbeat(group_id, *beat, makes_retries=False)
        return await response if isinstance(response, Awaitable) else response

    def _topics(self, names: Iterable[str]) -> dict[str, TopicView]:
        """Those of the names that are topics."""
        get = self._catalog.get
        found = ((name, get(name)) for name in names)
        return {
            name: TopicView(topic.topic_id, len(topic.partitions))
            for name, topic in found
            if topic is not None
        }

    # -- subscriptions -----------------------------------------------------------------------------------------------

    async def _with_subscriptions(
        self,
        group_id: str,
        known: _Known,
        missing: list[tuple[str, TopicView]],
        caller: Caller,
        response: Any,
    ) -> Any:
        """The response once the group has its subscriptions."""
        for item in missing:
            if item not in known.ensuring:
                task = asyncio.ensure_future(self._ensure(group_id, item, item[0] in known.younger))
                known.ensuring[item] = task
                task.add_done_callback(lambda task, item=item: self._ensured(known, item, task))  # type: ignore[misc]
        try:
            await asyncio.gather(
                *[asyncio.shield(known.ensuring[item]) for item in missing if item in known.ensuring]
            )
        except KafkaError as error:
            log.warning("share group %s has no subscription yet: %s", group_id, error)
            return caller.build(Beat(Error.COORDINATOR_NOT_AVAILABLE, str(error)))
        return await response if isinstance(response, Awaitable) else response

    async def _ensure(self, group_id: str, item: tuple[str, TopicView], younger: bool) -> None:
        name, view = item
        # Its end was its beginning when the group subscribed, whatever was published since.
        starts = [0] * view.partitions if younger else None
        try:
            await self._subscriptions.ensure(group_id, name, starts)
        except KafkaError as error:
            topic = self._catalog.get(name)
            if topic is not None and topic.topic_id == view.topic_id:
                raise
            # It went while we were about to: the next heartbeat finds out.
            log.info("share group %s gets no subscription on %s: %s", group_id, name, error)

    def _ensured(self, known: _Known, item: tuple[str, TopicView], task: asyncio.Future[None]) -> None:
        del known.ensuring[item]
        if not task.cancelled() and task.exception() is None:
            known.ensured[item[0]] = item[1]
            known.younger.discard(item[0])

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

    def client_id(self, group_id: str, member_id: str) -> str:
        """The client id of a member; "" for what is no member."""
        with contextlib.suppress(KafkaError):
            group = self.get(group_id)
            member = group.members.get(member_id) if group is not None else None
            return member.client_id if member is not None else ""
        return ""

    async def make(self, group_id: str) -> None:
        """Have the group, empty if it is new. Raises KafkaError."""
        live = await until_loaded(lambda: self._find(group_id))
        if live is None:
            live = self._enter(ShareGroup(group_id, self._max_size, self._node.clock.wall_ms()))
        await self._ask(live, Make)

    async def delete(self, group_id: str) -> None:
        """Delete the group and its subscriptions. Raises KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
        async with self.kept_empty(group_id) as live:
            await self.delete_subscriptions(group_id, None)
            await self._ask(live, Delete)
        self._tidy(live)

    async def delete_subscriptions(self, group_id: str, topic: Topic | None) -> None:
        """Drop the group's subscription of a topic, or all; inside `kept_empty`. Raises KafkaError."""
        await self._subscriptions.delete(group_id, topic.topic_id if topic is not None else None)
        known = self._known.get(group_id)
        if known is not None:
            if topic is None:
                known.ensured.clear()
            else:
                known.ensured.pop(topic.name, None)

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
        known = self._known[group_id]
        known.closing += 1
        live.used = True
        try:
            yield live
        finally:
            known.closing -= 1

    async def _ask(self, live: Live[ShareGroup], event: type[Make] | type[Delete]) -> None:
        """Raises KafkaError with the error of the answer, if it has one."""
        response = self._run(live, event(Caller(lambda answer: answer)))
        answer: Plain = await response if isinstance(response, Awaitable) else response
        if answer.error:
            raise from_code(answer.error)

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
        self._known[core.group_id] = _Known()
        return super()._enter(core)

    def _leave(self, live: Live[ShareGroup]) -> None:
        super()._leave(live)
        del self._known[live.core.group_id]
