"""A consumer group of KIP-848 on the bench: topics that change, heartbeats in a line each, rows as a store has them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from gateway.coordinators import consumer_rows, group_rows
from gateway.coordinators.classic_events import Expel, Gone, Tick
from gateway.coordinators.consumer_events import Answer, Beat, Heartbeat, Leave, Moved, Partition, TopicView
from gateway.coordinators.consumer_group import ConsumerGroup
from gateway.coordinators.consumer_state import Limits
from store.api import Delete as DeleteRow
from store.api import DeleteRange, Family, Put, Write
from tests.gateway.coordinators.bench import Bench

SESSION, INTERVAL, REBALANCE = 45_000, 5_000, 60_000
T, U = TopicView(b"t" * 16, 4), TopicView(b"u" * 16, 2)


def parts(view: TopicView, *indexes: int) -> frozenset[Partition]:
    """Partitions of a topic; all of them if none is named."""
    return frozenset((view.topic_id, index) for index in indexes or range(view.partitions))


def followed(before: dict[Partition, str], effect: Gone | Moved) -> dict[Partition, str]:
    """Who has what, to whoever is told."""
    if isinstance(effect, Gone):
        return {place: name for place, name in before.items() if name != effect.member_id}
    after: dict[Partition, str | None] = {} if effect.whole else {**before}
    after.update(effect.owners)
    return {place: name for place, name in after.items() if name is not None}


class ConsumerBench(Bench):
    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__()
        self.limits = limits or Limits()
        self.group = ConsumerGroup("g", self.limits, 0)
        # so that the epochs in tests count what has happened
        self.group.epoch = self.group.assignment_epoch = 0
        self.topics = {"t": T, "u": U}
        self.version = 0
        self.writes: list[Write] = []
        self.rows: dict[tuple[Family, bytes], bytes] = {}
        # what somebody knows who is told who has gone, and what has other owners
        self.followed: dict[Partition, str] = {}
        self.told: list[Gone | Moved] = []

    def owned(self) -> dict[Partition, str]:
        """Who may have what in work, as the group says it."""
        found: dict[Partition, str] = {}
        for topic_id, partitions in {place[0]: 64 for place in self._places()}.items():
            for name, indexes in self.group.owners(topic_id, partitions).items():
                found.update({(topic_id, index): name for index in indexes})
        return found

    def _places(self) -> list[Partition]:
        members = self.group.members.values()
        return [place for each in members for place in (*each.current.assigned, *each.current.revoking)]

    def _follow(self, effects: list[Any]) -> None:
        self.told = [effect for effect in effects if isinstance(effect, Gone | Moved)]
        assert effects[: len(self.told)] == self.told, "before anybody is answered"
        for effect in self.told:
            self.followed = followed(self.followed, effect)

    def send(self, event: Any) -> Any:
        """The answer to this event."""
        step = self.group.step(event, self.now, self.now)
        self.writes = step.writes
        for write in step.writes:
            if isinstance(write, Put):
                self.rows[write.family, write.key] = write.value
            elif isinstance(write, DeleteRow):
                self.rows.pop((write.family, write.key), None)
            else:
                assert isinstance(write, DeleteRange)
        self._follow(step.effects)
        answers = [effect.value for effect in step.effects if isinstance(effect, Answer)]
        assert len(answers) == (0 if isinstance(event, Tick | Expel) else 1)
        return answers[0] if answers else None

    def beat(
        self,
        member: str,
        epoch: int,
        *names: str,
        owned: Collection[Partition] | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        timeout: int | None = None,
        rack: str | None = None,
        client: str = "c",
        pattern: str | None = None,
    ) -> Beat:
        """A heartbeat. One that joins, and one that names topics, says all that there is to say."""
        joins = epoch == 0
        subscribes = bool(names) or pattern is not None
        changed = subscribes or self.group.seen != self.version
        if joins and owned is None:
            owned = ()
        answer: Beat = self.send(
            Heartbeat(
                None,
                member,
                epoch,
                instance,
                client,
                "/h",
                rack,
                timeout if timeout is not None else REBALANCE if joins or subscribes else -1,
                names or None,
                pattern,
                assignor,
                None if owned is None else frozenset(owned),
                dict(self.topics) if changed else None,
                {
                    text: frozenset(name for name in self.topics if re.fullmatch(text, name))
                    for text in self.group.patterns().union((pattern,) if pattern else ())
                },
                self.version,
                SESSION,
                INTERVAL,
            )
        )
        return answer

    def leave(self, member: str, epoch: int = -1, instance: str | None = None) -> Beat:
        answer: Beat = self.send(Leave(None, member, instance, epoch))
        return answer

    def change(self, **topics: TopicView | None) -> None:
        """Topics made (anew), grown or (None) deleted."""
        for name, view in topics.items():
            if view is None:
                del self.topics[name]
            else:
                self.topics[name] = view
        self.version += 1

    def loaded(self) -> ConsumerGroup:
        """The group as its rows say."""
        members = [
            consumer_rows.member(value)
            for (family, key), value in sorted(self.rows.items())
            if family is Family.MEMBER and key.startswith(group_rows.members_prefix("g"))
        ]
        row = consumer_rows.group(self.rows[Family.GROUP, b"g"])
        assert row.size == len(members)
        return ConsumerGroup.load("g", row, members, self.limits, SESSION, self.now)

    def crash(self) -> None:
        self.group = self.loaded()
        self.followed = self.owned()

    def settle(self, *members: str) -> None:
        """Let these members heartbeat as clients do, until nobody is told anything new."""
        for _ in range(6):
            for name in members:
                member = self.group.members[name]
                self.beat(name, member.epoch, owned=frozenset(member.assigned))
        assert self.state == "Stable"
