"""Which client library a member has."""

from __future__ import annotations

import pytest

from gateway.broker import client_software
from gateway.broker.client_software import ClientSoftware


def test_the_last_word_holds_and_who_said_it_longest_ago_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_software, "MOST", 2)
    software = ClientSoftware()
    assert software.of("/10.0.0.1", "a") == ""
    software.note("/10.0.0.1", "a", "librdkafka 1")
    software.note("/10.0.0.1", "b", "librdkafka 1")
    software.note("/10.0.0.1", "a", "librdkafka 2")
    assert software.of("/10.0.0.1", "a") == "librdkafka 2"
    software.note("/10.0.0.2", "a", "java 4")
    assert [software.of(*who) for who in (("/10.0.0.1", "a"), ("/10.0.0.1", "b"), ("/10.0.0.2", "a"))] == [
        "librdkafka 2", "", "java 4",
    ]  # fmt: skip
