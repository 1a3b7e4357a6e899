"""What of a checkpoint is acknowledged when, and what happens when others are at the same subscription."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pipeline.acks import CLAIM_S, Acks, marks
from pipeline.checkpoint import Finished
from pipeline.errors import PipelineError
from pipeline.group import Stand


class Group:
    """A queue topic that stands here; commits move it."""

    topic, name = "orders-billing-QUEUE", "billing"

    def __init__(self, stands: list[int], ends: list[int]) -> None:
        self.lanes = len(stands)
        self.at = [Stand(offset, "") for offset in stands]
        self.end = ends
        self.commits: list[dict[int, int]] = []

    def width(self) -> int:
        return len(self.at)

    def stands(self) -> list[Stand]:
        return list(self.at)

    def ends(self) -> list[int]:
        return list(self.end)

    def commit(self, offsets: Mapping[int, int], metadata: str) -> None:
        self.commits.append(dict(offsets))
        for lane, offset in offsets.items():
            if offset >= self.at[lane].offset:
                self.at[lane] = Stand(offset, metadata)

    def others_go_on(self, lane: int, offset: int) -> None:
        self.at[lane] = Stand(offset, "")


class Checkpoint:
    def __init__(self, newest: Finished | None = None) -> None:
        self.newest = newest

    def finished(self) -> Finished | None:
        return self.newest


def test_each_finished_batch_is_acknowledged_once() -> None:
    group, checkpoint = Group([0, 0], [10, 10]), Checkpoint()
    acks = Acks(group, checkpoint, "mine")
    acks.begin()

    assert acks.look(1) == 0
    checkpoint.newest = Finished(0, {0: 4, 1: 0})
    assert acks.look(2) == 4
    assert acks.look(3) == 0
    checkpoint.newest = Finished(2, {0: 4, 1: 7})
    assert acks.look(4) == 7

    assert [each.offset for each in group.at] == [4, 7]
    assert group.commits[1:] == [{0: 4}, {1: 7}]


def test_what_an_earlier_run_had_finished_is_acknowledged_first() -> None:
    group = Group([3, 5], [10, 10])
    acks = Acks(group, Checkpoint(Finished(7, {0: 9, 1: 5})), "mine")

    notes = acks.begin()

    assert [each.offset for each in group.at] == [9, 5]
    assert "an earlier run had finished 6 deliveries: they are acknowledged now" in notes
    assert acks.passed == {}
    assert acks.look(1) == 0


def test_what_others_settled_since_the_checkpoint_is_passed_over_and_not_taken_back() -> None:
    group = Group([8, 5], [10, 10])
    acks = Acks(group, Checkpoint(Finished(7, {0: 6, 1: 5})), "mine")

    notes = acks.begin()

    assert acks.passed == {0: 8}
    assert acks.ends == [8, 5]
    assert [each.offset for each in group.at] == [8, 5]
    assert "others settled 2 deliveries since the checkpoint: they are passed over" in notes


def test_a_new_checkpoint_begins_where_the_lanes_stand() -> None:
    acks = Acks(Group([8, 0], [10, 0]), Checkpoint(), "mine")

    assert acks.begin() == [
        "group billing has no members; 2 deliveries are ready in 2 lanes of orders-billing-QUEUE"
    ]
    assert acks.ends == [8, 0]


def test_a_gateway_that_has_lost_deliveries_is_told_from_one_that_has_not() -> None:
    group = Group([3], [5])

    with pytest.raises(PipelineError, match=r"lane 0 .* ends at 5 and the checkpoint has read up to 6"):
        Acks(group, Checkpoint(Finished(1, {0: 6})), "mine").begin()
    assert group.commits == []


def test_of_two_jobs_the_one_that_began_last_goes_on() -> None:
    group, first, second = Group([0], [10]), Checkpoint(), Checkpoint()
    one, other = Acks(group, first, "one"), Acks(group, second, "other")
    one.begin()
    first.newest = Finished(0, {0: 4})
    one.look(1)

    assert any("another job has drained it before" in note for note in other.begin())
    first.newest = Finished(1, {0: 8})
    with pytest.raises(PipelineError, match="another job drains orders-billing-QUEUE by now"):
        one.look(2)
    second.newest = Finished(0, {0: 6})
    assert other.look(3) == 2
    assert group.at[0].offset == 6


def test_another_job_is_heard_of_while_nothing_comes() -> None:
    group = Group([0], [0])
    one = Acks(group, Checkpoint(), "one")
    one.begin()
    one.look(100)
    Acks(group, Checkpoint(), "other").begin()

    one.look(100 + CLAIM_S / 2)
    with pytest.raises(PipelineError, match="another job drains"):
        one.look(100 + CLAIM_S)


def test_more_lanes_are_heard_of() -> None:
    group = Group([0], [0])
    acks = Acks(group, Checkpoint(), "mine")
    acks.begin()
    acks.look(100)
    assert not acks.grown
    group.at.append(Stand(0, ""))

    acks.look(100 + CLAIM_S)
    assert acks.grown


def test_lanes_that_the_checkpoint_does_not_know_are_begun_where_they_stand() -> None:
    group = Group([3, 0, 2], [5, 4, 2])
    acks = Acks(group, Checkpoint(Finished(1, {0: 3})), "mine")

    acks.begin()

    assert (acks.ends, acks.passed) == ([3, 0, 2], {2: 2})


def test_the_same_job_started_again_is_no_other() -> None:
    group = Group([0], [0])
    Acks(group, Checkpoint(), "mine").begin()

    assert len(Acks(group, Checkpoint(), "mine").begin()) == 1


def test_who_has_drained_it_last_can_be_read() -> None:
    group = Group([0, 0], [0, 0])
    assert marks(group.stands()) == []

    Acks(group, Checkpoint(), "mine").begin()

    (mark,) = marks(group.stands())
    assert mark.startswith("process ")


def test_consumers_that_went_on_meanwhile_are_no_other_job() -> None:
    group, checkpoint = Group([0], [10]), Checkpoint()
    acks = Acks(group, checkpoint, "mine")
    acks.begin()
    group.others_go_on(0, 7)
    checkpoint.newest = Finished(0, {0: 9})

    assert acks.look(1) == 9
    assert group.at[0].offset == 9
