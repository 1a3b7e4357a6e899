"""From which offset on nothing of a log is delayed, as batches come."""

from __future__ import annotations

import pytest

from gateway.broker import undelayed
from gateway.broker.undelayed import NEVER, Undelayed
from gateway.wire import records

NOW = 1_700_000_000_000


def batch(header: str = "", codec: int = 0) -> bytes:
    headers: list[tuple[str, bytes | None]] = [(header, b"1")] if header else []
    return records.build_batch([records.Record(0, NOW, b"k", b"v" * 5_000, headers)], 0, codec=codec)


PLAIN = batch("pulsar-something")


@pytest.mark.parametrize(
    "late",
    [
        batch("pulsar-deliver-after"),
        batch("pulsar-deliver-at"),
        *[batch(codec=codec) for codec in (1, 2, 3, 4)],
    ],
)
def test_it_begins_behind_the_last_that_may_have_a_delay(late: bytes) -> None:
    noted = Undelayed()
    noted.begin(7, 100)
    noted.came(7, [PLAIN, PLAIN], 102)
    assert noted.since(7) == 100
    noted.came(7, [PLAIN, late, PLAIN], 105)
    assert noted.since(7) == 105
    noted.came(7, [PLAIN], 106)
    assert (noted.since(7), noted.since(8)) == (105, NEVER)


def test_it_is_begun_once_and_goes_with_the_partition() -> None:
    noted = Undelayed()
    noted.begin(7, 100)
    noted.begin(7, 200)
    assert noted.since(7) == 100
    noted.leaves(7, 150)
    assert noted.since(7) == 100, "what is known of 50 records is worth its place"
    noted.leaves(7, 100)
    assert noted.since(7) == NEVER
    noted.begin(7, 300)
    noted.forget(7)
    noted.forget(7)
    assert noted.noted == {}


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undelayed, "MOST", 3)
    noted = Undelayed()
    for partition in range(5):
        noted.begin(partition, 10)
    assert [noted.since(partition) for partition in range(5)] == [NEVER, NEVER, 10, 10, 10]
