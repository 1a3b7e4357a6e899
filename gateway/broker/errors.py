"""How the broker says no: a Kafka error code and a sentence for the person who reads it."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.wire.errors import Error
from store.api import DiskFull, Fenced, StoreError


class KafkaError(Exception):
    """A request that cannot be served; `code` goes onto the wire, `text` where the API has a message field."""

    def __init__(self, code: Error, text: str | None = None) -> None:
        super().__init__(text or code.name)
        self.code = code
        self.text = text


RecordError = tuple[int, str | None]
"""Which record of a batch, from 0, and why."""


class RecordsRefused(KafkaError):
    """A batch of which some records cannot be taken, so none is: `records` says which and why (KIP-467)."""

    def __init__(self, code: Error, text: str, records: Sequence[RecordError]) -> None:
        super().__init__(code, text)
        self.records = records


def from_code(code: int) -> KafkaError:
    """What a pure coordinator answered with, as an error to raise."""
    return KafkaError(next(error for error in Error if error == code))


def from_store(error: StoreError) -> KafkaError:
    """What a client is told when a commit failed: always retriable, since nothing was acknowledged."""
    if isinstance(error, Fenced):
        return KafkaError(Error.NOT_LEADER_OR_FOLLOWER, f"The write was not stored: {error}")
    if isinstance(error, DiskFull):
        return KafkaError(
            Error.KAFKA_STORAGE_ERROR, "The disk of the gateway is full; retry when there is space again."
        )
    return KafkaError(Error.KAFKA_STORAGE_ERROR, f"The write was not stored: {error}")
