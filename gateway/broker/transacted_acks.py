"""Acknowledgements of single messages inside of transactions, at work: see `semantics/subscriptions/entrusted.py`.

What is said of a record is staged in the turn in which it comes; from then on a trustee of the transaction's name has
the record in hand. The end of the transaction does what was said, or has the trustee crash, in the turn of that end. A
cursor that is loaded meanwhile is told what trustees have before it deals anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.known_acks import Known
from gateway.broker.loading import until_loaded
from gateway.broker.staged_acks import PREFIX, Place, Said, Span, StagedAcks, joined, prefix_of, spans_of
from gateway.broker.subscriptions.entrusting import entrust, let_go, say, say_of
from gateway.wire.errors import Error
from semantics.lanes.marks import LARGEST, Verb
from semantics.subscriptions.states import Ending
from store.api import Family

if TYPE_CHECKING:
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.registry import Subscriptions
    from semantics.lanes.marks import Marks
    from store.api import Store, Write

Holds = Callable[[str, Sequence[tuple[int, int]]], Sequence[tuple[int, int]]]
"""A trustee, and records: what of them it holds."""

MOST_SPANS = 20_000
"""Ranges of records, of all partitions, of which a transaction may say something: its end does it all in one turn."""

MOST_AGAIN = 100_000
"""Records that one commit may name once more: each is looked up."""

_GONE = (Error.UNKNOWN_TOPIC_ID, Error.UNKNOWN_TOPIC_OR_PARTITION)


def trustee_of(transactional_id: str) -> str:
    """What a transaction is called as a holder of records."""
    return f"transaction {transactional_id}"


class Saying:
    """What one commit says in a transaction: given to whoever knows the records of which that is."""

    __slots__ = ("_again", "_known", "_staged", "_transactional_id", "trustee", "writes")

    def __init__(self, staged: StagedAcks, transactional_id: str) -> None:
        self._staged = staged
        self._transactional_id = transactional_id
        self.trustee = trustee_of(transactional_id)
        self.writes: list[Write] = []
        """what is to be stored in the open turn"""
        # what it has said so far, by place, for who asks of many records
        self._known: dict[Place, Known] = {}
        # records that were named again
        self._again = 0

    @property
    def full(self) -> bool:
        """Whether the transaction has said so much that nothing more is taken."""
        return self._staged.spans(self._transactional_id) >= MOST_SPANS

    def say(
        self,
        at: SubscriptionPartition,
        consumer: str,
        ranges: Sequence[tuple[int, int]],
        verb: Verb,
        delay_ms: int | None = None,
    ) -> None:
        """Of what the consumer holds of these; the rest is passed over. Raises KafkaError."""
        self._stage(at, spans_of(entrust(at, consumer, self.trustee, ranges), verb, delay_ms))

    def say_again(
        self, at: SubscriptionPartition, ranges: Sequence[tuple[int, int]], verb: Verb, delay_ms: int | None
    ) -> None:
        """Of what a lane has done with: a client asks once more. A delivery is named in one transaction: whatever else
        has become of it, who names it now does not have it. Raises KafkaError: INVALID_RECORD_STATE unless this very
        transaction has said the same of all of it.
        """
        known = self._known_at(at)
        for first, last in ranges:
            self._again += last - first + 1
            if self._again > MOST_AGAIN or not known.says(first, last, verb, delay_ms):
                raise KafkaError(
                    Error.INVALID_RECORD_STATE,
                    "A delivery that is named was settled before, or is to be delivered again.",
                )

    def say_of_anybodys(self, at: SubscriptionPartition, marks: Marks, member: str) -> Error:
        """What is named, all of it or nothing: of a member, or of whoever has it in hand where none is said. What lies
        below the first open record is in nobody's. What is said once more in the same words is said already: a producer
        asks again when the answer was lost. Raises KafkaError.
        """
        cursor, parts = at.ready(), []
        for mark in marks.named:
            if mark.first < cursor.start:
                return Error.INVALID_RECORD_STATE
            for first, last, who, failed in cursor.holders([mark[:2]]):
                if mark.count is not None and mark.count != failed + 1:
                    return Error.INVALID_RECORD_STATE
                if who == self.trustee and self._known_at(at).says(first, last, mark.verb, mark.delay_ms):
                    continue
                if who is None or who not in at.consumers or (member and who != member):
                    return Error.INVALID_RECORD_STATE
                parts.append((who, first, last, mark))
        spans: list[Span] = []
        for who, first, last, mark in parts:
            moved = say_of(at, who, self.trustee, [(first, last)])
            spans += spans_of(moved, mark.verb, mark.delay_ms)
        self._stage(at, spans)
        return Error.NONE

    def _known_at(self, at: SubscriptionPartition) -> Known:
        place = at.subscription.id, at.id
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = Known(self._staged.said_at(self._transactional_id, place))
        return known

    def _stage(self, at: SubscriptionPartition, spans: Sequence[Span]) -> None:
        if not spans:
            return
        its = at.subscription
        said = Said((its.id, at.id), its.group, its.topic_id, at.index, tuple(spans))
        self.writes += self._staged.stage(self._transactional_id, said)
        self._known.pop(said.place, None)


class TransactedAcks:
    """All of this node."""

    def __init__(self, store: Store, subscriptions: Callable[[], Subscriptions]) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self.staged = StagedAcks(store.scan(Family.TXN, PREFIX))

    def saying(self, transactional_id: str) -> Saying:
        """Something is about to be said in a transaction that is open, in the open turn."""
        return Saying(self.staged, transactional_id)

    def held_at(
        self, subscription: int, partition: int, began: Callable[[str], int]
    ) -> Iterable[tuple[str, list[tuple[int, int]]]]:
        """(trustee, records) of one partition of a subscription, as the store names them. `began`: when a transaction
        did. Rows of versions that left them behind at a seek may name a record for two: the later one comes first.
        """
        there = self.staged.at((subscription, partition))
        if len(there) > 1 and _overlap([each for _, ranges in there for each in ranges]):
            there.sort(key=lambda each: began(each[0]), reverse=True)
        return [(trustee_of(name), ranges) for name, ranges in there]

    def withdraw(self, subscription: int, partition: int, holds: Holds) -> tuple[list[str], list[Write]]:
        """Records of one partition of a subscription were moved from outside: see `StagedAcks.withdraw`. `holds`: what
        of some records a trustee holds.
        """
        return self.staged.withdraw(
            (subscription, partition), lambda name, ranges: holds(trustee_of(name), ranges)
        )

    def renew(self, transactional_id: str) -> None:
        """What is in memory may not be what is stored. Raises RowError, StoreError."""
        self.staged.renew(transactional_id, self._store.scan(Family.TXN, prefix_of(transactional_id)))

    # -- the end ------------------------------------------------------------------------------------------------------

    async def ready(self, transactional_id: str) -> None:
        """All cursors that the end needs can be had; whoever asks looks again whether they still can. Raises
        KafkaError.
        """
        for said, *_ in self.staged.of(transactional_id).values():
            await until_loaded(lambda said=said: self._at(said))  # type: ignore[misc]

    def check(self, transactional_id: str) -> None:
        """Whether they can, now. Raises KafkaError; Loading."""
        for said, *_ in self.staged.of(transactional_id).values():
            self._at(said)

    def _at(self, said: Said) -> SubscriptionPartition | None:
        """Where something was said; None if it is gone, and nobody asks for it. Raises KafkaError; Loading."""
        found = self._subscriptions().by_id(said.group, said.topic_id)
        if found is None or found.id != said.place[0]:
            return None
        try:
            at = found.partition(said.number)
            at.ready()
        except KafkaError as error:
            if error.code in _GONE:
                return None
            raise
        return at

    def end(self, transactional_id: str, *, committed: bool) -> list[Write]:
        """Do what was said, or give it all back, in the open turn. The cursors are `ready`. Raises KafkaError."""
        trustee = trustee_of(transactional_id)
        ending = Ending.STOPPED if committed else Ending.CRASHED
        for its in self.staged.of(transactional_id).values():
            at = self._at(its[0])
            if at is None:
                continue
            verdicts = Known(its).verdicts()
            if committed:
                for (verb, delay_ms), ranges in verdicts.items():
                    say(at, trustee, ranges, verb, delay_ms)
            # after a commit nothing is left in its hands
            let_go(at, trustee, ending, joined(each for ranges in verdicts.values() for each in ranges))
        return self.staged.end(transactional_id)


def check_of_share_group(marks: Marks) -> None:
    """Raises ValueError for what no share group can be told."""
    if marks.seek:
        raise ValueError("s is for queue topics: of a share group nothing can be sought by a commit.")
    if any(mark.last >= LARGEST for mark in marks.named):
        raise ValueError(f"An offset is {LARGEST}: there is no such record.")


def _overlap(ranges: list[tuple[int, int]]) -> bool:
    ranges.sort()
    return any(other[0] <= one[1] for one, other in pairwise(ranges))
