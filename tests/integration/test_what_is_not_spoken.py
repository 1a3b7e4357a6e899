"""Clients that want what is not served yet, or speak what a listener does not: each side says so."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from compat.peers.magnetar import MagnetarPeer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MagnetarPeer]:
    with MagnetarPeer(directory=tmp_path_factory.mktemp("unspoken")) as running:
        yield running


def first_error(client: Any, errors: list[KafkaError]) -> KafkaError:
    for _ in range(600):
        client.poll(0.1)
        if errors:
            return errors[0]
    raise AssertionError("no error in a minute")


def test_a_client_that_wants_to_log_in(gateway: MagnetarPeer) -> None:
    errors: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ada",
            "sasl.password": "lovelace",
            "error_cb": errors.append,
        }
    )
    assert "SASL" in first_error(producer, errors).str()
    assert "a client wants to log in, and this listener asks for no password" in gateway.log()
    assert "lovelace" not in gateway.log()


def test_a_client_that_speaks_tls(gateway: MagnetarPeer) -> None:
    errors: list[KafkaError] = []
    producer = Producer(
        {"bootstrap.servers": gateway.bootstrap, "security.protocol": "SSL", "error_cb": errors.append}
    )
    first_error(producer, errors)
    assert "a TLS client on a listener without TLS" in gateway.log()


def test_a_browser_on_the_port_of_kafka(gateway: MagnetarPeer) -> None:
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        urllib.request.urlopen(f"http://{gateway.bootstrap}/", timeout=30)
    assert "an HTTP client on a Kafka listener: HTTP is served at admin.listen" in gateway.log()
