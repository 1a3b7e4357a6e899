"""Unmodified clients over TLS, each with another way to log in: a part of `make compat-secured` that is quick."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat.harness import catalogue, secured
from compat.harness.__main__ import SETTINGS
from compat.harness.run import Results, run
from compat.peers.magnetar import MagnetarPeer
from compat.peers.secured import Secured

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

CASES = ["headers", "consume_by_group", "create_and_describe_topic"]


def told(gateway: MagnetarPeer, asks: Secured, ways: dict[str, str]) -> Results:
    """The cases with each of these clients, which logs in in its way."""
    found = Results()
    for way, name in ways.items():
        with secured.environment(way, asks) as environment:
            clients = [catalogue.clients()[name]]
            found.update(run(gateway.bootstrap, clients, cases=CASES, environment=environment, limit=60))
    return found


def passed(found: Results) -> list[str]:
    assert {key: one.detail or one.refused for key, one in found.outcomes.items() if not one.ok} == {}
    return sorted({name for name, _ in found.outcomes})


def test_clients_with_passwords_and_tokens(tmp_path: Path) -> None:
    asks = secured.server("oauthbearer", tmp_path / "secured")
    with MagnetarPeer(directory=tmp_path, settings=SETTINGS, secured=asks) as gateway:
        ways = {"scram-512": "python-confluent-kafka", "oauthbearer": "python-aiokafka"}
        assert passed(told(gateway, asks, ways)) == ["python-aiokafka", "python-confluent-kafka"]


def test_a_client_with_a_certificate(tmp_path: Path) -> None:
    asks = secured.server("mtls", tmp_path / "secured")
    with MagnetarPeer(directory=tmp_path, settings=SETTINGS, secured=asks) as gateway:
        assert passed(told(gateway, asks, {"mtls": "python-kafka-python"})) == ["python-kafka-python"]
