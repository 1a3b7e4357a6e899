"""The names of queue topics, and what is said of those who are in a group."""

from __future__ import annotations

import pytest

from pipeline.group import Member, in_the_way, splits


@pytest.mark.parametrize(
    ("topic", "found"),
    [
        ("orders-billing-QUEUE", [("orders", "billing")]),
        ("a-b-c-QUEUE", [("a-b", "c"), ("a", "b-c")]),
        ("orders", []),
        ("orders-QUEUE", []),
        ("-billing-QUEUE", []),
        ("orders--QUEUE", []),
        ("orders-billing-DLQ", []),
    ],
)
def test_what_a_queue_topic_may_be_of(topic: str, found: list[tuple[str, str]]) -> None:
    assert splits(topic) == found


def test_members_are_named_with_their_lanes() -> None:
    said = in_the_way("billing", [Member("worker-1", "10.0.0.7", [0, 3]), Member("worker-2", "10.0.0.8", [])])

    assert (
        "group billing has members: worker-1 on 10.0.0.7 (lanes 0, 3); worker-2 on 10.0.0.8. A job that is none"
        in said
    )
