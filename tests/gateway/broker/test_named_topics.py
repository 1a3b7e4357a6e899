"""What the members of a consumer group name: looked up once, and bounded."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from gateway.broker import mixed_groups
from gateway.broker.catalog import Topic
from gateway.broker.consumer_groups import Beating
from gateway.wire.errors import Error
from tests.gateway.broker.fake_broker import FakeBroker
from tests.gateway.broker.group_client import caller, value


def beating(
    member: str, epoch: int, names: tuple[str, ...] | None = None, pattern: str | None = None
) -> Beating:
    owned: frozenset[tuple[bytes, int]] | None = frozenset() if epoch == 0 else None
    timeout = 30_000 if epoch == 0 else -1
    return Beating(
        "g", member, epoch, None, None, timeout, names, pattern, None, owned, ("/h", "c"), caller()
    )


def beat(broker: FakeBroker, member: str, epoch: int, *names: str, pattern: str | None = None) -> Any:
    return value(broker.consumer_groups.heartbeat(beating(member, epoch, names or None, pattern)))


def test_a_group_knows_which_of_its_topics_there_are_whatever_came_before() -> None:
    source, broker = random.Random(11), FakeBroker()
    every = [f"{letter}{number}" for letter in "abc" for number in range(4)]
    said: dict[str, tuple[tuple[str, ...], str]] = {}
    epochs: dict[str, int] = {}
    for _ in range(600):
        name, member = source.choice(every), source.choice("xyz")
        kind = source.random()
        if kind < 0.3:
            if broker.catalog.get(name) is None or source.random() < 0.3:
                broker.topic(name, source.randint(1, 3))
            else:
                broker.drop_topic(name)
        elif kind < 0.4 and member in said:
            value(broker.consumer_groups.leave(beating(member, -1)))
            del said[member], epochs[member]
        elif kind < 0.7:
            names = tuple(source.sample(every, source.randint(1, 4)))
            pattern = source.choice(["", "a.*", "[bc]1", "c.*"])
            epochs[member] = beat(broker, member, 0, *names, pattern=pattern).epoch
            said[member] = names, pattern
        elif member in said:
            epochs[member] = beat(broker, member, epochs[member]).epoch
        else:
            continue
        core = broker.consumer_groups.get("g")
        if core is None or not said or core.seen != broker.catalog.version:
            continue
        wanted = {
            each
            for each in every
            if any(each in names or re.fullmatch(pattern, each) for names, pattern in said.values())
        }
        there = {each: topic for each in wanted if (topic := broker.catalog.get(each)) is not None}
        assert {each: (view.topic_id, view.partitions) for each, view in core.topics.items()} == {
            each: (topic.topic_id, len(topic.partitions)) for each, topic in there.items()
        }


def test_who_joins_has_nothing_looked_up_but_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = FakeBroker()
    broker.topic("t")
    others = tuple(f"missing-{index}" for index in range(500))
    beat(broker, "a", 0, "t", *others)
    asked: list[str] = []
    get = broker.catalog.get

    def asking(name: str) -> Topic | None:
        asked.append(name)
        return get(name)

    monkeypatch.setattr(broker.catalog, "get", asking)
    answer = beat(broker, "b", 0, "t", "new", "missing-7")
    assert answer.error == 0
    assert set(asked) == {"new"}
    # after a change all are
    monkeypatch.undo()
    broker.topic("missing-9")
    monkeypatch.setattr(broker.catalog, "get", asking)
    beat(broker, "b", answer.epoch)
    assert set(asked) >= set(others)
    core = broker.consumer_groups.get("g")
    assert core is not None
    assert set(core.topics) == {"t", "missing-9"}


def test_members_name_so_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_groups, "MOST_DIFFERENT", 5)
    monkeypatch.setattr(mixed_groups, "MOST_NAMES", 8)
    broker = FakeBroker()
    assert beat(broker, "a", 0, "t1", "t2", "t3").error == 0
    refused = beat(broker, "b", 0, "t3", "t4", "t5", "t6")
    assert (refused.error, "5 different topics" in refused.message) == (Error.GROUP_MAX_SIZE_REACHED, True)
    assert beat(broker, "b", 0, "t3", "t4", "t5").error == 0
    refused = beat(broker, "c", 0, "t1", "t2", "t3")
    assert (refused.error, "8 in all" in refused.message) == (Error.GROUP_MAX_SIZE_REACHED, True)
    # who says it again names nothing more
    assert beat(broker, "b", 0, "t3", "t4", "t5").error == 0
    # and who is gone names nothing
    value(broker.consumer_groups.leave(beating("a", -1)))
    assert beat(broker, "c", 0, "t1", "t2", "t3").error == 0
