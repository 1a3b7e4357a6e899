"""Nacks, dead letters and single acknowledgements for consumers of a queue topic: the metadata of their commits.

A commit of offset C on a queue topic acknowledges all that lies below it, but what its metadata names. Any Kafka client
can commit metadata; this module writes it, and needs nothing but Python:

    names = Names()
    ...
    names.nack(message.topic(), message.partition(), message.offset(), delay_ms=5_000)
    ...
    offset, metadata = names.fit(topic, partition, position)
    consumer.commit(offsets=[TopicPartition(topic, partition, offset, metadata)], asynchronous=False)
    names.committed(topic, partition, offset)

Names are repeated in every commit until `committed` says that one was answered: a commit that is lost, or made anew by
a library without its metadata, must not turn a nack into an acknowledgement.
"""

from __future__ import annotations

from collections.abc import Iterable

LIMIT = 4_096
"""Characters of metadata in one commit, as the gateway allows by default (offset.metadata.max.bytes)."""

_PREFIX = "ack1;"


class TooManyError(ValueError):
    """Not even one name fits into the metadata of a commit."""


class Names:
    """What a consumer has to say of single deliveries, by topic and partition. Not safe for several threads at once."""

    def __init__(self) -> None:
        # (topic, partition) -> offset -> what is said of it: the verb, with a delay if there is one
        self._said: dict[tuple[str, int], dict[int, str]] = {}
        # what the last metadata that was made says
        self._borne: dict[tuple[str, int], dict[int, str]] = {}

    def ack(self, topic: str, partition: int, offset: int) -> None:
        """It is done, though an earlier one is not."""
        self._say(topic, partition, offset, "a")

    def nack(self, topic: str, partition: int, offset: int, *, delay_ms: int | None = None) -> None:
        """Deliver it again: after so many ms, or after the subscription's own delay."""
        self._say(topic, partition, offset, _waiting("n", delay_ms))

    def dead_letter(self, topic: str, partition: int, offset: int) -> None:
        """Put it into the dead letter topic."""
        self._say(topic, partition, offset, "d")

    def retry_later(self, topic: str, partition: int, offset: int, *, delay_ms: int | None = None) -> None:
        """Put it into the retry letter topic, to be delivered after so many ms, or after the subscription's delay."""
        self._say(topic, partition, offset, _waiting("r", delay_ms))

    def metadata(self, topic: str, partition: int, offset: int, *, seek: bool = False) -> str:
        """The metadata of a commit of this offset, of whatever length. `seek`: the consumer seeks back to it now."""
        said = self._said.get((topic, partition), {})
        items = ["s"] if seek else []
        by_verb: dict[str, list[int]] = {}
        borne = self._borne[topic, partition] = {}
        for at in sorted(said):
            if (at >= offset) == (said[at] == "a"):
                by_verb.setdefault(said[at], []).append(at)
                borne[at] = said[at]
        items += [f"{verb}={_names(offsets)}" for verb, offsets in by_verb.items()]
        return _PREFIX + ";".join(items) if items else ""

    def fit(
        self, topic: str, partition: int, offset: int, *, seek: bool = False, limit: int = LIMIT
    ) -> tuple[int, str]:
        """The highest offset up to this one that can be committed with all its names, and the metadata.

        With very many names that is a lower one; commit it, and then the rest. Raises TooManyError when no commit fits
        that gets on.
        """
        metadata = self.metadata(topic, partition, offset, seek=seek)
        if len(metadata) <= limit:
            return offset, metadata
        said = self._said.get((topic, partition), {})
        # a commit just behind a name, or just before it, has the most for its length
        places = sorted({place for at in said for place in (at, at + 1) if place < offset})
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) // 2
            if len(self.metadata(topic, partition, places[middle], seek=seek)) <= limit:
                low = middle + 1
            else:
                high = middle
        if not low:
            raise TooManyError(
                f"{len(said)} names of {topic}-{partition} do not fit into {limit} characters."
            )
        return places[low - 1], self.metadata(topic, partition, places[low - 1], seek=seek)

    def committed(self, topic: str, partition: int, offset: int) -> None:
        """The commit of this offset with the metadata that was made last was answered without an error: its names are
        not repeated. What was said since then of an offset above it is.
        """
        said, borne = self._said.get((topic, partition)), self._borne.pop((topic, partition), {})
        if said is not None:
            for at in [at for at, verb in said.items() if at < offset or borne.get(at) == verb]:
                del said[at]
            if not said:
                del self._said[topic, partition]

    def lost(self, topic: str, partition: int) -> None:
        """The partition was revoked: what is to be said of it is another consumer's affair."""
        self._said.pop((topic, partition), None)
        self._borne.pop((topic, partition), None)

    def _say(self, topic: str, partition: int, offset: int, verb: str) -> None:
        if offset < 0:
            raise ValueError(f"An offset is 0 or more; not {offset}.")
        self._said.setdefault((topic, partition), {})[offset] = verb


def _waiting(verb: str, delay_ms: int | None) -> str:
    if delay_ms is None:
        return verb
    if delay_ms < 0:
        raise ValueError(f"A delay is 0 ms or more; not {delay_ms}.")
    return f"{verb}:{delay_ms}"


def _names(offsets: Iterable[int]) -> str:
    """Ascending offsets: the first by itself, and then by what lies between."""
    parts: list[str] = []
    first = last = before = -1
    for offset in (*offsets, -1):
        if offset == last + 1 and last >= 0:
            last = offset
            continue
        if last >= 0:
            length = last - first + 1
            if before < 0:
                parts.append(str(first) if length == 1 else f"{first}-{last}")
            else:
                parts.append(f"+{first - before}" if length == 1 else f"+{first - before}*{length}")
            before = last
        first = last = offset
    return ",".join(parts)
