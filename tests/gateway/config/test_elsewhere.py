"""Kafka's settings that have no effect here: what is said to somebody who brings them along."""

from __future__ import annotations

from gateway.config import SETTINGS
from gateway.config.elsewhere import elsewhere
from tests.gateway.config.refused import problems


def test_a_family_of_kafkas_without_effect() -> None:
    assert problems("log.cleaner.threads=2", environ={"MAGNETAR_SSL_CLIENT_AUTH": "none"}) == [
        'variable MAGNETAR_SSL_CLIENT_AUTH: Kafka\'s "ssl.client.auth" has no effect here: '
        "nothing here asks who somebody is or encrypts until security comes.",
        '--set log.cleaner.threads=2: Kafka\'s "log.cleaner.threads" has no effect here: '
        "nothing is compacted yet.",
    ]


def test_nothing_that_has_an_effect_is_said_to_have_none() -> None:
    assert [name for name in SETTINGS if elsewhere(name) is not None] == []
