"""Expressions of consumer groups: as clients write them, and kept up with the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from gateway.broker import topic_patterns
from gateway.broker.catalog import Catalog, Topic
from gateway.broker.consumer_groups import Beating
from gateway.broker.errors import KafkaError
from gateway.broker.namespaces import NamespaceRow, Namespaces
from gateway.broker.topic_patterns import TopicPatterns, _bare
from gateway.wire.errors import Error
from semantics.group_names import scoped
from semantics.names import Namespace
from store.api import Durability
from tests.gateway.broker.fake_broker import LOOP, FakeBroker
from tests.gateway.broker.group_client import caller, value


def joining(
    group: str, member: str, epoch: int = 0, names: tuple[str, ...] | None = None, pattern: str | None = None
) -> Beating:
    owned: frozenset[tuple[bytes, int]] | None = None if epoch else frozenset()
    return Beating(
        group,
        member,
        epoch,
        None,
        None,
        -1 if epoch else 30_000,
        names,
        pattern,
        None,
        owned,
        ("/h", "c"),
        caller(),
    )


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("a.*", ["a.*"]),
        ("^a.*$", ["a.*"]),
        ("(^a-.*)", ["a-.*"]),
        ("(^a-.*)|(^b-.*$)", ["a-.*", "b-.*"]),
        ("^a|b$", ["a", "b"]),
        ("((a|^b))", ["a", "b"]),
        ("(a)(b)", ["(a)(b)"]),
        ("(a)+", ["(a)+"]),
        ("(?:a)", ["(?:a)"]),
        ("[(|)]x", ["[(|)]x"]),
        (r"a\|b\$", [r"a\|b\$"]),
        (r"a\\$", [r"a\\"]),
        ("(a", ["(a"]),
        ("a)", ["a)"]),
    ],
)
def test_what_says_nothing_is_left_out(text: str, bare: list[str]) -> None:
    assert _bare(text) == bare


def test_it_is_kept_up_with_the_catalog() -> None:
    broker = FakeBroker()
    broker.topic("orders-1")
    patterns = TopicPatterns(broker.catalog)
    assert patterns.names("g", "(^orders-.*)|(^bills$)") == {"orders-1"}
    broker.topic("orders-2")
    broker.topic("bills")
    broker.topic("bills-2")
    broker.drop_topic("orders-1")
    assert patterns.names("g", "(^orders-.*)|(^bills$)") == {"orders-2", "bills"}


def test_what_was_forgotten_is_looked_up_again() -> None:
    broker = FakeBroker()
    patterns = TopicPatterns(broker.catalog)
    assert patterns.names("g", "a.*") == patterns.names("h", "b.*") == frozenset()
    patterns.keep([("h", "b.*")])
    assert len(patterns) == 1
    broker.topic("a1")
    broker.topic("b1")
    for text, name in (("a.*", "a1"), ("b.*", "b1")):
        assert patterns.names("g", text) == {name}


def test_who_has_missed_too_much_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_patterns, "MOST_NEWS", 4)
    broker = FakeBroker()
    patterns = TopicPatterns(broker.catalog)
    broker.topic("a-gone")
    assert patterns.names("g", "a.*") == {"a-gone"}
    broker.drop_topic("a-gone")
    for index in range(10):
        broker.topic(f"a{index}")
        assert len(patterns._news) <= 4
    assert patterns.names("g", "a.*") == {f"a{index}" for index in range(10)}


class Counting(Catalog):
    """Counts the topics that are looked at."""

    looked_at = 0

    def topics(self, start: str = "", limit: int | None = None) -> Iterator[Topic]:
        for topic in super().topics(start, limit):
            self.looked_at += 1
            yield topic


def with_many(
    monkeypatch: pytest.MonkeyPatch, count: int, each: int
) -> tuple[FakeBroker, Counting, TopicPatterns]:
    """A broker with topics, of which so many are looked at before others have their turn."""
    broker = FakeBroker()
    for index in range(count):
        broker.topic(f"a-{index:03}")
    monkeypatch.setattr(topic_patterns, "LETTERS", each * (topic_patterns._A_TOPIC + len("a-000")))
    catalog = Counting(broker.store)
    broker.catalog = catalog
    return broker, catalog, TopicPatterns(catalog)


async def until(ready: Awaitable[None], each_turn: Callable[[], None]) -> int:
    """How many turns others had meanwhile."""
    task = asyncio.ensure_future(ready)
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
        each_turn()
    await task
    return turns


def test_many_topics_are_looked_at_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    _, catalog, patterns = with_many(monkeypatch, 100, 10)
    seen = [0]
    steps: list[int] = []

    def turn() -> None:
        steps.append(catalog.looked_at - seen[0])
        seen[0] = catalog.looked_at

    ready = patterns.ready("g", [".*7"])
    turn()
    assert isinstance(ready, Awaitable)
    assert LOOP.run_until_complete(until(ready, turn)) >= 9
    # one more, where the next slice begins
    assert max(steps) <= 11
    assert sum(steps) >= 100
    assert patterns.ready("g", [".*7"]) is None
    assert patterns.names("g", ".*7") == {f"a-{index:03}" for index in range(7, 100, 10)}
    # nothing was to be looked at for that
    assert catalog.looked_at == seen[0]


def test_what_changes_while_they_are_looked_at_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, _, patterns = with_many(monkeypatch, 50, 10)
    changed = [False]

    def turn() -> None:
        if not changed[0]:
            changed[0] = True
            broker.drop_topic("a-000")
            broker.drop_topic("a-049")
            broker.topic("a-000x")
            broker.topic("a-050")

    ready = patterns.ready("g", ["a-.*"])
    assert isinstance(ready, Awaitable)
    LOOP.run_until_complete(until(ready, turn))
    found = {f"a-{index:03}" for index in range(1, 49)} | {"a-000x", "a-050"}
    assert changed[0]
    assert patterns.names("g", "a-.*") == found


def test_several_who_wait_are_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    _, catalog, patterns = with_many(monkeypatch, 100, 10)
    waits = [patterns.ready(f"g{index}", [f".*{index}", "(nothing"]) for index in range(5)]
    seen, steps = catalog.looked_at, []

    def turn() -> None:
        nonlocal seen
        steps.append(catalog.looked_at - seen)
        seen = catalog.looked_at

    async def everybody() -> None:
        await asyncio.gather(*[each for each in waits if each is not None])

    LOOP.run_until_complete(until(everybody(), turn))
    # who is done, and who begins, are in the same turn
    assert max(steps) <= 2 * 11
    for index in range(5):
        assert len(patterns.names(f"g{index}", f".*{index}")) == 10


def test_a_heartbeat_waits_for_its_topics_while_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_patterns, "LETTERS", 10 * topic_patterns._A_TOPIC)
    broker = FakeBroker()
    for index in range(100):
        broker.topic(f"a-{index:03}")
    joined = broker.consumer_groups.heartbeat(joining("g", "m", pattern="a-.*"))
    other = value(broker.consumer_groups.heartbeat(joining("h", "n", names=("a-001",))))
    assert (other.error, len(other.assignment)) == (0, 1)
    answer = LOOP.run_until_complete(joined)
    assert (answer.error, len(answer.assignment)) == (0, 100)
    # who says nothing new is told of new topics, too
    for index in range(100, 150):
        broker.topic(f"a-{index:03}")
    answer = LOOP.run_until_complete(broker.consumer_groups.heartbeat(joining("g", "m", epoch=answer.epoch)))
    assert len(answer.assignment) == 150


def test_a_group_has_so_many_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_patterns, "MOST_OF_GROUP", 2)
    broker = FakeBroker()

    def join(group: str, member: str, pattern: str) -> Any:
        answer = value(broker.consumer_groups.heartbeat(joining(group, member, pattern=pattern)))
        return answer.error, answer.message or ""

    assert [join("g", "a", "a.*")[0], join("g", "b", "b.*")[0]] == [0, 0]
    error, why = join("g", "c", "c.*")
    assert (error, "at most 2" in why) == (Error.INVALID_REGULAR_EXPRESSION, True)
    assert join("g", "c", "a.*")[0] == 0
    # and all groups together have
    monkeypatch.setattr(topic_patterns, "MOST", 2)
    error, why = join("h", "a", "c.*")
    assert (error, "2 expressions" in why) == (Error.INVALID_REGULAR_EXPRESSION, True)
    assert join("h", "a", "a.*")[0] == 0


def test_expressions_of_groups_that_are_gone_are_forgotten() -> None:
    broker = FakeBroker()
    groups = broker.consumer_groups
    value(groups.heartbeat(joining("g", "a", pattern="a.*")))
    value(groups.heartbeat(joining("h", "a", pattern="b.*")))
    value(groups.leave(joining("g", "a", epoch=-1)))
    groups.release_idle()
    assert len(groups._patterns) == 1


def test_what_is_none_says_why() -> None:
    with pytest.raises(KafkaError, match="is no pattern"):
        TopicPatterns(FakeBroker().catalog).names("g", "a(?=b)")


@pytest.mark.parametrize("guarded", [False, True])
def test_where_rights_are_asked_for_an_expression_is_over_the_home_alone(guarded: bool) -> None:
    broker = FakeBroker()
    there = Namespaces.write(Namespace("shop", "eu"), NamespaceRow())
    broker.store.commit([there], Durability.OS, lambda outcome: None)
    broker.catalog.namespaces.changed(Namespace("shop", "eu"))
    broker.catalog.namespaces.guarded = guarded
    for name in ("shop/eu/orders", "orders"):
        broker.topic(name)
    patterns = TopicPatterns(broker.catalog)
    assert patterns.names("g", "ord.*") == {"orders"}
    home = scoped(Namespace("shop", "eu"), "g")
    assert patterns.names(home, "ord.*") == {"shop/eu/orders"}
    assert patterns.names("g", "shop.eu.ord.*") == (set() if guarded else {"shop/eu/orders"})
    for group, text in (("g", "persistent://shop/eu/.*"), (home, "persistent://public/default/.*")):
        if guarded:
            with pytest.raises(KafkaError, match="the client's own") as error:
                patterns.names(group, text)
            assert error.value.code == Error.INVALID_REGULAR_EXPRESSION
        else:
            assert len(patterns.names(group, text)) == 1
