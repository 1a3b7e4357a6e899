"""Offsets that are staged by transactions: rows, who has them, what becomes of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from gateway.broker.staged_offsets import PREFIX, StagedOffsets, prefix_of
from gateway.coordinators import offsets
from semantics.transactions import rows
from semantics.transactions.rows import RowError
from store.api import Delete, Family, Put, Write


def put(group: str, index: int, offset: int) -> Put:
    value = offsets.encode(offset, -1, 0, -1, bytes(16), None)
    return Put(Family.OFFSET, offsets.key(group, "t", index), value)


def applied(kept: dict[bytes, bytes], writes: list[Write]) -> None:
    """What a store has of the family `txn` then."""
    for write in writes:
        assert isinstance(write, Put | Delete)
        assert write.family is Family.TXN
        if isinstance(write, Put):
            kept[write.key] = write.value
        else:
            del kept[write.key]


def test_each_transaction_takes_or_drops_its_own() -> None:
    staged, kept = StagedOffsets([]), dict[bytes, bytes]()
    applied(kept, staged.stage("one", [put("g", 0, 5), put("g", 1, 6), put("h", 0, 7)]))
    applied(kept, staged.stage("one", [put("g", 0, 8)]))
    applied(kept, staged.stage("one2", [put("g", 0, 9)]))
    assert (staged.groups_of("one"), staged.groups_of("one2"), staged.groups_of("o")) == (
        {"g", "h"},
        {"g"},
        set(),
    )
    assert sorted(staged.of_group("g")) == [offsets.key("g", "t", 0), offsets.key("g", "t", 1)]
    # as a start finds it
    staged = StagedOffsets(kept.items())
    taken, writes = staged.end("one", committed=True)
    applied(kept, writes)
    assert taken == {"g": [put("g", 0, 8), put("g", 1, 6)], "h": [put("h", 0, 7)]}
    assert list(staged.of_group("g")) == [offsets.key("g", "t", 0)], "another has staged it as well"
    taken, writes = staged.end("one2", committed=False)
    applied(kept, writes)
    assert (taken, kept, len(staged)) == ({}, {}, 0)


def test_a_later_commit_beats_what_all_have_staged() -> None:
    staged, kept = StagedOffsets([]), dict[bytes, bytes]()
    for name in ("one", "two"):
        applied(kept, staged.stage(name, [put("g", 0, 5), put("g", 1, 6)]))
    names, writes = staged.beaten([offsets.key("g", "t", 0), offsets.key("g", "t", 7)])
    applied(kept, writes)
    assert names == {"one", "two"}
    assert staged.end("one", committed=True)[0] == {"g": [put("g", 1, 6)]}
    assert len(kept) == 2


def test_what_a_group_has_staged_is_found_without_a_look_at_others() -> None:
    def steps(others: int) -> int:
        """How many instructions it takes beside so many other groups."""
        staged, taken = StagedOffsets([]), 0
        staged.stage("one", [put("g", 0, 5), *(put(f"h{number}", 0, 5) for number in range(others))])

        def counted(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
            nonlocal taken
            frame.f_trace_opcodes = True
            taken += event == "opcode"
            return counted

        before = sys.gettrace()
        sys.settrace(counted)
        try:
            found = list(staged.of_group("g"))
        finally:
            sys.settrace(before)
        assert found == [offsets.key("g", "t", 0)]
        return taken

    assert 0 < steps(1000) == steps(1)


def test_a_group_has_nothing_staged_any_more_when_the_last_of_it_went() -> None:
    staged = StagedOffsets([])
    staged.stage("one", [put("g", 0, 5), put("g", 1, 6), put("h", 0, 7)])
    staged.stage("two", [put("g", 0, 5)])
    staged.beaten([offsets.key("g", "t", 1)])
    assert list(staged.of_group("g")) == [offsets.key("g", "t", 0)]
    staged.renew("one", [])
    assert (list(staged.of_group("g")), list(staged.of_group("h"))) == ([offsets.key("g", "t", 0)], [])
    staged.end("two", committed=False)
    assert (list(staged.of_group("g")), offsets.key("g", "t", 0) in staged, len(staged)) == ([], False, 0)


def test_it_is_read_again_where_memory_may_be_wrong() -> None:
    staged, kept = StagedOffsets([]), dict[bytes, bytes]()
    applied(kept, staged.stage("one", [put("g", 0, 5)]))
    staged.stage("one", [put("g", 1, 6)])
    staged.renew("one", [(key, value) for key, value in kept.items() if key.startswith(prefix_of("one"))])
    assert staged.end("one", committed=True)[0] == {"g": [put("g", 0, 5)]}


def test_keys_lie_beside_those_of_the_transaction_and_of_no_other() -> None:
    others = [rows.head_key("one"), rows.parts_prefix("one"), prefix_of("on"), prefix_of("one2")]
    (write,) = StagedOffsets([]).stage("one", [put("g", 0, 5)])
    assert isinstance(write, Put)
    assert write.key.startswith(PREFIX)
    assert not any(write.key.startswith(other) for other in others)


def test_a_key_that_ends_too_early_is_told() -> None:
    staged, kept = StagedOffsets([]), dict[bytes, bytes]()
    applied(kept, staged.stage("one", [put("g", 0, 5)]))
    staged = StagedOffsets([(prefix_of("one"), b""), *kept.items()])
    assert (len(staged.unreadable), len(staged)) == (1, 1)
    with pytest.raises(RowError):
        staged.renew("one", [(prefix_of("one"), b"")])
