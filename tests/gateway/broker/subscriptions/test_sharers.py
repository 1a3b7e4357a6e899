"""How a partition is dealt: who counts among those that share it, and how much one is given beside them."""

from __future__ import annotations

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions.consumers import Consumer
from gateway.broker.subscriptions.sharers import COUNTED_MS, RECENT_MS, UNBOUNDED, Sharers
from gateway.wire.errors import Error
from tests.semantics.subscriptions.driving import Driver

END = 60
"""Where the log ends: so many records that nobody has read."""


class Group:
    """Consumers a, b and c of a partition, of which some ask for records."""

    def __init__(self, *asking: str, members: int = 0, attached_at: int = -RECENT_MS) -> None:
        self.asking = set(asking)
        # of the group on the topic, attached here or not
        self.members = members
        self.loaded = True
        self.consumers = {name: Consumer(attached_at) for name in "abc"}
        self.driver = Driver(max_locks=90)
        self.driver.attach("c")
        self.sharers = Sharers("g", "t", self.consumers, self, self.members_on)

    def wants(self, group: str, member: str, since: int) -> bool:
        assert group == "g"
        return member in self.asking and since <= 0

    def member_gone(self, group: str, member: str, *, graceful: bool) -> None:
        raise AssertionError("nobody is told to go")

    def members_on(self, group: str, topic: str) -> int:
        assert (group, topic) == ("g", "t")
        if not self.loaded:
            raise KafkaError(Error.COORDINATOR_LOAD_IN_PROGRESS)
        return self.members

    def share(self, consumer: str = "a", now: int = 1, *, evenly: bool = True) -> int:
        return self.sharers.share(consumer, self.driver.cursor, END, now, evenly=evenly)


def test_who_is_alone_may_have_all() -> None:
    assert Group("a").share() == UNBOUNDED
    assert Group().share() == UNBOUNDED


def test_those_that_ask_have_as_many_and_one_that_does_not_keeps_nothing() -> None:
    assert Group("a", "b").share() == 30
    assert Group("a", "b", "c").share() == 20


def test_where_it_need_not_be_even_only_some_locks_are_left_to_the_others() -> None:
    """As with Key_Shared. Half of the 90 locks are for all of them in equal parts."""
    assert Group("a", "b").share(evenly=False) == 90 - 22
    assert Group("a", "b", "c").share(evenly=False) == 90 - 2 * 15


def test_who_holds_records_shares_whether_it_asks_or_not() -> None:
    group = Group("a")
    group.driver.feed(10)
    assert len(group.driver.poll("b")) == 10
    assert group.share() == 30


def test_members_that_have_not_come_yet_count_while_one_has_come_just_now() -> None:
    assert Group("a", members=9, attached_at=0).share(now=1) == 90 - 6 * 6, "6 of the 9 are on their way"
    assert Group("a", members=9).share(now=1) == UNBOUNDED, "they do not come any more"
    assert Group("a", members=2, attached_at=0).share(now=1) == UNBOUNDED, "all are here"


def test_of_a_group_that_is_not_loaded_nobody_comes_for_now() -> None:
    group = Group("a", members=9, attached_at=0)
    group.loaded = False
    assert group.share() == UNBOUNDED


def test_they_are_counted_again_after_a_while_or_when_one_comes_or_goes() -> None:
    group = Group("a", "b")
    assert group.share(now=1) == 30
    group.asking.add("c")
    assert group.share(now=COUNTED_MS) == 30
    assert group.share(now=COUNTED_MS + 1) == 20
    group.asking.discard("c")
    assert group.share(now=COUNTED_MS + 2) == 20
    group.sharers.changed()
    assert group.share(now=COUNTED_MS + 2) == 30


@pytest.mark.parametrize("end", [0, END])
def test_it_is_never_nothing(end: int) -> None:
    group = Group("a", "b")
    group.driver.feed(END)
    assert len(group.driver.poll("a")) == END
    assert group.sharers.share("a", group.driver.cursor, end, 1, evenly=True) == 1
