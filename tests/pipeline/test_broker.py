"""Before Spark starts to work: is anything there, and which topics are meant."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pipeline.broker import choose, reach
from pipeline.errors import PipelineError

TOPICS = {"orders": 3, "payments": 1, "sales.eu": 2, "sales.us": 2}


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def silent() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_one_address_that_answers_is_enough(listening: int, silent: int) -> None:
    reach(f"127.0.0.1:{silent}, 127.0.0.1:{listening}")


def test_nothing_answers(silent: int) -> None:
    with pytest.raises(PipelineError, match=rf"nothing answers at .*127\.0\.0\.1:{silent}.*refused"):
        reach(f"127.0.0.1:{silent}")


@pytest.mark.parametrize("address", ["localhost", "localhost:kafka", ":9092"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(PipelineError, match="expected host:port"):
        reach(address)


def test_topics_by_name() -> None:
    assert choose(TOPICS, ("payments", "orders", "orders"), None) == ["orders", "payments"]


def test_a_pattern_matches_whole_names() -> None:
    assert choose(TOPICS, (), r"sales\..*") == ["sales.eu", "sales.us"]
    assert choose(TOPICS, (), "sales") == []


def test_a_missing_topic_is_named_with_the_nearest() -> None:
    with pytest.raises(PipelineError, match=r"topic order does not exist\. Did you mean orders"):
        choose(TOPICS, ("payments", "order"), None)


def test_a_bad_pattern_is_named() -> None:
    with pytest.raises(PipelineError, match="--pattern"):
        choose(TOPICS, (), "(")
