"""Expressions of consumer groups: as clients write them, and kept up with the catalog."""

from __future__ import annotations

import pytest

from gateway.broker import topic_patterns
from gateway.broker.errors import KafkaError
from gateway.broker.topic_patterns import TopicPatterns, _bare
from tests.gateway.broker.fake_broker import FakeBroker


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


def test_what_was_forgotten_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_patterns, "MOST", 1)
    broker = FakeBroker()
    patterns = TopicPatterns(broker.catalog)
    assert patterns.names("g", "a.*") == patterns.names("g", "b.*") == frozenset()
    broker.topic("a1")
    broker.topic("b1")
    for text, name in (("a.*", "a1"), ("b.*", "b1")):
        assert patterns.names("g", text) == {name}


def test_what_is_none_says_why() -> None:
    with pytest.raises(KafkaError, match="is no pattern"):
        TopicPatterns(FakeBroker().catalog).names("g", "a(?=b)")
