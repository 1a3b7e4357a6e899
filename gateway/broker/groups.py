"""Classic groups at work, and the offsets that groups commit. How steps become commits and answers: `machines`.

Offsets are not kept in memory: an OffsetCommit is one commit, an OffsetFetch reads rows. See
`gateway.coordinators.offsets` for what they say.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.broker.group_sweep import Sweep
from gateway.broker.machines import Live, Machines, Waiter
from gateway.coordinators import group_rows, offsets
from gateway.coordinators.classic_events import (
    Answer,
    Delete,
    Effect,
    Heartbeat,
    Join,
    Plain,
    Request,
    Token,
)
from gateway.coordinators.classic_group import ClassicGroup
from gateway.coordinators.group_rows import Kind, RowError, State
from gateway.coordinators.group_state import Limits
from gateway.coordinators.offsets import Committed
from gateway.wire.errors import Error
from store.api import Delete as DeleteRow
from store.api import Family, Write

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic

log = logging.getLogger("magnetar.groups")


class OffsetWrites(NamedTuple):
    """An OffsetCommit or OffsetDelete on its way to the store."""

    token: Token

    def refused(self, error: int) -> Plain:
        return Plain(error)


class Listed(NamedTuple):
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
    kind: Kind
    members: int


class Groups(Machines[ClassicGroup]):
    """All groups of this node."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        settings = broker.settings
        self._limits = Limits(
            settings.integer("group.initial.rebalance.delay.ms"), settings.integer("group.max.size")
        )
        self.sweep = Sweep(broker, self, self._expire)

    # -- membership ------------------------------------------------------------------------------------------

    def run(self, group_id: str, event: Request) -> Any:
        """Take a request to its group. `event.token` is a Waiter; returns the response or a future of it."""
        waiter: Waiter = event.token
        try:
            live = self._find(group_id)
        except KafkaError as error:
            code = error.code
            if code == Error.INCONSISTENT_GROUP_PROTOCOL and type(event) is not Join:
                # Nobody is a member of the classic group that there is not.
                code = Error.UNKNOWN_MEMBER_ID
            waiter.answer(event.refused(code))
            return waiter.result(self._broker.loop)
        if live is None:
            if type(event) is Join and not event.member_id:
                live = self._enter(ClassicGroup(group_id, self._limits, self._broker.clock.wall_ms()))
            else:
                missing = Error.GROUP_ID_NOT_FOUND if type(event) is Delete else Error.UNKNOWN_MEMBER_ID
                waiter.answer(event.refused(missing))
                return waiter.result(self._broker.loop)
        response = self._run(live, event)
        if type(event) is not Heartbeat:
            # Heartbeats only put off what is due: the timer will find out.
            self._arm(live)
            self._tidy(live)
        return response

    def get(self, group_id: str) -> ClassicGroup | None:
        """The group, to look at; None if there is none. Raises KafkaError if it cannot be read."""
        live = self._find(group_id)
        if live is None or live.core.state is State.DEAD:
            return None
        return live.core

    def listing(self) -> list[Listed]:
        """Every group there is, by id."""
        found: dict[str, Listed] = {}
        for key, value in self._broker.store.scan(Family.GROUP):
            group_id = key.decode()
            if group_id in self._live:
                continue
            try:
                head = group_rows.head(value)
            except RowError as error:
                log.error("group %s: %s", group_id, error)
                continue
            state, kind, members = State(head.state), Kind(head.kind), 0
            if state is not State.EMPTY and kind is Kind.CLASSIC:
                members = len(group_rows.classic(value).members)
            elif state is not State.EMPTY and kind is Kind.SHARE:
                row = group_rows.share(value)
                members = row.size + len(row.members)
            found[group_id] = Listed(group_id, head.protocol_type or "", state.shown, kind, members)
        for group_id, live in self._live.items():
            core = live.core
            if core.state is not State.DEAD:
                found[group_id] = Listed(
                    group_id, core.protocol_type or "", core.state.shown, Kind.CLASSIC, len(core.roster)
                )
        return [found[group_id] for group_id in sorted(found)]

    # -- offsets ---------------------------------------------------------------------------------------------

    def commit_offsets(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        rows: list[Write],
        waiter: Waiter,
    ) -> Any:
        """Store offsets on behalf of a member (or of nobody: generation -1). The answer is a Plain with the
        error.

        A group that does not exist is made by a commit without a generation; with one it is
        GROUP_ID_NOT_FOUND. `rows` are Puts made with `gateway.coordinators.offsets`.
        """
        broker = self._broker
        try:
            live = self._find(group_id)
        except KafkaError as error:
            waiter.answer(Plain(error.code))
            return waiter.result(broker.loop)
        if live is None:
            if generation >= 0:
                waiter.answer(Plain(Error.GROUP_ID_NOT_FOUND))
                return waiter.result(broker.loop)
            live = self._enter(ClassicGroup(group_id, self._limits, broker.clock.wall_ms()))
        live.waiting[waiter] = OffsetWrites(waiter)
        code = live.core.check_commit(member_id, instance_id, generation, broker.clock.monotonic_ms())
        answer: list[Effect] = [Answer(waiter, Plain(code))]
        if code or not rows:
            self._deliver(live, answer)
            self._tidy(live)
        elif made := live.core.store_simple():
            self._send(live, [*made, *rows], answer)
        else:
            self._send(live, rows, answer, waiter)
        if not code:
            broker.metrics.offset_commits.inc(len(rows))
        return waiter.result(broker.loop)

    def delete_offsets(self, group_id: str, keys: Iterable[bytes], waiter: Waiter) -> Any:
        """Forget committed offsets by their keys. The group must exist; the answer is a Plain."""
        live = self._find(group_id)
        assert live is not None
        rows: list[Write] = [DeleteRow(Family.OFFSET, key) for key in keys]
        answer: list[Effect] = [Answer(waiter, Plain(Error.NONE))]
        live.waiting[waiter] = OffsetWrites(waiter)
        if rows:
            self._send(live, rows, answer, waiter)
        else:
            self._deliver(live, answer)
        return waiter.result(self._broker.loop)

    def in_flight(self, group_id: str) -> asyncio.Future[None] | None:
        """A future that ends when all commits of the group that are under way have landed; None if none is."""
        live = self._live.get(group_id)
        if live is None or not live.flights:
            return None
        future: asyncio.Future[None] = self._broker.loop.create_future()
        live.flights[-1].futures.append(future)
        return future

    def committed(self, group_id: str, topic: Topic, partitions: Sequence[int]) -> list[Committed | None]:
        """What a group has committed in a topic, None where it has not. Raises StoreError."""
        get = self._broker.store.get
        prefix = offsets.topic_prefix(offsets.group_prefix(group_id), topic.name)
        found: list[Committed | None] = []
        for partition in partitions:
            value = get(Family.OFFSET, prefix + offsets.key_suffix(partition)) if partition >= 0 else None
            row = offsets.decode(value) if value is not None else None
            found.append(row if row is not None and row.topic_id == topic.topic_id else None)
        return found

    def all_committed(self, group_id: str) -> list[tuple[Topic, list[tuple[int, Committed]]]]:
        """Everything a group has committed in topics that exist, by topic. Raises StoreError."""
        catalog = self._broker.catalog
        found: list[tuple[Topic, list[tuple[int, Committed]]]] = []
        name: str | None = None
        topic: Topic | None = None
        for key, value in self._broker.store.scan(Family.OFFSET, offsets.group_prefix(group_id)):
            place = offsets.place(key)
            if place.topic != name:
                name = place.topic
                topic = catalog.get(name)
                if topic is not None:
                    found.append((topic, []))
            row = offsets.decode(value)
            if topic is not None and row.topic_id == topic.topic_id:
                found[-1][1].append((place.partition, row))
        return [(topic, rows) for topic, rows in found if rows]

    def topic_deleted(self, topic: Topic) -> Sequence[Write]:
        """What must be written together with the deletion of a topic: nothing.

        A commit names the id of its topic and is not seen once that is gone; the sweep removes its row.
        """
        return ()

    # -- what steps come to --------------------------------------------------------------------------------------

    def _stepped(self, core: ClassicGroup, before: State) -> None:
        if core.state is State.STABLE and before is not State.STABLE:
            self._broker.metrics.rebalances.inc()

    def _own_failure(self, live: Live[ClassicGroup], waiter: Waiter, outcome: Exception) -> Plain:
        log.warning("group %s: offsets were not stored: %s", live.core.group_id, outcome)
        return Plain(Error.COORDINATOR_NOT_AVAILABLE)

    # -- in memory and out -----------------------------------------------------------------------------------

    def _others(self, group_id: str, row: bytes | None) -> KafkaError | None:
        if self._broker.share_groups.claims(group_id) or (
            row is not None and group_rows.head(row).kind != Kind.CLASSIC
        ):
            return KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL, f"{group_id} is a group of another type.")
        return None

    def _load(self, group_id: str, row: bytes) -> ClassicGroup:
        now = self._broker.clock.monotonic_ms()
        return ClassicGroup.load(group_id, group_rows.classic(row), self._limits, now)

    def _expire(self, group_id: str) -> None:
        """Delete an empty group whose offsets are all gone."""
        log.info("group %s has no members and no offsets any more: deleted", group_id)
        self.run(group_id, Delete(Waiter(lambda answer: None)))

    def release_all_idle(self) -> None:
        self.release_idle()
        self._broker.share_groups.release_idle()

    def close(self) -> None:
        """The gateway stops: nobody waits any longer for others to join or sync."""
        for live in list(self._live.values()):
            for waiter, event in list(live.waiting.items()):
                if type(event) is not OffsetWrites:
                    waiter.answer(event.refused(Error.COORDINATOR_NOT_AVAILABLE))
                    del live.waiting[waiter]
