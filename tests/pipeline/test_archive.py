"""Figures from Spark's progress reports."""

from __future__ import annotations

import json

from pipeline.archive import lag


def report(ends: object, latest: object) -> dict[str, object]:
    return {"sources": [{"endOffset": ends, "latestOffset": latest}]}


def test_lag_is_what_lies_beyond_the_batch():
    ends = {"a": {"0": 10, "1": 5}, "b": {"0": 0}}
    latest = {"a": {"0": 12, "1": 5}, "b": {"0": 7}}

    assert lag(report(ends, latest)) == 9
    assert lag(report(json.dumps(ends), json.dumps(latest))) == 9


def test_partitions_that_are_new_count_whole_and_a_log_that_went_back_counts_nothing():
    assert lag(report({"a": {"0": 10}}, {"a": {"0": 4, "1": 6}})) == 6


def test_no_report_no_lag():
    assert lag(report(None, None)) == 0
    assert lag(report("", "")) == 0
