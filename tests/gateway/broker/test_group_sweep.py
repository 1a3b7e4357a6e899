"""What the sweep of groups takes, when, and what it leaves alone."""

from __future__ import annotations

from gateway.broker.pages import ROWS
from gateway.coordinators import offsets
from store.api import Family, Put, Write
from tests.gateway.broker.fake_broker import FakeBroker, listing
from tests.gateway.broker.group_client import SESSION, WEEK, Client, caller


def offsets_check(broker: FakeBroker) -> None:
    """A sweep, whenever the last was."""
    broker.advance(broker.settings.integer("offsets.retention.check.interval.ms"))


def test_simple_groups_expire_by_commit(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    broker.topic("u")
    client.commit("t", 1)
    broker.advance(WEEK // 2)
    client.commit("u", 2)
    broker.advance(WEEK // 2)
    offsets_check(broker)
    assert client.offset("t") is None
    assert client.offset("u") == 2
    broker.advance(WEEK // 2)
    offsets_check(broker)
    assert client.offset("u") is None
    assert client.row() is None
    assert listing(broker) == []
    assert broker.groups.look("g") is None


def test_a_group_expires_from_when_it_became_empty(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.stable()
    client.commit("t", 1, "m1", 1)
    broker.clock.ahead += 2 * WEEK
    for _ in range(61):
        broker.advance(SESSION - 1)
        client.beat("m1", 1)
    assert client.offset("t") == 1
    client.leave("m1")
    broker.advance(WEEK - 3_600_000)
    assert client.offset("t") == 1
    broker.advance(3_600_000)
    offsets_check(broker)
    assert client.offset("t") is None
    assert client.row() is None


def test_offsets_with_a_time_of_their_own(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.commit("t", 1, expires=broker.clock.wall_ms() + 1_000)
    offsets_check(broker)
    assert client.offset("t") is None


def test_rows_of_deleted_topics_go(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    broker.topic("u")
    client.commit("t", 1)
    client.commit("u", 1)
    broker.drop_topic("t")
    offsets_check(broker)
    assert [offsets.place(key).topic for key, _ in broker.store.scan(Family.OFFSET)] == ["u"]
    assert client.row() is not None


def test_an_empty_group_without_offsets_goes(broker: FakeBroker, client: Client) -> None:
    client.stable()
    client.leave("m1")
    assert client.row() is not None
    offsets_check(broker)
    assert client.row() is None


def test_a_group_with_offsets_in_an_open_transaction_stays(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.commit("t", 1, expires=broker.clock.wall_ms() + 1)
    staged = broker.transactions.staged
    staged.stage("tx", [Put(Family.OFFSET, offsets.key("g", "t", 0), b"")])
    offsets_check(broker)
    assert client.offset("t") is None
    assert client.row() is not None
    assert list(staged.of_group("g")) == [offsets.key("g", "t", 0)]
    staged.end("tx", committed=False)
    offsets_check(broker)
    assert client.row() is None


def test_the_sweep_leaves_a_group_alone_that_is_being_written(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.commit("t", 1, expires=broker.clock.wall_ms() + 1)
    broker.at_once = False
    client.commit("t", 2)
    offsets_check(broker)
    assert len(broker.queue) == 1
    broker.land()
    offsets_check(broker)
    assert client.offset("t") == 2


def test_a_group_with_many_offsets_is_swept_in_pieces(broker: FakeBroker, client: Client) -> None:
    topic = broker.topic("t", 1)
    value_of = offsets.encode(1, 0, 0, -1, topic.topic_id, "")
    rows: list[Write] = [Put(Family.OFFSET, offsets.key("g", "t", index), value_of) for index in range(1_200)]
    broker.groups.commit_offsets("g", "", None, -1, rows, caller())
    before = len(broker.committed)
    broker.advance(0)
    deletions = [len(writes) for writes in broker.committed[before:]]
    assert deletions == [ROWS] * (1_200 // ROWS)
    assert client.row() is not None
    offsets_check(broker)
    assert client.row() is None
