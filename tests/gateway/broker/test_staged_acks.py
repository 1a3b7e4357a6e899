"""What is said of messages in an open transaction, as rows."""

from __future__ import annotations

from gateway.broker.staged_acks import Said, StagedAcks, spans_of
from semantics.lanes.marks import Verb
from store.api import Put


def said(partition: int, offset: int) -> Said:
    return Said((1, partition), "g", b"t" * 16, partition, tuple(spans_of([(offset, offset)], Verb.ACK)))


def test_what_is_said_behind_a_restart_takes_the_row_of_nothing_said_before() -> None:
    """Rows come by partition then, and no longer in the order in which they were said."""
    staged = StagedAcks(())
    rows: dict[bytes, bytes] = {}
    for number, partition in enumerate((7, 5, 7, 5, 5, 6)):
        for write in staged.stage("tx", said(partition, number)):
            assert isinstance(write, Put)
            assert write.key not in rows
            rows[write.key] = bytes(write.value)
        staged = StagedAcks(sorted(rows.items()))
    assert not staged.unreadable
    found = [
        each[:2] for partition in (5, 6, 7) for _, ranges in staged.at((1, partition)) for each in ranges
    ]
    assert found == [(1, 1), (3, 4), (5, 5), (0, 0), (2, 2)]
