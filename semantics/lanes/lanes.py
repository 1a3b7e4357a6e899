"""The lanes of one subscription: whose they are, how much each may give, and what a lost consumer leaves behind.

**A crash counts, but kills only what was served alone.** A consumer takes down with it whatever it had fetched. On most
clients that is thousands of records, one of which may be the reason. So all of them count one delivery, up to the one
before the last, and become suspects; they come again in ever smaller windows. The last delivery of a suspect is made
while its consumer has nothing else, on none of its lanes, here or of another queue topic of its group: who crashes then
was alone with the guilty one. A lane that nobody reads is passed over meanwhile: its consumer may have paused it.

A leave keeps what is open where it is. The first record that was open counts one delivery by the same rule, since it is
what the consumer had in work: so a record that makes its consumer close in good order dies, too. When only its last
delivery is left, what is open behind it is taken back, for it is to be alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from semantics.lanes.lane import Lane, Piece, Settled
from semantics.lanes.marks import Marks
from semantics.lanes.suspects import Suspects
from semantics.lanes.window import MOST


class Failed(NamedTuple):
    """Deliveries that failed with their consumer."""

    lane: int
    piece: Piece
    most: int | None
    """the count does not rise above that; None: it may reach the limit, and then the record is dead"""


class Crash(NamedTuple):
    """What a crash does, or a leave."""

    failed: list[Failed]
    returned: list[tuple[int, Piece]]
    """lane and deliveries that are available again, with the count that they have: nobody was sent them, or who was has
    left in good order
    """


class Lanes:
    """See the module. `limit`: deliveries of a record, 0 for no end; `shared`: any lane may get any record; `reads` a
    lane number: whether anybody does now.
    """

    __slots__ = ("_reads", "_suspected", "_suspects", "company", "lanes", "limit", "owners", "shared")

    def __init__(
        self,
        lanes: Sequence[Lane],
        limit: int,
        *,
        shared: bool,
        reads: Callable[[int], bool] = lambda number: True,
    ) -> None:
        self._reads = reads
        self.company = [self]
        """all queue topics of the group, which its members may read together: one list for all, with these in it"""
        self.lanes = list(lanes)
        self.limit = limit
        self.shared = shared
        self.owners: list[str | None] = [None] * len(self.lanes)
        """of each lane the member that has it"""
        one = Suspects()
        self._suspects = [one if shared else Suspects() for _ in self.lanes]
        # lanes with suspects: mostly none. Of Shared any lane stands for all
        self._suspected: set[int] = set()

    def suspects(self, number: int) -> Suspects:
        """Of a lane; all lanes of Shared have the same."""
        return self._suspects[number]

    @property
    def suspecting(self) -> bool:
        """Whether lanes may wait for the suspects on others."""
        return bool(self._suspected) or (
            len(self.company) > 1 and any(each._suspected for each in self.company)
        )

    def _looked(self, number: int) -> None:
        """The suspects of a lane are others now."""
        if self._suspects[number].number:
            self._suspected.add(number)
        elif self.shared:
            self._suspected.clear()
        else:
            self._suspected.discard(number)

    def follow(self, before: Lanes) -> None:
        """They stand in the place of these: whose they are is known, and what is suspect. Lanes that there are more are
        nobody's yet.
        """
        number = min(len(self.lanes), len(before.lanes))
        self.owners[:number] = before.owners[:number]
        if self.shared == before.shared:
            self._suspects = (
                [before._suspects[0]] * len(self.lanes)
                if self.shared
                else [*before._suspects[:number], *self._suspects[number:]]
            )
            self._suspected = {each for each in before._suspected if each < len(self.lanes)}

    def of(self, member: str) -> list[int]:
        """The lanes that a member has."""
        return [number for number, owner in enumerate(self.owners) if owner == member]

    # -- how much --------------------------------------------------------------------------------------------

    def room(self, number: int) -> int:
        """How many deliveries a lane may give now."""
        lane = self.lanes[number]
        room = max(self.bound(number) - lane.opened, 0)
        if not room:
            lane.window.filled()
        return room

    def bound(self, number: int) -> int:
        """How many deliveries of a lane may be open now."""
        return min(self.lanes[number].window.size, self._bound(number))

    def _bound(self, number: int) -> int:
        """What the suspects allow."""
        if not self.suspecting:
            return MOST
        suspects, owner = self._suspects[number], self.owners[number]
        if owner is None:
            beside = [(self, number)]
        else:
            beside = [(its, each) for its in self.company for each in its.of(owner)]
        alone = next(((its, each) for its, each in beside if its._last_rung(each)), None)
        if alone is not None:
            # one lane after the other, each when its consumer has nothing else
            if alone != (self, number):
                return 0
            return 0 if any(its.lanes[each].opened for its, each in beside if (its, each) != alone) else 1
        return suspects.bound(self.limit) if suspects.number else MOST

    def _last_rung(self, number: int) -> bool:
        """Whether the next delivery of one of its suspects is the last, and may be soon: nobody waits for a lane that
        its consumer has paused.
        """
        suspects = self._suspects[number]
        if not suspects.number or not self.limit or suspects.failed < self.limit - 1:
            return False
        return self._reads(number) or self.lanes[number].in_hand > 0

    def polled(self, number: int, found: Sequence[tuple[int, Sequence[tuple[int, int, int]]]]) -> bool:
        """A lane with room asked for records and was given these: by source, (first, last, failed). Returns True when
        there are no suspects any more, so that other lanes may have room.

        Suspects come before all others, unless they are held up by something else or are not there any more. Then
        nobody waits for them: the next crash makes suspects anew.
        """
        suspects = self._suspects[number]
        if not suspects.number:
            return False
        if any(suspects.has(source, first, last) for source, some in found for first, last, _ in some):
            return False
        open_ones = any(
            suspects.has(piece.run.source, first, last)
            for lane in (self.lanes if self.shared else [self.lanes[number]])
            for begin, end in lane.open_ranges(lane.open, lane.end)
            for piece in lane.pieces(begin, end)
            for first, last in piece.ranges()
        )
        if not open_ones:
            suspects.clear()
            self._looked(number)
        return not open_ones

    # -- what consumers do -----------------------------------------------------------------------------------

    def commit(self, number: int, offset: int, marks: Marks, now: int, *, member: bool = True) -> Settled:
        """See `Lane.commit`. Raises MarksError."""
        settled = self.lanes[number].commit(offset, marks, now, member=member)
        suspects = self._suspects[number]
        if suspects.number:
            for piece in (*settled.acked, *(piece for piece, _ in settled.marked)):
                suspects.remove(piece.run.source, piece.ranges())
            self._looked(number)
        return settled

    def crash(
        self, member: str, failed_now: Callable[[int, int], int], *, alone: bool | None = None
    ) -> Crash:
        """A member is lost. `failed_now`: how often the record of (source, offset) has failed by now. `alone`: whether
        it can have had one delivery only, as it was before this was told to any of the company.
        """
        failed: list[Failed] = []
        returned: list[tuple[int, Piece]] = []
        numbers = self.of(member)
        alone = self.alone(member) if alone is None else alone
        for number in numbers:
            lane = self.lanes[number]
            ended = lane.end_all()
            lane.window.crashed()
            failed += [Failed(number, piece, None) for piece in ended.served]
            returned += [(number, piece) for piece in ended.returned]
            lane.let_go()
            self.owners[number] = None
        if not alone:
            failed = [each._replace(most=max(self.limit - 1, 0) if self.limit else None) for each in failed]
        # by lane, source and how often they failed
        suspected: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        for number, piece, _ in failed:
            source = piece.run.source
            for first, last in piece.ranges():
                count = failed_now(source, first) + 1
                if alone and self.limit and count >= self.limit:
                    self._suspects[number].remove(source, [(first, last)])
                    self._looked(number)
                    continue
                count = min(count, self.limit - 1) if self.limit else count
                suspected.setdefault((number, source, count), []).append((first, last))
        for (number, source, count), ranges in suspected.items():
            self._suspects[number].add(source, ranges, count)
            self._looked(number)
        return Crash(failed, returned)

    def alone(self, member: str) -> bool:
        """Whether a member can have one delivery only, of all queue topics of its group."""
        return sum(its.lanes[number].in_hand for its in self.company for number in its.of(member)) == 1

    def leave(
        self, member: str, failed_now: Callable[[int, int], int], *, alone: bool | None = None
    ) -> Crash:
        """A member says that it goes: what counts one delivery, the first of each lane that it was sent. All stays open
        where it is, but where that record has come to its last delivery and was not alone: its lane begins anew, so
        that it is alone the next time. `failed_now` and `alone`: as for `crash`.
        """
        numbers = self.of(member)
        alone = self.alone(member) if alone is None else alone
        most = None if alone or not self.limit else self.limit - 1
        first: list[Failed] = []
        returned: list[tuple[int, Piece]] = []
        for number in numbers:
            lane = self.lanes[number]
            piece = lane.first_sent()
            if piece is not None:
                first.append(Failed(number, piece, most))
                source, ranges = piece.run.source, piece.ranges()
                count = failed_now(source, ranges[0][0]) + 1
                if most is not None and count >= most:
                    ended = lane.end_all()
                    returned += [(number, each) for each in (*ended.served, *ended.returned)]
                    self._suspects[number].add(source, ranges, most)
                elif self.limit and count >= self.limit:
                    self._suspects[number].remove(source, ranges)
                self._looked(number)
            lane.let_go()
            self.owners[number] = None
        return Crash(first, returned)

    def release(self, member: str) -> None:
        """A member has its lanes no more, and nothing counts for that."""
        for number in self.of(member):
            self.lanes[number].let_go()
            self.owners[number] = None
