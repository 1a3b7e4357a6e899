"""Kafka's settings that have no effect here: what is said to somebody who brings them along."""

from __future__ import annotations

import re

import pytest

from gateway.config import SETTINGS
from gateway.config.elsewhere import ELSEWHERE, FAMILIES, elsewhere
from tests.gateway.config.refused import problems


def test_a_family_of_kafkas_without_effect() -> None:
    assert problems("replica.fetch.max.bytes=2", environ={"MAGNETAR_SSL_PROVIDER": "none"}) == [
        'variable MAGNETAR_SSL_PROVIDER: Kafka\'s "ssl.provider" has no effect here: '
        "security here has no plug-ins; docs/SECURITY.md says what there is.",
        '--set replica.fetch.max.bytes=2: Kafka\'s "replica.fetch.max.bytes" has no effect here: '
        "a node here has no replicas.",
    ]


def test_a_slip_in_a_setting_that_there_is_is_told_first() -> None:
    assert problems("ssl.keystore.locaton=x", environ={"MAGNETAR_SASL_LOGIN_TIMEOUT_M": "1"}) == [
        "variable MAGNETAR_SASL_LOGIN_TIMEOUT_M: Did you mean MAGNETAR_SASL_LOGIN_TIMEOUT_MS? "
        'Kafka\'s "sasl.login.timeout.m" has no effect here: '
        "security here has no plug-ins; docs/SECURITY.md says what there is.",
        '--set ssl.keystore.locaton=x: Did you mean "ssl.keystore.location"? '
        'Kafka\'s "ssl.keystore.locaton" has no effect here: '
        "security here has no plug-ins; docs/SECURITY.md says what there is.",
    ]


@pytest.mark.parametrize(
    "name", ["ssl.keystore.key", "ssl.provider", "sasl.jaas.config", "ssl.truststore.certificates"]
)
def test_a_setting_of_kafkas_is_no_slip(name: str) -> None:
    (problem,) = problems(f"{name}=x")
    assert "Did you mean" not in problem


def test_nothing_that_has_an_effect_is_said_to_have_none() -> None:
    assert [name for name in SETTINGS if elsewhere(name) is not None] == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("log.dirs", 'Kafka\'s "log.dirs" has no effect here: use "data".'),
        ("log.cleaner.io.buffer.size", "segments are read and written a megabyte at a time"),
        ("log.flush.interval.ms", 'Kafka\'s "log.flush.interval.ms" has no effect here: use "durability".'),
        ("group.share.assignors", "every member of a share group gets every partition at once"),
        ("zookeeper.connect", "there is no ZooKeeper here"),
    ],
)
def test_what_to_do_instead_or_why(name: str, said: str) -> None:
    assert said in (elsewhere(name) or "")


@pytest.mark.parametrize("name", ["", "log", "log.dirs.x", "ssl", "my.own", "num.partitons"])
def test_a_name_that_means_nothing_here(name: str) -> None:
    assert elsewhere(name) is None


def test_what_is_advised_can_be_done() -> None:
    """Each setting that a sentence names is there, and each sentence is one."""
    for advice in (*ELSEWHERE.values(), *FAMILIES.values()):
        assert all(name in SETTINGS for name in re.findall(r'"([^"]*)"', advice)), advice
        assert not advice.endswith(".")
    assert all(start.endswith(".") or start.startswith("group.share.") for start in FAMILIES)
