"""Consumer groups of KIP-848 and the classic protocol: its requests go into `coordinators.mixed_group`, classic groups
become consumer groups, and classic groups again (`coordinators.converting`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gateway.broker.errors import KafkaError
from gateway.broker.group_offsets import Following, OffsetGroups
from gateway.broker.loading import after
from gateway.broker.machines import Caller, Live
from gateway.broker.topic_patterns import TopicPatterns
from gateway.config.consumer_groups import BIDIRECTIONAL, DOWNGRADE, UPGRADE
from gateway.config.group_table import FAILOVER
from gateway.coordinators import classic_events, consumer_metadata, converting
from gateway.coordinators.classic_events import Expel, JoinAnswer, Tick
from gateway.coordinators.consumer_events import (
    ClassicBeat,
    ClassicJoin,
    Heartbeat,
    Leave,
    Topics,
    TopicView,
)
from gateway.coordinators.consumer_rows import ConsumerMemberRow, ConsumerRow
from gateway.coordinators.consumer_state import Limits
from gateway.coordinators.group_rows import ClassicRow
from gateway.coordinators.mixed_group import MixedGroup
from gateway.coordinators.subscription import CONSUMER
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from store.api import Write
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog
    from gateway.broker.group_configs import GroupConfigs
    from gateway.broker.group_kinds import GroupKinds
    from gateway.broker.node import Node
    from gateway.config.group_configs import GroupConfig
    from gateway.rights import Rights

log = logging.getLogger("magnetar.groups")


class ClassicGroups(Protocol):
    """The groups that become consumer groups, and are classic groups again."""

    def given(self, group_id: str) -> ClassicRow | None:
        """A group with members, None if there is none such. Raises KafkaError; Loading."""
        ...

    def let_go(self, group_id: str) -> None:
        """It is a consumer group by now, in the open turn."""
        ...

    def take(self, group_id: str, row: ClassicRow, writes: Sequence[Write]) -> None:
        """What was a consumer group is a classic one by now, in the open turn."""
        ...


MOST_DIFFERENT = 20_000
"""Different topics that the members of a group name: after a change of the catalog all are looked up, in some 40 ms."""
MOST_NAMES = 1_000_000
"""Topics that they name, each as often as it is named."""

_MAY_BE_LAST = frozenset({Leave, classic_events.Leave, Expel, Tick, ClassicJoin})
"""After these only members of the classic protocol may be left, or have caught up with each other."""


class MixedGroups(OffsetGroups[MixedGroup]):
    """What consumer groups do with members of the classic protocol. Whoever extends it is the kind."""

    def __init__(
        self,
        node: Node,
        kinds: GroupKinds,
        catalog: Catalog,
        configs: GroupConfigs,
        following: Following,
        staged: Callable[[str], Sequence[bytes]],
        beats: Callable[[Sequence[bytes]], list[Write]],
        classic: ClassicGroups,
    ) -> None:
        """`following`, `staged`, `beats`: see `OffsetGroups`."""
        super().__init__(node, kinds, following, staged, beats)
        self._classic = classic
        self._catalog = catalog
        self._configs = configs
        self._patterns = TopicPatterns(catalog)
        # by group and regular expression the rights of who said it last, where they are asked for
        self._said_with: dict[tuple[str, str], Rights] = {}
        settings = node.settings
        self._limits = Limits(
            settings.integer("group.consumer.max.size"), settings.strings("group.consumer.assignors")
        )
        policy = settings.text("group.consumer.migration.policy")
        self._limits = self._limits._replace(plain=self._plain)
        configs.watch(self._configured)
        self._upgrades = policy in (UPGRADE, BIDIRECTIONAL)
        self._downgrades = policy in (DOWNGRADE, BIDIRECTIONAL)
        self._max_classic = settings.integer("group.max.size")

    # -- what a group's own configs say of its members ----------------------------------------------------------------

    def _limits_of(self, config: GroupConfig) -> Limits:
        """What a group of that configuration obeys."""
        if config.exclusive:
            return self._limits._replace(max_size=1)
        only = FAILOVER if config.failover else None
        if only is None and not config.priorities:
            return self._limits
        return self._limits._replace(only=only, priorities=config.priorities)

    def _plain(self, name: str) -> str | None:
        """Pulsar's full name of a topic without partitions, None of any other."""
        topic = self._catalog.get(name)
        return self._catalog.plain_name(topic) if topic is not None else None

    def _configured(self, group_id: str) -> None:
        """A group's configs are others now: with the next heartbeat partitions are shared out anew, if they say who
        comes first.
        """
        live = self._live.get(group_id)
        if live is not None and live.core.members:
            live.core.limits = self._limits_of(self._configs.get(group_id))

    # -- what they may subscribe to ------------------------------------------------------------------------------------

    def _patterns_ready(self, core: MixedGroup, pattern: str | None = None) -> Pending[None]:
        """Until it is known which topics the expressions of a group mean, and that of a member that names one."""
        its = core.patterns().union((pattern,) if pattern else ())
        return self._patterns.ready(core.group_id, its) if its else None

    def release_idle(self) -> None:
        """Beside the groups, the expressions of none."""
        super().release_idle()
        used = {(each.core.group_id, text) for each in self._live.values() for text in each.core.patterns()}
        self._patterns.keep(used)
        for key in self._said_with.keys() - used:
            del self._said_with[key]

    def _heed(self, core: MixedGroup, member_id: str, said: str | None, rights: Rights) -> None:
        """A regular expression means topics that who said it last may describe: the others are nobody's, as in Kafka.
        Of one that was said before a restart, who beats first counts.
        """
        member = core.members.get(member_id)
        text = said or (member.pattern if member is not None else "")
        key = core.group_id, text
        known = self._said_with.get(key)
        if not text or known is rights or (known is not None and not said):
            return
        if rights.checked:
            self._said_with[key] = rights
        elif known is not None:
            del self._said_with[key]
        else:
            return
        # it is looked at again
        core.seen = -1

    def rights_changed(self) -> None:
        """Somebody may describe what they might not before, or the other way round: members hear of it with their next
        heartbeats.
        """
        for group_id, _ in self._said_with:
            live = self._live.get(group_id)
            if live is not None:
                live.core.seen = -1

    def _matching(self, group_id: str, text: str) -> frozenset[str]:
        """The topics of a regular expression that was taken once; none where it means nothing any more. Of queue topics
        those that serve the group itself: others are internal to it, and patterns pass over what is internal.
        """
        get = self._catalog.get
        rights = self._said_with.get((group_id, text))
        try:
            return frozenset(
                name
                for name in self._patterns.names(group_id, text)
                if (
                    (
                        (topic := get(name)) is None
                        or topic.queue is None
                        or topic.queue.subscription == group_id
                    )
                    and (rights is None or rights.topic(Operation.DESCRIBE, name))
                )
            )
        except KafkaError as error:
            log.warning("consumer group %s: %s", group_id, error)
            return frozenset()

    def _views(self, names: Iterable[str]) -> dict[str, TopicView]:
        """Those of the names that are topics."""
        get = self._catalog.get
        found = ((name, get(name)) for name in names)
        return {
            name: TopicView(topic.topic_id, len(topic.partitions))
            for name, topic in found
            if topic is not None
        }

    def _seen(
        self, core: MixedGroup, names: Iterable[str] | None, pattern: str | None
    ) -> tuple[Topics | None, dict[str, frozenset[str]], int]:
        """What there is of the topics of a group and of a member that says what it subscribes to; None as long as that
        is as the group saw it. With the topics of each pattern, and the catalog's version.
        """
        version = self._catalog.version
        if names is None and pattern is None and core.seen == version:
            return None, {}, version
        its = core.patterns().union((pattern,) if pattern else ())
        matches = {text: self._matching(core.group_id, text) for text in its}
        asked = frozenset(names or ()).union(*matches.values())
        if core.seen != version:
            return self._views(asked | core.subscribed()), matches, version
        # of the others the group has seen what there is
        return {**core.topics, **self._views(core.unseen(asked))}, matches, version

    def _check_named(self, core: MixedGroup, member_id: str, names: Collection[str]) -> None:
        """Raises KafkaError for a member that names too much beside the others."""
        different, in_all = core.named_with(member_id, names)
        if different <= MOST_DIFFERENT and in_all <= MOST_NAMES:
            return
        why = (
            f"The members of a group name at most {MOST_DIFFERENT} different topics, and {MOST_NAMES} in all; "
            f"with this member it would be {different} and {in_all}. A regular expression names as many as there are."
        )
        log.warning("a member of consumer group %s is refused: %s", core.group_id, why)
        raise KafkaError(Error.GROUP_MAX_SIZE_REACHED, why)

    # -- members of the classic protocol -----------------------------------------------------------------------------

    def run_classic(self, group_id: str, event: classic_events.Request) -> Any:
        """Take a request of the classic protocol to its group, which is loaded: see `Groups.run`."""
        caller: Caller = event.token
        try:
            live = self._find(group_id)
            if live is None:
                raise KafkaError(Error.UNKNOWN_MEMBER_ID, f"There is no group {group_id}.")
            ready = self._patterns_ready(live.core)
            if ready is not None:
                return after(ready, lambda: self.run_classic(group_id, event))
            if isinstance(event, classic_events.Join):
                self._configs.check_join(group_id)
            its = self._translated(live.core, event)
            live.core.limits = self._limits_of(self._configs.get(group_id))
        except KafkaError as error:
            joins = isinstance(event, classic_events.Join)
            caller.answer(JoinAnswer(error.code) if joins else event.refused(error.code))
            return caller.result()
        response = self._run(live, its)
        self._arm(live)
        self._tidy(live)
        return response

    def _translated(self, core: MixedGroup, event: classic_events.Request) -> Any:
        """A request as a consumer group takes it. Raises KafkaError."""
        if isinstance(event, classic_events.Heartbeat):
            return ClassicBeat(event, *self._seen(core, None, None))
        return self._joining(core, event) if isinstance(event, classic_events.Join) else event

    def _joining(self, core: MixedGroup, join: classic_events.Join) -> ClassicJoin:
        said = consumer_metadata.read(join.protocols[0][1]) if join.protocols else None
        if said is None:
            raise KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL, "It subscribes to nothing that can be read.")
        inward = core.wording.inward
        names = tuple(sorted(map(inward, said.topics)))
        self._check_named(core, join.member_id, names)
        views = self._views(inward(name) for name, _ in said.owned)
        owned = [(views.get(inward(name)), index) for name, index in said.owned]
        return ClassicJoin(
            join,
            Heartbeat(
                join.token,
                join.member_id or join.new_member_id,
                0,
                join.instance_id,
                join.client_id,
                join.client_host,
                said.rack,
                join.rebalance_timeout,
                names,
                "",
                None,
                frozenset([(view.topic_id, index) for view, index in owned if view is not None]),
                *self._seen(core, names, ""),
                join.session_timeout,
                0,
            ),
        )

    # -- classic groups that become such, and back -------------------------------------------------------------------

    def _made_of_classic(self, group_id: str) -> tuple[MixedGroup, list[Write]] | None:
        """The consumer group that a classic group with members becomes, which is not in memory yet, and what is to be
        stored. None if it stays as it is. Raises KafkaError.
        """
        row = None
        with contextlib.suppress(KafkaError):
            # none of them: a share group
            row = self._classic.given(group_id)
        if row is None or not self._upgrades:
            return None
        wording = self._catalog.wording(group_id)
        try:
            names = converting.names_in(row, wording)
            group, members = converting.upgraded(row, self._views(names), wording, self._limits.max_size)
        except converting.CannotConvert as error:
            log.warning("group %s stays a classic group: %s", group_id, error)
            return None
        core = self._loaded_from(group_id, group, members)
        core.anew = True
        return core, converting.writes(group_id, group, members)

    def _may_come_back(self, group_id: str) -> bool:
        """Whether a classic group would be a consumer group again for one that joins it. Who has been a member, and was
        silent for too long, is told to do so.
        """
        with contextlib.suppress(KafkaError):
            row = self._classic.given(group_id)
            return self._upgrades and row is not None and row.protocol_type == CONSUMER
        return False

    def _entered(self, core: MixedGroup, writes: list[Write]) -> Live[MixedGroup]:
        """Have a group in memory that is new, or (`writes`) has been a classic one up to now."""
        if not writes:
            return self._enter(core)
        self._classic.let_go(core.group_id)
        log.info("group %s is a consumer group from now on", core.group_id)
        live = self._enter(core)
        self._send(live, writes, [])
        return live

    def _step(self, live: Live[MixedGroup], event: Any) -> None:
        super()._step(live, event)
        core = live.core
        if live.gone or type(event) not in _MAY_BE_LAST or not converting.may_downgrade(core):
            return
        if not self._downgrades or len(core.members) > self._max_classic:
            return
        log.info("group %s is a classic group from now on", core.group_id)
        row = converting.downgraded(core)
        self._part(live)
        self._classic.take(core.group_id, row, converting.writes_back(core, row))

    def _loaded_from(
        self, group_id: str, row: ConsumerRow, members: Iterable[ConsumerMemberRow]
    ) -> MixedGroup:
        config = self._configs.get(group_id)
        return MixedGroup.load(
            group_id,
            row,
            members,
            self._limits_of(config),
            config.consumer_session_timeout_ms,
            self._node.clock.monotonic_ms(),
            self._catalog.wording(group_id),
        )
