"""How a replay is cut into slices, in plain Python: what Spark counted goes in, ranges of offsets come out.

A slice takes the same share of every partition, so that all of them move on together and end together, and
it takes them in offset order: slice k is written and acknowledged before slice k + 1 begins, hence the order
within each partition is the order of the offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

MAX_BUCKETS = 50_000
"""Counts that Spark brings to the driver, at most (about; each partition has at least one)."""


class Place(NamedTuple):
    """A partition of a topic in the archive."""

    topic: str
    partition: int


class Span(NamedTuple):
    """What one partition holds: records, offsets and timestamps in ms since 1970, ends included."""

    records: int
    first: int
    last: int
    earliest: int
    latest: int


class Range(NamedTuple):
    """Offsets `start` <= offset < `end` of a partition, with so many records among them."""

    start: int
    end: int
    records: int


@dataclass(frozen=True)
class Slice:
    """A piece of the replay."""

    ranges: Mapping[Place, Range]

    @property
    def records(self) -> int:
        """Records in it."""
        return sum(part.records for part in self.ranges.values())


def bucket_width(spans: Mapping[Place, Span], target: int) -> int:
    """Over how many offsets to count together so that slices of `target` records can be told apart."""
    offsets = sum(span.last - span.first + 1 for span in spans.values())
    finest = -(-offsets // MAX_BUCKETS)
    useful = target // (8 * max(1, len(spans)))
    return max(1, finest, useful)


def cut(buckets: Mapping[Place, Sequence[tuple[int, int]]], width: int, target: int) -> list[Slice]:
    """Slices of about `target` records.

    `buckets`: for each partition (bucket number, records in it) for all that have any; bucket b covers the
    offsets from b * width to (b + 1) * width. A bucket is never cut, so a slice may be larger by one bucket
    a partition.
    """
    counts = {place: sum(count for _, count in found) for place, found in buckets.items()}
    total = sum(counts.values())
    slices = max(1, -(-total // target)) if total else 0
    cuts = {place: _shares(sorted(found), counts[place], slices) for place, found in buckets.items()}
    result = []
    for number in range(slices):
        ranges = {
            place: Range(shares[number][0] * width, (shares[number][1] + 1) * width, shares[number][2])
            for place, shares in cuts.items()
            if number in shares
        }
        if ranges:
            result.append(Slice(ranges))
    return result


def _shares(buckets: Iterable[tuple[int, int]], total: int, slices: int) -> dict[int, tuple[int, int, int]]:
    """Slice number -> first bucket, last bucket, records. A bucket goes where its first record belongs."""
    shares: dict[int, tuple[int, int, int]] = {}
    before = 0
    for bucket, count in buckets:
        number = before * slices // total
        first, _, so_far = shares.get(number, (bucket, bucket, 0))
        shares[number] = (first, bucket, so_far + count)
        before += count
    return shares
