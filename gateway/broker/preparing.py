"""Batches whose records must be looked at, or changed, before they are stored: what a topic's configuration asks for.

Nothing here knows of a partition at work, so that what would keep the loop for long is done in a thread, before the
batch is appended. One batch is prepared at a time over all connections, and its own connection waits: the order of its
requests holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.errors import KafkaError, RecordError, RecordsRefused
from gateway.wire import letters, records, sequences
from gateway.wire.batch import BatchError, Header, header, reencode
from gateway.wire.errors import Error
from store.steps import step

if TYPE_CHECKING:
    from gateway.config.topic_configs import TopicConfig
    from gateway.wire.sequences import Said

NAMED_AT_MOST = 10_000
"""Records of a refused batch that are named: looking for all of a million takes seconds, and the answer 30 MB."""

AT_ONCE_US = 10_000
"""A request whose batches take longer than this to prepare, as far as can be guessed, has it done in a thread."""
WAITING_SHARE = 4
"""Requests that wait for the thread hold at most the fourth part of memory.max.bytes; others are prepared at once."""
_LETTER_US = 14
_LOOK_US = 2
_BYTES_A_US = 32
"""What a record of each costs, and how many bytes are unfolded or compressed meanwhile, in the order of magnitude."""


class Rules(NamedTuple):
    """What is to be done to the batches of a topic."""

    config: TopicConfig
    # the topic as Pulsar calls it, and (topic whose retries it has, subscription) of a retry letter topic
    full_name: str
    retries_of: tuple[str, str] | None

    @property
    def plain(self) -> bool:
        """Nothing: batches are stored as they come."""
        config = self.config
        return not (
            self.retries_of is not None
            or config.log_append_time
            or config.compact
            or config.compression is not None
            or config.timestamp_before_max_ms is not None
            or config.deduplicate
        )

    @property
    def deduplicates(self) -> bool:
        """Whether messages that were taken before are passed over. A retry letter has the headers of its message, each
        time that it comes.
        """
        return self.config.deduplicate and self.retries_of is None

    def cost(self, found: Header) -> int:
        """How long it may take, in microseconds, by what the batch says of itself."""
        config = self.config
        cost = 0
        if self.retries_of is not None:
            cost += found.count * _LETTER_US
        if self.deduplicates:
            cost += found.count * _LOOK_US
        if config.compact or (config.timestamp_before_max_ms is not None and not config.log_append_time):
            cost += found.count * _LOOK_US
        if cost or (config.compression is not None and found.codec != config.compression):
            cost += found.size // _BYTES_A_US
        return cost

    def said(self, batch: bytes, limit: int) -> list[Said | None] | None:
        """What its messages say of who sent them and which they are, if that matters. Raises BatchError."""
        return sequences.said(batch, limit) if self.deduplicates else None

    @step(after="retry.completed")
    def _completed(self, batch: bytes, real_topic: str, subscription: str, limit: int) -> bytes:
        """A batch of retry letters with the headers that they must have."""
        return letters.complete(batch, real_topic, self.full_name, subscription, limit)

    def prepare(self, batch: bytes, now: int, limit: int) -> bytes:
        """The batch as it is to be stored, but for its place in the log. `now` in ms since 1970; its records may unfold
        to `limit` bytes. Raises KafkaError, BatchError.
        """
        config = self.config
        if self.retries_of is not None:
            batch = self._completed(batch, *self.retries_of, limit)
        if config.compact and not all(keyed for _, _, keyed in records.skim(batch, limit)):
            raise refused(
                Error.INVALID_RECORD,
                "A compacted topic takes no records without a key.",
                (at for at, (_, _, keyed) in enumerate(records.skim(batch, limit)) if not keyed),
            )
        if config.timestamp_before_max_ms is not None and not config.log_append_time:
            oldest = now - config.timestamp_before_max_ms
            # -1 is a record without a timestamp
            if any(-1 != timestamp < oldest for _, timestamp, _ in records.skim(batch, limit)):
                raise refused(
                    Error.INVALID_TIMESTAMP,
                    "The record is older than message.timestamp.before.max.ms of this topic allows.",
                    (at for at, stamp in _stamps(batch, limit) if -1 != stamp < oldest),
                )
        if config.compression is not None and header(batch).codec != config.compression:
            batch = reencode(batch, config.compression, limit, config.compression_level)
        return batch


class Prepared:
    """A batch that was prepared by the rules of its time, or refused by them."""

    __slots__ = ("_batch", "_problem", "rules", "said")

    def __init__(self, rules: Rules, batch: bytes, now: int, limit: int) -> None:
        """Prepares it: may take long."""
        self.rules = rules
        self._batch = b""
        self._problem: KafkaError | BatchError | None = None
        self.said: list[Said | None] | None = None
        try:
            self.said = rules.said(batch, limit)
            self._batch = rules.prepare(batch, now, limit)
        except (KafkaError, BatchError) as error:
            self._problem = error

    def result(self) -> bytes:
        """See `Rules.prepare`."""
        if self._problem is not None:
            raise self._problem
        return self._batch


def _stamps(batch: bytes, limit: int) -> Iterator[tuple[int, int]]:
    return enumerate(stamp for _, stamp, _ in records.skim(batch, limit))


def refused(code: Error, why: str, ats: Iterable[int]) -> RecordsRefused:
    """A batch refused for the records at `ats`, each of which is told `why`.

    Records that are not named are told by their client that they were in one batch with such. A batch whose header says
    what no record of it does is refused without naming any.
    """
    found: list[RecordError] = [(at, why) for at in islice(ats, NAMED_AT_MOST)]
    return RecordsRefused(code, why, found)
