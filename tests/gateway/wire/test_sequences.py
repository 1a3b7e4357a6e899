"""Names of producers and sequence ids in record headers."""

from __future__ import annotations

import pytest

from gateway.wire import sequences
from gateway.wire.batch import BatchError
from gateway.wire.records import Headers, Record, build_batch
from tests.gateway.wire.batches import CODECS

ID, NAME = sequences.SEQUENCE_ID, sequences.PRODUCER_NAME


def batch(*headers: Headers, codec: int = 0) -> bytes:
    return build_batch([Record(i, 0, None, b"v", each) for i, each in enumerate(headers)], codec=codec)


@pytest.mark.parametrize("codec", CODECS)
def test_of_each_record_what_it_says(codec: int) -> None:
    found = sequences.said(
        batch(
            [(ID, b"0")],
            [],
            [(NAME, b"p"), (ID, b"7")],
            [(NAME, b"p")],
            # the last one counts; an empty name is none
            [(ID, b"1"), (NAME, b"p"), (NAME, b""), (ID, b"8")],
            codec=codec,
        )
    )
    assert found == [(None, 0), None, (b"p", 7), None, (b"p", 8)]


@pytest.mark.parametrize("text", [b"", b"-1", b"x", b"1" * 20, None])
def test_what_is_no_number_is_no_sequence_id(text: bytes | None) -> None:
    assert sequences.said(batch([(ID, text)])) is None


def test_without_sequence_ids_no_record_is_opened() -> None:
    assert sequences.said(batch([(NAME, b"p")], [("x", b"pulsar-sequence")])) is None
    # the words alone, in a value
    assert sequences.said(build_batch([Record(0, 0, None, ID.encode(), [])])) is None


def test_damage_is_refused() -> None:
    whole = bytearray(batch([(ID, b"0")]))
    whole[61] = 0xFF
    with pytest.raises(BatchError):
        sequences.said(bytes(whole))
