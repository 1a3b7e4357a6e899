"""Before Spark starts to work: is anything there, and which topics are meant."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from threading import Thread

import pytest
import trustme

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
    reach(f"127.0.0.1:{silent}, 127.0.0.1:{listening}", {})


def test_nothing_answers(silent: int) -> None:
    with pytest.raises(PipelineError, match=rf"nothing answers at .*127\.0\.0\.1:{silent}.*refused"):
        reach(f"127.0.0.1:{silent}", {})


@pytest.mark.parametrize("address", ["localhost", "localhost:kafka", ":9092"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(PipelineError, match="expected host:port"):
        reach(address, {})


@pytest.mark.parametrize("protocol", ["SSL", "sasl_ssl"])
def test_a_listener_of_tls_sees_a_whole_handshake(protocol: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("elsewhere.example").configure_cert(context)
    seen: list[bytes] = []

    def serve() -> None:
        with server.accept()[0] as connection, context.wrap_socket(connection, server_side=True) as secured:
            seen.append(secured.recv(1))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve)
        thread.start()
        reach(f"127.0.0.1:{server.getsockname()[1]}", {"kafka.security.protocol": protocol})
        thread.join()

    assert seen == [b""]


def test_who_does_not_speak_tls_is_there_all_the_same() -> None:
    def serve() -> None:
        server.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve)
        thread.start()
        reach(f"127.0.0.1:{server.getsockname()[1]}", {"kafka.security.protocol": "SSL"})
        thread.join()


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
