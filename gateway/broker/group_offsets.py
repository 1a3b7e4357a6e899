"""Offsets that groups commit: what is the same for every kind of groups that commits them.

Offsets are not kept in memory: an OffsetCommit is one commit, an OffsetFetch reads rows. See
`gateway.coordinators.offsets` for what they say. Who may commit, the kind of the group says.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from gateway.broker.errors import KafkaError
from gateway.broker.loading import Loading, after, until_loaded
from gateway.broker.machines import Caller, Core, Live, Machines
from gateway.coordinators import group_rows
from gateway.coordinators.classic_events import Answer, Expel, Gone, Plain
from gateway.coordinators.consumer_events import Moved, Partition
from gateway.coordinators.group_rows import State
from gateway.promise import Promise
from gateway.wire.errors import Error
from store.api import Delete as DeleteRow
from store.api import Family, Put, StoreError, Write
from store.pending import Pending
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.group_kinds import GroupKinds
    from gateway.broker.node import Node

log = logging.getLogger("magnetar.groups")

CoreT = TypeVar("CoreT", bound=Core)


class Following(Protocol):
    """Whoever must know which member of a group has which partitions."""

    def serves(self, group: str) -> bool:
        """Whether a group has a queue topic: then it stays when its offsets expire. Raises KafkaError."""
        ...

    def assigned(self, group: str) -> None:
        """A group has another assignment, as a whole."""
        ...

    def moved(self, group: str, owners: Mapping[Partition, str | None], *, whole: bool) -> None:
        """Partitions have other owners than before, or none; see `Moved`."""
        ...

    def member_gone(self, group: str, member: str, *, crashed: bool) -> None:
        """A member has said that it goes, or was lost."""
        ...


class OffsetWrites(NamedTuple):
    """An OffsetCommit or OffsetDelete on its way to the store."""

    token: Caller

    def refused(self, error: int) -> Plain:
        return Plain(error)


class Along(NamedTuple):
    """What is said with a commit of offsets, in the same turn."""

    about: Sequence[Write]
    """rows of the offsets of which something is said, for who asks whether the member may: these are not stored"""
    done: Callable[[bool], list[Write]]
    """called when it is a member's to say (True), or anybody's: does it, and answers rows to be stored"""


class Committer(NamedTuple):
    """On whose behalf offsets are committed. Nobody: no id, no instance, generation -1."""

    member_id: str
    instance_id: str | None
    # or the member's epoch
    generation: int
    # by an OffsetCommit that knows no member epochs (before version 9)
    old: bool = False

    @property
    def nobody(self) -> bool:
        return self.generation < 0 and not self.member_id and self.instance_id is None


class OffsetGroups(Machines[CoreT]):
    """Groups of a kind that commits offsets."""

    def __init__(
        self,
        node: Node,
        kinds: GroupKinds,
        following: Following,
        staged: Callable[[str], Sequence[bytes]],
        beats: Callable[[Sequence[bytes]], list[Write]],
    ) -> None:
        """`staged` says which offsets of a group open transactions have staged. `beats` is told the keys of offsets
        that are committed or deleted outside of transactions, and answers what belongs to the same turn.
        """
        super().__init__(node, kinds)
        self._following = following
        self._staged = staged
        self._beats = beats

    # -- for those who know which machine it is ----------------------------------------------------------------------

    def refusal(self, group_id: str) -> KafkaError:
        """What is said of a group of another kind: see `GroupKind`."""
        raise NotImplementedError

    def get(self, group_id: str) -> CoreT | None:
        """The group, to look at; None if there is none. Raises KafkaError; Loading."""
        raise NotImplementedError

    def members(self, group_id: str) -> int:
        """How many members it has. Raises KafkaError; Loading."""
        raise NotImplementedError

    def _made(self, group_id: str) -> Live[CoreT] | None:
        """A group that nobody joined, for offsets that are committed in its name; None if this kind has none such."""
        raise NotImplementedError

    def _check_commit(self, core: CoreT, who: Committer, rows: Sequence[Write]) -> int:
        """The error code for who commits these rows; 0 if it may."""
        raise NotImplementedError

    def _stored_with(self, core: CoreT) -> list[Write]:
        """What must be stored before the first offset of a group."""
        raise NotImplementedError

    def deletion(self, group_id: str) -> Pending[int]:
        """Delete an empty group and its offsets: the error code, or a future of it."""
        raise NotImplementedError

    # -- ids that go from one kind to another ------------------------------------------------------------------------

    async def give_way(self, group_id: str, committed: Callable[[str], Sequence[object]]) -> None:
        """Delete a group that has no members and has committed nothing, so that its id may be that of another kind.
        `committed` reads what it has.
        """
        try:
            core = await until_loaded(lambda: self.get(group_id))
            kept = core is None or core.state is not State.EMPTY or self._staged(group_id)
            if not kept and not committed(group_id):
                deleting = self.deletion(group_id)
                if not isinstance(deleting, int):
                    await deleting
        except (KafkaError, StoreError) as error:
            log.info("group %s stays: %s", group_id, error)

    def _find_or_displace(self, group_id: str) -> Live[CoreT] | None:
        """The group, for a member that joins; None if there is none, or one of another kind has let go of the id.
        Raises KafkaError; Loading.
        """
        try:
            return self._find(group_id)
        except KafkaError as error:
            if isinstance(error, Loading) or not self._kinds.give_way(self.kind, group_id):
                raise
            return None

    def yields(self, group_id: str) -> bool:
        """Let go of a group without members, whose offsets stay: its row is overwritten by that of another kind. Raises
        StoreError.
        """
        live = self._live.get(group_id)
        if live is None:
            row = self._node.store.get(Family.GROUP, group_rows.key(group_id))
            return row is not None and group_rows.head(row).state == State.EMPTY
        core = live.core
        if core.state is not State.EMPTY or not core.idle or live.flights or live.waiting:
            return False
        self._leave(live)
        return True

    # -- commits -----------------------------------------------------------------------------------------------------

    def commit_offsets(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        rows: list[Write],
        caller: Caller,
        along: Along | None = None,
        *,
        old: bool = False,
    ) -> Any:
        """Store offsets on behalf of a member, or of nobody. The answer is a Plain with the error. `along`: what is
        said with it.

        A group that does not exist is made by a commit without a generation; with one it is
        GROUP_ID_NOT_FOUND. `rows` are Puts made with `gateway.coordinators.offsets`. `old`: see Committer.
        """
        who = Committer(member_id, instance_id, generation, old)
        return after(self._loaded(group_id), lambda: self._commit_offsets(group_id, who, rows, caller, along))

    @step("offsets.before", "offsets.taken")
    def _commit_offsets(
        self,
        group_id: str,
        who: Committer,
        rows: list[Write],
        caller: Caller,
        along: Along | None = None,
    ) -> Any:
        member = who.generation >= 0
        try:
            live = self._find(group_id)
        except KafkaError as error:
            caller.answer(Plain(error.code))
            return caller.result()
        if live is None:
            live = None if member else self._made(group_id)
        if live is None:
            caller.answer(Plain(Error.GROUP_ID_NOT_FOUND))
            return caller.result()
        live.waiting[caller] = OffsetWrites(caller)
        code = self._check_commit(live.core, who, [*rows, *along.about] if along is not None else rows)
        if along is not None and not code:
            rows = [*rows, *along.done(member)]
        if not code:
            self._node.metrics.offset_commits.inc(len(rows))
            rows = [*rows, *self._beats([row.key for row in rows if isinstance(row, Put)])]
        return self._store(live, code, rows, caller)

    def _store(self, live: Live[CoreT], code: int, rows: list[Write], caller: Caller) -> Any:
        """What a request comes to: an error code, or rows of offsets."""
        answer = [Answer(caller, Plain(code))]
        if code or not rows:
            self._deliver(live, answer)
            self._tidy(live)
        elif made := self._stored_with(live.core):
            self._send(live, [*made, *rows], answer)
        else:
            self._send(live, rows, answer, caller)
        return caller.result()

    def stage_offsets(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        stage: Callable[[], tuple[int, list[Write]]],
        caller: Caller,
        rows: Sequence[Write] = (),
    ) -> Any:
        """Offsets that are committed in a transaction, on behalf of a member or of nobody: whoever has the transaction
        may do that for any group. The answer is a Plain. `stage` is called when nothing of the group is in the way: an
        error code, and what belongs to the same turn. `rows`: the offsets.
        """
        who = Committer(member_id, instance_id, generation)
        return after(self._loaded(group_id), lambda: self._stage_offsets(group_id, who, rows, stage, caller))

    def _stage_offsets(
        self,
        group_id: str,
        who: Committer,
        rows: Sequence[Write],
        stage: Callable[[], tuple[int, list[Write]]],
        caller: Caller,
    ) -> Any:
        try:
            live = self._find(group_id)
        except KafkaError as error:
            caller.answer(Plain(error.code))
            return caller.result()
        if live is None:
            live = None if who.generation >= 0 else self._made(group_id)
        if live is None:
            caller.answer(Plain(Error.ILLEGAL_GENERATION))
            return caller.result()
        live.waiting[caller] = OffsetWrites(caller)
        # one that is being deleted refuses everybody: they come again when it is gone
        anybody = who.nobody and live.core.state is not State.DEAD
        code = 0 if anybody else self._check_commit(live.core, who, rows)
        staged: list[Write] = []
        if not code:
            code, staged = stage()
        if not (code or staged):
            # what it says was said before, and may be on its way
            self._send(live, staged, [Answer(caller, Plain(code))], caller)
            return caller.result()
        return self._store(live, code, staged, caller)

    def take_offsets(self, group_id: str, puts: Sequence[Write]) -> None:
        """A transaction commits these offsets, in the open turn. The group must be loaded. Raises KafkaError."""
        try:
            live = self._find(group_id) or self._made(group_id)
        except KafkaError as error:
            if error.code is not self.refusal(group_id).code:
                raise
            # it was deleted, and its id is another kind of group's by now
            log.warning("group %s: offsets of a transaction are dropped: %s", group_id, error)
            return
        if live is None or live.core.state is State.DEAD:
            # its deletion is under way, and takes what was staged: nothing may be left without a group
            log.warning("group %s: offsets of a transaction go with the group", group_id)
            return
        self._send(live, [*self._stored_with(live.core), *puts], [])
        self._node.metrics.offset_commits.inc(len(puts))

    def delete_offsets(self, group_id: str, keys: Iterable[bytes], caller: Caller) -> Any:
        """Forget committed offsets by their keys, and what is staged of them. The group must exist, and be loaded; the
        answer is a Plain.
        """
        live = self._find(group_id)
        assert live is not None
        keys = list(keys)
        rows = [*(DeleteRow(Family.OFFSET, key) for key in keys), *self._beats(keys)]
        answer = [Answer(caller, Plain(Error.NONE))]
        live.waiting[caller] = OffsetWrites(caller)
        if rows:
            self._send(live, rows, answer, caller)
        else:
            self._deliver(live, answer)
        return caller.result()

    def in_flight(self, group_id: str) -> Pending[None]:
        """Until all commits of the group that are under way have landed, well or not; None if none is."""
        live = self._live.get(group_id)
        if live is None or not live.flights:
            return None
        landed: Promise[None] = Promise()
        live.flights[-1].landed.append(landed)
        return landed

    # -- what others say of members ----------------------------------------------------------------------------------

    def expel(self, group_id: str, member_id: str, reason: str) -> None:
        """Take a member out as if it were lost: it is told so when it speaks next. Raises KafkaError; Loading."""
        self._told(group_id, Expel(member_id, reason))

    def _told(self, group_id: str, event: Any) -> None:
        live = self._find(group_id)
        if live is not None:
            self._step(live, event)
            self._arm(live)
            self._tidy(live)

    # -- what steps come to ------------------------------------------------------------------------------------------

    def _stepped(self, core: CoreT, before: State) -> None:
        if core.state is State.STABLE and before is not State.STABLE:
            self._node.metrics.rebalances.inc()
        if core.state is State.DEAD and before is not State.DEAD and (staged := self._staged(core.group_id)):
            # Transactions that commit later must not bring offsets back. It is stored with the deletion, or neither is.
            self._node.commit(self._beats(staged), lambda outcome: None)

    def _happen(self, core: CoreT, effect: Any) -> None:
        if type(effect) is Gone:
            self._following.member_gone(core.group_id, effect.member_id, crashed=effect.crashed)
        elif type(effect) is Moved:
            self._following.moved(core.group_id, effect.owners, whole=effect.whole)
        else:
            self._following.assigned(core.group_id)

    def _was_read(self, core: CoreT) -> None:
        if core.state not in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE):
            # what could not be stored, as far as anybody knew, may have been
            with contextlib.suppress(KafkaError):
                self._following.assigned(core.group_id)

    def _own_failure(self, live: Live[CoreT], caller: Caller, outcome: Exception) -> Plain:
        log.warning("group %s: offsets were not stored: %s", live.core.group_id, outcome)
        return Plain(Error.COORDINATOR_NOT_AVAILABLE)
