from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.transactions import rows
from semantics.transactions.rows import NO_TIME, Head, Last, RowError
from semantics.transactions.states import LAST_EPOCH, Partition, Producer, State

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "\0", "a", "ab", "a\0", "é"]
)
PARTITIONS = st.builds(Partition, st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1))
PRODUCERS = st.builds(Producer, st.integers(0, 2**63 - 1), st.integers(0, LAST_EPOCH))
TIMES = st.integers(0, 2**62)


@st.composite
def heads(draw: st.DrawFn) -> Head:
    state = draw(st.sampled_from(sorted(set(State) - {State.DEAD})))
    before = draw(PRODUCERS)
    last = {
        State.EMPTY: draw(st.sampled_from([None, Last(before, None)])),
        State.ONGOING: None,
        State.COMPLETE_COMMIT: Last(before, True),
        State.COMPLETE_ABORT: Last(before, False),
    }[state]
    start = NO_TIME if state is State.EMPTY else draw(TIMES)
    return Head(draw(PRODUCERS), draw(st.integers(1, 2**31 - 1)), state, start, draw(TIMES), last)


HEAD = Head(
    Producer(7, 5),
    60_000,
    State.COMPLETE_COMMIT,
    1_700_000_000_000,
    1_700_000_000_500,
    Last(Producer(7, 4), True),
)


@given(heads())
def test_a_head_is_read_as_it_was_written(head: Head) -> None:
    found = rows.read_head(rows.encode_head(head))
    assert found == head
    assert isinstance(found.state, State)
    assert found.last is None or isinstance(found.last.committed, bool | None)


def test_the_bytes_of_a_head_stay_what_they_are() -> None:
    """They are on disks."""
    assert rows.encode_head(HEAD).hex() == (
        "0104" "0000000000000007" "0005" "0000ea60" "0000018bcfe56800" "0000018bcfe569f4" "03" "0000000000000007" "0004"
    )  # fmt: skip
    assert rows.read_head(rows.encode_head(HEAD)) == HEAD


@given(NAMES, PARTITIONS, NAMES)
def test_parts_are_read_as_they_were_written(name: str, partition: Partition, group: str) -> None:
    row = rows.put_partition(name, partition)
    assert row.value is not None
    assert rows.read_part(row.key, row.value) == (name, partition)
    row = rows.put_group(name, group)
    assert row.value is not None
    assert rows.read_part(row.key, row.value) == (name, group)
    assert rows.read_head_key(rows.put_head(name, HEAD).key) == name
    every = rows.put_head(name, HEAD), rows.put_partition(name, partition), rows.put_group(name, group)
    assert {rows.name_of(each.key) for each in every} == {name}
    with pytest.raises(rows.RowError):
        rows.name_of(b"\x02" + every[0].key[1:])


@given(NAMES, NAMES, PARTITIONS, NAMES)
def test_a_scan_finds_what_is_of_one_id(name: str, other: str, partition: Partition, group: str) -> None:
    """Also if one id is the beginning of another, or looks like what follows it in a key."""
    prefix = rows.parts_prefix(name)
    for key in (rows.partition_key(other, partition), rows.group_key(other, group)):
        assert key.startswith(prefix) is (name == other)
        assert not key.startswith(rows.heads_prefix())
    assert rows.head_key(other).startswith(rows.heads_prefix())
    assert (rows.head_key(name) == rows.head_key(other)) is (name == other)


GOOD = rows.encode_head(HEAD)


def at(place: int, form: str, value: int, whole: bytes = GOOD) -> bytes:
    changed = bytearray(whole)
    struct.pack_into(form, changed, place, value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"", "0 bytes"),
        (GOOD[:-1], "42 bytes"),
        (GOOD + b"\0", "44 bytes"),
        (at(0, "B", 0), "begins with 00"),
        (at(0, "B", 2), "reads up to 1"),
        (at(0, "B", 2) + b"more", "reads up to 1"),
        (at(1, "B", 2), "state 2"),
        (at(1, "B", State.DEAD), "state 6"),
        (at(32, "B", 4), "says 4"),
        (at(10, ">h", -1), "cannot be true"),
        (at(10, ">h", 32_767), "cannot be true"),
        (at(1, "B", State.ONGOING), "cannot be true"),
        (at(1, "B", State.EMPTY), "cannot be true"),
        (at(1, "B", State.COMPLETE_ABORT), "cannot be true"),
        (at(32, "B", 0), "cannot be true"),
    ],
    ids=lambda case: case.hex()[:8] if isinstance(case, bytes) else case,
)
def test_a_bad_head_is_refused_in_words(value: bytes, said: str) -> None:
    with pytest.raises(RowError, match=said):
        rows.read_head(value)


PARTITION = rows.put_partition("name", Partition(b"t" * 16, 3))
GROUP = rows.put_group("name", "group")
ONE = b"\1"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (PARTITION.key, b"", "0 bytes"),
        (PARTITION.key, b"\2", "says 02"),
        (PARTITION.key[:-1], ONE, "neither"),
        (PARTITION.key + b"\0", ONE, "neither"),
        (rows.parts_prefix("name"), ONE, "neither"),
        (rows.parts_prefix("name") + b"\2group", ONE, "neither"),
        (rows.head_key("name"), ONE, "not of this kind"),
        (b"", ONE, "not of this kind"),
        (b"\1\0\0", ONE, "not of this kind"),
        (b"\1\0\0\0\5name", ONE, "ends within"),
        (b"\1\0\0\0\1\xff\1group", ONE, "not UTF-8"),
        (rows.parts_prefix("name") + b"\1\xff", ONE, "not UTF-8"),
    ],
    ids=lambda case: case.hex() if isinstance(case, bytes) else case,
)
def test_a_bad_part_is_refused_in_words(key: bytes, value: bytes, said: str) -> None:
    with pytest.raises(RowError, match=said):
        rows.read_part(key, value)


@pytest.mark.parametrize("key", [rows.head_key("name") + b"x", rows.head_key("name")[:-1], GROUP.key, b""])
def test_a_bad_key_of_a_head_is_refused(key: bytes) -> None:
    with pytest.raises(RowError):
        rows.read_head_key(key)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(key: bytes, value: bytes) -> None:
    for read in (
        lambda: rows.read_head(value),
        lambda: rows.read_part(key, ONE),
        lambda: rows.read_head_key(key),
        lambda: rows.name_of(key),
    ):
        try:
            read()
        except RowError:
            pass
