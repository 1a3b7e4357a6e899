"""What an administrator does to single records, and what is left of it after a restart."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from semantics.subscriptions.chosen import Act
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.rows import CursorRow, RowKind
from semantics.subscriptions.states import Batch, Reason, Refusal

SHARED = SubscriptionConfig(nack_delay_ms=1_000, lock_ms=10_000, delivery_limit=0)
KEYED = SubscriptionConfig(type="key_shared", nack_delay_ms=1_000, lock_ms=10_000, delivery_limit=0)
ALL = [(0, 99)]
WHO = ("c1", "c2")


class Owned:
    def ranges(self) -> list[tuple[int, int, str]]:
        return [(0, 32_768, "c1"), (32_768, 65_536, "c2")]


class World:
    """A cursor over ten records, and the rows that it has written."""

    def __init__(self, config: SubscriptionConfig, slots: list[int] | None = None) -> None:
        self.rows: dict[tuple[RowKind, bytes], bytes] = {}
        self.cursor = Cursor.fresh(config, 0)
        for who in WHO:
            self.cursor.attach(who, 0)
        if slots is not None:
            self.cursor.reassign(Owned(), 0)
        self.cursor.feed([Batch(0, 10, array("H", slots) if slots else None, [(8, 5_000), (9, 6_000)])], 0, 0)

    def states(self) -> str:
        """A letter an offset: Available, b(l)ocked, in Hand, Backoff, delaYed, dying (X), Done (.)."""
        letters = {
            "AVAILABLE": "A",
            "BLOCKED": "L",
            "ACQUIRED": "H",
            "BACKOFF": "B",
            "DELAYED": "Y",
            "DYING": "X",
        }
        return "".join(letters.get(self.cursor.look(offset).state, ".") for offset in range(10))

    def write(self) -> None:
        for kind, key, value in self.cursor.writes():
            if value is not None:
                self.rows[kind, key] = value
            elif key or kind is RowKind.CURSOR:
                self.rows.pop((kind, key), None)
            else:
                self.rows = {at: row for at, row in self.rows.items() if at[0] is not kind}

    def restart(self) -> None:
        """Only what was written is left."""
        found = [CursorRow(kind, key, value) for (kind, key), value in sorted(self.rows.items())]
        self.cursor = Cursor.load(self.cursor.config, found, 0, 10, 0)


def shared() -> World:
    """0 and 1 are c1's, 2 is c2's, 3 backs off, 4 to 7 are free, 8 and 9 are delayed."""
    world = World(SHARED)
    world.cursor.poll("c1", 2, 0, 0)
    world.cursor.poll("c2", 2, 0, 0)
    assert world.cursor.acknowledge("c2", [(3, 3, b"\2")], 0, 0) is None
    assert world.states() == "HHHBAAAAYY"
    world.write()
    return world


def test_what_waits_is_delivered_now() -> None:
    world = shared()
    assert world.cursor.act(Act.DELIVER_NOW, [(2, 4), (9, 9)], WHO) == 2
    assert world.states() == "HHHAAAAAYA"
    # it is so after a restart, too, and its count stays
    world.write()
    world.restart()
    assert (world.cursor.look(3).state, world.cursor.look(3).count) == ("AVAILABLE", 1)
    assert (world.cursor.look(8).state, world.cursor.look(9).state) == ("DELAYED", "AVAILABLE")


def test_a_backoff_that_was_ended_does_not_shorten_the_next() -> None:
    world = shared()
    # others wait on: where nothing waits all due times go
    assert world.cursor.act(Act.DELIVER_NOW, [(3, 3)], WHO) == 1
    world.write()
    assert [each[:2] for each in world.cursor.poll("c1", 1, 500, 500)] == [(3, 3)]
    assert world.cursor.acknowledge("c1", [(3, 3, b"\2")], 500, 500) is None
    # it was due at 1,000 before
    world.cursor.tick(1_000, 1_000)
    assert world.cursor.look(3).state == "BACKOFF"
    world.cursor.tick(1_500, 1_500)
    assert world.cursor.look(3).state == "AVAILABLE"
    assert world.cursor.act(Act.DELIVER_NOW, ALL, WHO) == 2
    world.write()
    assert not [key for kind, key in world.rows if kind is RowKind.DUE], "nothing waits"


def test_what_backs_off_beside_it_goes_on_waiting() -> None:
    world = World(SHARED)
    world.cursor.poll("c1", 8, 0, 0)
    assert world.cursor.acknowledge("c1", [(0, 7, b"\2")], 0, 0) is None
    world.write()
    assert world.cursor.act(Act.DELIVER_NOW, [(2, 3), (6, 6)], WHO) == 3
    assert world.states() == "BBAABBABYY"
    world.write()
    world.cursor.tick(999, 999)
    assert world.states() == "BBAABBABYY"
    for _ in range(2):
        world.restart()
        world.cursor.due_loaded(
            [CursorRow(*at, row) for at, row in sorted(world.rows.items()) if at[0] is RowKind.DUE], True
        )
        assert world.states() == "BBAABBABYY"
    world.cursor.tick(1_000, 1_000)
    assert world.states() == "AAAAAAAAYY"


def test_what_is_open_is_settled_whoever_has_it() -> None:
    world = shared()
    assert world.cursor.act(Act.SETTLE, [(0, 0), (2, 5), (8, 8)], WHO) == 6
    assert world.states() == ".H....AA.Y"
    # a late word of who had it is answered as after a lock that ran out
    assert world.cursor.acknowledge("c2", [(2, 2, b"\1")], 20, 20) is Refusal.INVALID_RECORD_STATE
    assert world.cursor.holding() == {"c1": 1, "c2": 0}
    world.write()
    world.restart()
    assert world.states() == ".A....AA.Y"


def test_a_record_that_is_taken_back_is_the_next_ones() -> None:
    world = shared()
    assert world.cursor.act(Act.TAKE_BACK, [(1, 9)], WHO) == 2
    assert world.states() == "HAABAAAAYY"
    assert world.cursor.acknowledge("c1", [(1, 1, b"\1")], 20, 20) is Refusal.INVALID_RECORD_STATE
    # that counts as no delivery
    assert world.cursor.poll("c2", 2, 20, 20) == [(1, 2, 0)]
    assert world.cursor.holding() == {"c1": 1, "c2": 2}


def test_dead_letters_are_on_their_way() -> None:
    world = shared()
    assert world.cursor.act(Act.DEAD_LETTER, [(0, 0), (3, 4), (9, 9)], WHO) == 4
    assert world.states() == "XHHXXAAAYX"
    found = world.cursor.dying(10)
    assert [each[:2] for each in found] == [(0, 0), (3, 3), (4, 4), (9, 9)]
    assert {each.reason for each in found} == {Reason.REJECTED}
    # of deliveries that failed, not of this
    assert [each[2] for each in found] == [0, 1, 0, 0]
    # while they are written nothing else is done to them
    assert world.cursor.act(Act.SETTLE, ALL, WHO) == 6
    world.cursor.buried([each[:2] for each in found])
    assert world.cursor.stats()["open"] == 0


def test_what_is_to_be_a_dead_letter_is_that_after_a_restart() -> None:
    world = shared()
    assert world.cursor.act(Act.DEAD_LETTER, [(5, 5)], WHO) == 1
    world.write()
    world.restart()
    assert [each[:2] for each in world.cursor.dying(10)] == [(5, 5)]


def test_where_dead_letters_are_off_they_are_dropped() -> None:
    world = World(replace(SHARED, dead_letters=False))
    assert world.cursor.act(Act.DEAD_LETTER, [(0, 1), (8, 8)], WHO) == 3
    assert (world.states(), world.cursor.totals["dropped"]) == ("..AAAAAA.Y", 3)


@pytest.mark.parametrize("do", Act)
def test_what_a_trustee_has_stays_its_own(do: Act) -> None:
    world = shared()
    world.cursor.entrust("c1", "\0transaction", [(0, 0)], 0)
    world.cursor.act(do, [(0, 0)], WHO)
    assert world.cursor.holds("\0transaction", [(0, 0)]) == [(0, 0)]


def keyed() -> World:
    """Slots: 0 has offsets 0, 2, 4, …, 40,000 the others. 0 is c1's; 1 backs off, so that 3, 5, 7 wait for it."""
    world = World(KEYED, [0, 40_000] * 5)
    assert [each[:2] for each in world.cursor.poll("c1", 9, 0, 0)] == [(0, 0)]
    world.cursor.poll("c2", 9, 0, 0)
    assert world.cursor.acknowledge("c2", [(1, 1, b"\2")], 0, 0) is None
    assert world.states() == "HBLLLLLLYY"
    return world


def test_of_a_key_the_next_goes_when_the_first_is_settled() -> None:
    world = keyed()
    assert world.cursor.act(Act.SETTLE, [(0, 1)], WHO) == 2
    assert world.states() == "..AAAAAAYY"
    assert [each[:2] for each in world.cursor.poll("c1", 9, 20, 20)] == [(2, 2)]
    assert [each[:2] for each in world.cursor.poll("c2", 9, 20, 20)] == [(3, 3)]


def test_of_a_key_what_waits_may_go_and_the_rest_keeps_its_order() -> None:
    world = keyed()
    assert world.cursor.act(Act.SETTLE, [(2, 3)], WHO) == 2
    assert world.states() == "HB..LLLLYY"
    assert world.cursor.acknowledge("c1", [(0, 0, b"\1")], 20, 20) is None
    assert [each[:2] for each in world.cursor.poll("c1", 9, 20, 20)] == [(4, 4)]
    assert world.cursor.poll("c2", 9, 20, 20) == []


def test_of_a_key_a_record_that_is_taken_back_comes_before_the_others() -> None:
    world = keyed()
    assert world.cursor.act(Act.TAKE_BACK, [(0, 0)], WHO) == 1
    assert [each[:2] for each in world.cursor.poll("c1", 9, 20, 20)] == [(0, 0)]


def test_of_a_key_the_next_waits_until_the_first_is_a_dead_letter() -> None:
    world = keyed()
    assert world.cursor.act(Act.DEAD_LETTER, [(0, 1)], WHO) == 2
    assert world.states() == "XXLLLLLLYY"
    world.cursor.buried([each[:2] for each in world.cursor.dying(5)])
    assert world.states() == "..AAAAAAYY"


def test_of_a_key_what_waits_for_a_time_is_delivered_now() -> None:
    world = keyed()
    assert world.cursor.act(Act.DELIVER_NOW, [(1, 1), (8, 8)], WHO) == 2
    assert [each[:2] for each in world.cursor.poll("c2", 9, 20, 20)] == [(1, 1)]
    assert world.states() == "HHLLLLLLLY"
