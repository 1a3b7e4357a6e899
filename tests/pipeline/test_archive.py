"""Figures from Spark's progress reports, and topics that change while an archive runs."""

from __future__ import annotations

import json

import pytest
from py4j.protocol import Py4JError

from pipeline.archive import ArchiveJob, _Watch, lag
from pipeline.errors import PipelineError
from pipeline.identity import Identity


def report(ends: object, latest: object) -> dict[str, object]:
    return {"sources": [{"endOffset": ends, "latestOffset": latest}]}


def test_lag_is_what_lies_beyond_the_batch() -> None:
    ends = {"a": {"0": 10, "1": 5}, "b": {"0": 0}}
    latest = {"a": {"0": 12, "1": 5}, "b": {"0": 7}}

    assert lag(report(ends, latest)) == 9
    assert lag(report(json.dumps(ends), json.dumps(latest))) == 9


def test_partitions_that_are_new_count_whole_and_a_log_that_went_back_counts_nothing() -> None:
    assert lag(report({"a": {"0": 10}}, {"a": {"0": 4, "1": 6}})) == 6


def test_no_report_no_lag() -> None:
    assert lag(report(None, None)) == 0
    assert lag(report("", "")) == 0


class Topics:
    """A broker whose topics have these ids, or that does not answer; and a folder that counts what it keeps."""

    def __init__(self, ids: dict[str, str] | None) -> None:
        self.now = ids
        self.kept: list[dict[str, str]] = []

    def topics(self) -> dict[str, int]:
        return dict.fromkeys(self.ids(()), 1)

    def ids(self, names: object) -> dict[str, str]:
        if self.now is None:
            raise Py4JError("TimeoutException")
        return self.now

    def keep(self, identity: Identity) -> None:
        self.kept.append(dict(identity.topics))


def test_a_topic_that_is_made_again_while_the_archive_runs_ends_it() -> None:
    there = Topics({"a": "1"})
    job = ArchiveJob("h:1", "out", pattern=".*")
    watch = _Watch(there, job, there, Identity(topics={"a": "1"}))  # type: ignore[arg-type]

    watch.look()
    assert there.kept == []
    there.now = {"a": "1", "b": "2"}
    watch.look()
    assert there.kept == [{"a": "1", "b": "2"}]
    # a broker that is away is looked at again later
    there.now = None
    watch.look()
    there.now = {"a": "3", "b": "2"}
    with pytest.raises(PipelineError, match="topic a was deleted and made again"):
        watch.look()
