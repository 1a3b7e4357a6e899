"""A short form of `make compare`: some of its scripts against a real Apache Kafka and a gateway of their own."""

from __future__ import annotations

import pytest

from compat.compare.__main__ import KAFKA, MAGNETAR, run
from compat.peers.kafka.peer import KafkaPeer
from compat.peers.magnetar import MagnetarPeer

pytestmark = pytest.mark.integration


def test_answers_are_kafkas_but_for_the_differences_that_stay() -> None:
    with KafkaPeer(settings=KAFKA, start_timeout=180) as kafka, MagnetarPeer(settings=MAGNETAR) as magnetar:
        result = run(kafka.bootstrap, magnetar.bootstrap, ["cluster", "committed", "group_admin", "odd"])
    assert result.unexplained == []
    assert result.answers > 800
    assert result.equal > 600
