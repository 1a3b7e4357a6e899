"""Before a replay writes: where records go, and whether the topics there are wide enough."""

from __future__ import annotations

import pytest

from pipeline.errors import PipelineError
from pipeline.replay import Plan, ReplayJob, _fit, prepare
from pipeline.slices import Place, Span


class Topics:
    """A cluster whose topics have these widths."""

    def __init__(self, **widths: int) -> None:
        self.widths = widths
        self.made: dict[str, int] = {}

    def topics(self) -> dict[str, int]:
        return dict(self.widths)

    def create(self, widths: dict[str, int]) -> None:
        self.made |= widths


def planned(job: ReplayJob, **records: list[int]) -> Plan:
    """An archive of these topics, with so many records in each partition; none where there is 0."""
    spans = {
        Place(topic, partition): Span(count, 0, count - 1, 0, 0)
        for topic, counts in records.items()
        for partition, count in enumerate(counts)
        if count
    }
    return Plan(spans, {topic: job.target(topic) for topic in records})


def fit(there: Topics, job: ReplayJob, **records: list[int]) -> bool:
    return _fit(there, job, planned(job, **records))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("job", "target"),
    [
        (ReplayJob("a", "h:1"), "orders"),
        (ReplayJob("a", "h:1", prefix="old-", suffix="-2"), "old-orders-2"),
        (ReplayJob("a", "h:1", to="all", prefix="old-"), "all"),
    ],
)
def test_where_the_records_of_a_topic_go(job: ReplayJob, target: str) -> None:
    assert job.target("orders") == target


def test_a_plan_counts_all_records() -> None:
    assert planned(ReplayJob("a", "h:1"), a=[3, 0, 4], b=[5]).count == 12
    assert planned(ReplayJob("a", "h:1")).count == 0


@pytest.mark.parametrize(("width", "keep"), [(3, True), (5, True), (2, False)])
def test_records_keep_their_partitions_where_they_fit(width: int, keep: bool) -> None:
    """Partitions 0 and 2 have records: what counts is the number of the last one."""
    assert fit(Topics(orders=width), ReplayJob("a", "h:1"), orders=[1, 0, 1]) is keep


def test_one_topic_that_is_too_narrow_is_enough_for_all_to_go_by_their_keys() -> None:
    assert fit(Topics(a=1, b=1), ReplayJob("a", "h:1"), a=[1], b=[1, 1]) is False


def test_a_person_who_wants_partitions_kept_is_told_what_to_widen() -> None:
    job = ReplayJob("a", "h:1", keep_partitions=True)
    with pytest.raises(
        PipelineError, match=r"orders has 2 partitions and 3 are needed: .*--no-keep-partitions"
    ):
        fit(Topics(orders=2), job, orders=[1, 1, 1])
    assert fit(Topics(orders=3), job, orders=[1, 1, 1]) is True
    assert fit(Topics(orders=3), ReplayJob("a", "h:1", keep_partitions=False), orders=[1]) is False


def test_a_topic_that_is_missing_is_made_as_wide_as_needed_only_when_that_was_said() -> None:
    there = Topics(a=1)
    with pytest.raises(
        PipelineError, match=r"topic b does not exist: create it .with 2 partitions.*--create-topics"
    ):
        fit(there, ReplayJob("a", "h:1"), a=[1], b=[1, 1])
    assert there.made == {}
    assert fit(there, ReplayJob("a", "h:1", create_topics=True), a=[1], b=[1, 1]) is True
    assert there.made == {"b": 2}


def test_one_topic_for_everything_is_as_wide_as_the_widest() -> None:
    there = Topics()
    assert fit(there, ReplayJob("a", "h:1", to="all", create_topics=True), a=[1, 1, 1], b=[1]) is True
    assert there.made == {"all": 3}


def test_a_dry_run_has_nothing_to_prepare() -> None:
    job = ReplayJob("a", None)
    with pytest.raises(PipelineError, match="needs --bootstrap"):
        prepare(None, job, planned(job))
