"""What one transaction has said of one partition of a subscription, all of it together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

from semantics.lanes.ranges import Ranges

if TYPE_CHECKING:
    from gateway.broker.staged_acks import Said, Span
    from semantics.lanes.marks import Verb


class Known:
    """Of each record what was said of it last."""

    __slots__ = ("_spans",)

    def __init__(self, those: Sequence[Said]) -> None:
        """`those`: in the order in which they were said."""
        spans = [each for said in those for each in said.spans]
        spans.sort(key=itemgetter(0))
        if any(other[0] <= one[1] for one, other in pairwise(spans)):
            # only where versions that left rows behind at a seek have written them
            spans = _last_of(those)
        self._spans = spans

    def says(self, first: int, last: int, verb: Verb, delay_ms: int | None) -> bool:
        """Whether this is what was said of all of `first` to `last`."""
        at = bisect_right(self._spans, first, key=itemgetter(0)) - 1
        while first <= last:
            if not 0 <= at < len(self._spans):
                return False
            span = self._spans[at]
            if not span.first <= first <= span.last or span[2:] != (verb, delay_ms):
                return False
            first, at = span.last + 1, at + 1
        return True

    def verdicts(self) -> dict[tuple[Verb, int | None], list[tuple[int, int]]]:
        """What is said -> the records of which that is, ascending and disjoint; none touches the next."""
        found: dict[tuple[Verb, int | None], list[tuple[int, int]]] = {}
        for first, last, verb, delay_ms in self._spans:
            ranges = found.setdefault((verb, delay_ms), [])
            if ranges and ranges[-1][1] == first - 1:
                ranges[-1] = ranges[-1][0], last
            else:
                ranges.append((first, last))
        return found


def _last_of(those: Sequence[Said]) -> list[Span]:
    covered = Ranges()
    found: list[Span] = []
    for said in reversed(those):
        for span in reversed(said.spans):
            for first, end in list(covered.outside(span.first, span.last + 1)):
                found.append(span._replace(first=first, last=end - 1))
            covered.add(span.first, span.last + 1)
    found.sort(key=itemgetter(0))
    return found
