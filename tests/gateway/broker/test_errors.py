"""How the broker says no: what clients make of it, and what a person reads."""

from __future__ import annotations

import pytest

from gateway.broker.errors import KafkaError, RecordsRefused, from_code, from_store
from gateway.wire.errors import Error, retriable
from store.api import Corrupt, DiskFull, Fenced, Refused, StoreError, Unknown


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (Fenced("another owner has log 7"), Error.NOT_LEADER_OR_FOLLOWER, "another owner has log 7"),
        (DiskFull("ENOSPC"), Error.KAFKA_STORAGE_ERROR, "The disk of the gateway is full"),
        (
            Refused("a write before this one failed"),
            Error.KAFKA_STORAGE_ERROR,
            "a write before this one failed",
        ),
        (Unknown("the WAL"), Error.KAFKA_STORAGE_ERROR, "not stored: the WAL"),
        (Corrupt("Log 1", 3, 5, "a wrong CRC"), Error.KAFKA_STORAGE_ERROR, "Log 1"),
        (StoreError("EIO"), Error.KAFKA_STORAGE_ERROR, "EIO"),
    ],
)
def test_a_client_tries_again_whatever_went_wrong_with_the_store(
    error: StoreError, code: Error, words: str
) -> None:
    told = from_store(error)
    assert told.code is code
    assert retriable(told.code)
    assert words in str(told)


@pytest.mark.parametrize("code", list(Error))
def test_a_code_of_a_coordinator_is_the_error_of_that_number(code: Error) -> None:
    found = from_code(int(code))
    assert found.code is code
    # the log shows a name where nobody wrote a sentence; on the wire there is none
    assert (str(found), found.text) == (code.name, None)


def test_a_batch_that_is_refused_says_which_records_and_is_caught_like_every_other_no() -> None:
    refused = RecordsRefused(Error.INVALID_RECORD, "Two records have no key.", [(0, "no key"), (3, None)])
    with pytest.raises(KafkaError, match="Two records") as caught:
        raise refused
    assert caught.value.code is Error.INVALID_RECORD
    assert refused.records == [(0, "no key"), (3, None)]
