"""Pulsar's message ids: `ledger:entry:partition:batch-index`.

An entry is one Kafka RecordBatch and the batch index is a record's place in it, so every record has an id of
four parts. Ids are stored mappings: an offset is never computed from one, nor the other way round.
"""

from __future__ import annotations

from typing import NamedTuple

_LARGEST = 2**63 - 1


class MessageIdError(ValueError):
    """A text or a JSON object that is no message id. The text says why, for a person."""


class MessageId(NamedTuple):
    """A place in a topic. It sorts as Pulsar's does; -1 stands for what is not said."""

    ledger: int
    entry: int
    partition: int = -1
    batch_index: int = -1

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}:{self.partition}:{self.batch_index}"

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Two to four numbers with colons between, or `earliest` or `latest`. Raises MessageIdError."""
        if text == "earliest":
            return EARLIEST
        if text == "latest":
            return LATEST
        parts = text.split(":")
        if not 2 <= len(parts) <= 4:
            raise MessageIdError(f"A message id is written ledger:entry:partition:batch-index; not {text!r}.")
        return cls(*[_number(part, text) for part in parts])

    @classmethod
    def from_json(cls, value: object) -> MessageId:
        """The form of Pulsar's REST calls: ledgerId and entryId, perhaps partitionIndex and batchIndex.

        Raises MessageIdError.
        """
        if not isinstance(value, dict):
            raise MessageIdError("A message id in JSON is an object with ledgerId and entryId.")
        numbers = []
        for key in ("ledgerId", "entryId", "partitionIndex", "batchIndex"):
            number = value.get(key, -1)
            if isinstance(number, bool) or not isinstance(number, int) or not -1 <= number <= _LARGEST:
                raise MessageIdError(
                    f"{key} of a message id is a whole number from -1 to 2^63-1; not {number!r}."
                )
            numbers.append(number)
        if "ledgerId" not in value or "entryId" not in value:
            raise MessageIdError("A message id in JSON has a ledgerId and an entryId.")
        return cls(*numbers)

    def to_json(self) -> dict[str, int]:
        """The form of Pulsar's REST answers."""
        return {
            "ledgerId": self.ledger,
            "entryId": self.entry,
            "partitionIndex": self.partition,
            "batchIndex": self.batch_index,
        }


EARLIEST = MessageId(-1, -1)
"""Before everything that is kept. Pulsar's constant."""

LATEST = MessageId(_LARGEST, _LARGEST)
"""After everything that is there now. Pulsar's constant."""


def _number(part: str, text: str) -> int:
    # int() would take "+1", "1_000" and digits of other scripts
    digits = part.removeprefix("-")
    if (
        not (digits.isascii() and digits.isdigit())
        or not -1 <= (number := int(part[:20])) <= _LARGEST
        or len(part) > 19
    ):
        raise MessageIdError(f"{part!r} in the message id {text!r} is not a number from -1 to 2^63-1.")
    return number
