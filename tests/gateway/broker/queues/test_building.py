"""What deliveries look like on the wire, whatever became of their batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gateway.broker.partition import Partition
from gateway.broker.queues.building import Builder, Sharing
from gateway.broker.queues.dealt import ROOM
from gateway.wire import delivery as wire
from gateway.wire.compression import GZIP, ZSTD
from gateway.wire.opened import Opened
from semantics.lanes.lane import Lane, Piece
from store.pending import drive
from tests.gateway.broker.queues.reading import numbers, parts
from tests.gateway.broker.subscriptions.disk import Disk
from tests.gateway.broker.subscriptions.world import World, run

EPOCH = 4


class Of:
    """A lane that is one of some, of which each has the offsets of its number, modulo how many there are."""

    def __init__(self, lane: int, lanes: int = 3) -> None:
        self.place = lane + 1
        self.lanes = lanes

    def places(self, first: int, end: int) -> NDArray[np.uint16]:
        return (np.arange(first, end) % self.lanes + 1).astype(np.uint16)

    def opened(self, base: int) -> Opened | None:
        return None


class Built:
    """What was made of one piece."""

    def __init__(self, buffers: list[Any], size: int, behind: int) -> None:
        self.buffers = buffers
        self.size = size
        self.behind = behind
        self.records = parts(buffers)
        assert size == sum(map(len, buffers))

    @property
    def values(self) -> list[bytes | None]:
        return list(self.records.values())


def piece(*ranges: tuple[int, int], at: int = 100) -> Piece:
    """Deliveries of these source offsets from lane offset `at` on."""
    lane = Lane(at)
    (made,) = lane.give(1, [(first, last, 0) for first, last in ranges])
    return Piece(made, made.at, made.end)


async def source(world: World, *sizes: int, **options: Any) -> Partition:
    """A partition with batches of so many records each, whose values are their offsets."""
    topic = await world.topic()
    partition = world.broker.partition(topic, 0)
    at = 0
    for size in sizes:
        await world.produce(*numbers(at, at + size), **options)
        at += size
    return partition


async def build(
    partition: Partition,
    wanted: Piece,
    max_bytes: int = 1 << 20,
    *,
    whole_first: bool = True,
    builder: Builder | None = None,
    sharing: Sharing | None = None,
    record_bytes: float = 100.0,
    whole: Callable[[int, int], bool] = lambda begin, end: True,
) -> Built:
    builder = builder or Builder(1 << 20)
    found = drive(
        builder.build(
            partition,
            wanted,
            EPOCH,
            max_bytes,
            record_bytes,
            whole_first=whole_first,
            whole=whole,
            sharing=sharing,
        )
    )
    return Built(*(found if isinstance(found, tuple) else await found))


def test_a_whole_batch_leaves_as_it_is_stored_but_for_its_base_and_epoch() -> None:
    async def test(world: World) -> None:
        partition = await source(world, 3, 4, 5, codec=GZIP)
        built = await build(partition, piece((0, 11)))
        assert built.records == {100 + n: b"%d" % n for n in range(12)}
        assert built.behind == 112
        stored = partition.log.read(0, 1 << 20)
        assert isinstance(stored, list)
        sent, kept = b"".join(map(bytes, built.buffers)), b"".join(map(bytes, stored))
        headers = list(wire.headers_of([sent]))
        assert [header.leader_epoch for _, _, header in headers] == [EPOCH] * 3
        for _, position, header in headers:
            assert sent[position + 8 : position + 12] == kept[position + 8 : position + 12]
            assert (
                sent[position + 16 : position + header.size] == kept[position + 16 : position + header.size]
            )

    run(test)


@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
def test_of_a_batch_that_others_have_a_part_of_its_records_come_with_offsets_that_follow(codec: int) -> None:
    async def test(world: World) -> None:
        partition = await source(world, 5, 5, codec=codec)
        built = await build(partition, piece((1, 1), (3, 3), (4, 6), (9, 9)))
        assert built.records == dict(zip(range(100, 106), [b"1", b"3", b"4", b"5", b"6", b"9"], strict=True))
        assert built.behind == 106
        assert all(
            header.leader_epoch == EPOCH for _, _, header in wire.headers_of([b"".join(built.buffers)])
        )

    run(test)


def test_who_comes_back_in_the_middle_of_a_batch_gets_the_rest() -> None:
    async def test(world: World) -> None:
        partition = await source(world, 6)
        whole, cut = piece((0, 5)), piece((0, 0), (2, 2), (3, 5))
        # a whole batch comes whole: clients pass over what lies before, as they do on Kafka
        built = await build(partition, whole._replace(begin=104))
        assert built.records == {100 + n: b"%d" % n for n in range(6)}
        assert built.behind == 106
        built = await build(partition, cut._replace(begin=102))
        assert built.records == {102: b"3", 103: b"4", 104: b"5"}

    run(test)


def test_what_was_trimmed_is_passed_over(folder: Any) -> None:
    async def test(world: World) -> None:
        partition = await source(world, 4, 4, 4)
        await world.broker.topics.delete_records(partition, 6)
        built = await build(partition, piece((0, 11)))
        # the batch that holds the start is there as it was
        assert built.records == {100 + n: b"%d" % n for n in range(4, 12)}
        assert built.behind == 112
        # single ones, of which the last is below the start too
        assert (await build(partition, piece((1, 1), (5, 5), (7, 7)))).records == {102: b"7"}
        gone = await build(partition, piece((0, 3), (5, 5)))
        assert (gone.records, gone.behind) == ({}, 105)

    run(test, folder)


def test_offsets_that_were_never_stored_are_passed_over() -> None:
    async def test(world: World) -> None:
        partition = await source(world, 2)
        partition.next_offset += 3
        await world.produce(b"5", b"6")
        built = await build(partition, piece((0, 6)))
        assert built.records == {100: b"0", 101: b"1", 105: b"5", 106: b"6"}
        assert (await build(partition, piece((1, 1), (3, 3), (6, 6)))).records == {100: b"1", 102: b"6"}
        assert (await build(partition, piece((1, 1), (4, 6)))).records == {100: b"1", 102: b"5", 103: b"6"}

    run(test)


def test_there_is_no_more_than_there_is_room_for() -> None:
    async def test(world: World) -> None:
        partition = await source(world, *[10] * 5)
        size = len(b"".join(map(bytes, partition.log.read(0, 1 << 20))))  # type: ignore[arg-type]
        some = await build(partition, piece((0, 49)), size // 2)
        assert 0 < some.size <= size // 2
        assert some.behind == 100 + len(some.records)
        rest = await build(partition, piece((0, 49))._replace(begin=some.behind))
        assert some.records | rest.records == {100 + n: b"%d" % n for n in range(50)}
        # behind something else there is nothing of what does not fit
        for room in (0, 10, 70):
            nothing = await build(partition, piece((0, 49)), room, whole_first=False)
            assert (nothing.records, nothing.behind) == ({}, 100)
        # as the first of an answer one batch comes all the same
        first = await build(partition, piece((0, 49)), 1)
        assert (first.values, first.behind) == (numbers(0, 10), 110)

    run(test)


def test_what_compressed_batches_unfold_to_is_bounded_by_the_room_and_one_batch() -> None:
    """A client must not be sent many times of what it asked for: some close the connection."""

    async def test(world: World) -> None:
        partition = await source(world)
        for _ in range(20):
            await world.produce(*[b"x" * 10_000] * 5, codec=ZSTD)
        wanted = piece(*[(n, n) for n in range(0, 100, 2)])
        built = await build(partition, wanted, 50_000)
        assert 50_000 <= built.size < 50_000 + 35_000
        assert built.behind == 100 + len(built.records)
        rest = await build(partition, wanted._replace(begin=built.behind), 1 << 20)
        assert len(built.records) + len(rest.records) == 50

    run(test)


def test_of_a_batch_that_cannot_be_opened_nothing_is_sent_and_the_others_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(world: World) -> None:
        partition = await source(world, 2)
        # more than it may unfold to
        await world.produce(b"x" * 100_000, b"y", codec=GZIP)
        await world.produce(b"4", b"5")
        built = await build(partition, piece((1, 2), (4, 4)), builder=Builder(10_000))
        assert (built.records, built.behind) == ({100: b"1", 102: b"4"}, 103)
        assert any("at offset 2 nothing is sent" in each.getMessage() for each in caplog.records)

    with caplog.at_level(logging.WARNING):
        run(test)


def test_a_batch_is_opened_once_for_all_lanes_and_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    original = Builder._keep

    def keep(self: Builder, key: tuple[int, int], found: Any) -> None:
        opened.append(key[1])
        original(self, key, found)

    monkeypatch.setattr(Builder, "_keep", keep)

    async def test(world: World) -> None:
        partition = await source(world, 10, 10, 10)
        builder = Builder(1 << 20, kept_bytes=1)
        for _ in range(3):
            for lane in range(10):
                await build(partition, piece((lane, lane)), builder=builder)
        assert opened == [0]
        for _ in range(2):
            await build(partition, piece((10, 10), (21, 21)), builder=builder)
        assert opened == [0, 10, 20, 10, 20]
        large = Builder(1 << 20)
        for _ in range(2):
            await build(partition, piece((1, 1), (11, 11), (21, 21)), builder=large)
        assert opened[5:] == [0, 10, 20]

    run(test)


def every(lane: int, end: int, lanes: int = 3, first: int = 0) -> Piece:
    """What a lane of some is given of [first, end)."""
    return piece(*((offset, offset) for offset in range(first, end) if offset % lanes == lane))


@pytest.mark.parametrize("codec", [0, GZIP])
def test_who_asks_first_has_a_batch_cut_for_all(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        partition = await source(world, 10, 10, 10, codec=codec)
        builder = Builder(1 << 20)
        for lane in range(3):
            built = await build(partition, every(lane, 30), builder=builder, sharing=Of(lane))
            assert built.values == [b"%d" % n for n in range(lane, 30, 3)]
            assert list(built.records) == list(range(100, 110))
            assert built.behind == 110
            for _, _, header in wire.headers_of([b"".join(map(bytes, built.buffers))]):
                assert header.leader_epoch == EPOCH
            # nobody reads it again
            monkeypatch.setattr(partition.log, "read", None)
        assert builder.dealt.room == ROOM, "all have had their parts"
        monkeypatch.undo()
        built = await build(partition, every(1, 30), builder=builder, sharing=Of(1))
        assert built.values == [b"%d" % n for n in range(1, 30, 3)], "who asks again is sent the same"

    run(test)


def test_who_has_others_than_its_keys_say_gets_what_it_was_given() -> None:
    async def test(world: World) -> None:
        partition = await source(world, 12, 12, 12)
        builder = Builder(1 << 20)
        await build(partition, every(0, 36), builder=builder, sharing=Of(0))
        for wanted in (
            piece((1, 1), (4, 4), (5, 5), (7, 7), (10, 10)),  # one more
            piece((1, 1), (7, 7), (10, 10), (13, 13)),  # one less
            every(1, 30, first=4),  # from the middle on, and up to the middle
            piece((1, 4)),
        ):
            built = await build(partition, wanted, builder=builder, sharing=Of(1))
            expected = [offset for first, last in wanted.ranges() for offset in range(first, last + 1)]
            assert built.values == [b"%d" % offset for offset in expected]
            assert list(built.records) == [100 + at for at in range(len(expected))]

    run(test)


def test_for_single_records_nothing_is_cut_for_others() -> None:
    async def test(world: World) -> None:
        partition = await source(world, 12, 12)
        builder = Builder(1 << 20)
        built = await build(partition, piece((4, 4), (13, 13)), builder=builder, sharing=Of(1))
        assert built.values == [b"4", b"13"]
        assert builder.dealt.room == ROOM

    run(test)


def test_for_one_answer_no_more_is_cut_than_takes_some_milliseconds() -> None:
    async def test(world: World) -> None:
        partition = await source(world, *[1_000] * 20)
        builder, wanted = Builder(1 << 20), every(1, 20_000)
        found: list[bytes | None] = []
        answers = []
        at = 100
        while at < wanted.end:
            built = await build(partition, wanted._replace(begin=at), builder=builder, sharing=Of(1))
            assert list(built.records) == list(range(at, built.behind))
            found += built.values
            answers.append(len(built.values))
            at = built.behind
        assert found == [b"%d" % n for n in range(1, 20_000, 3)]
        assert all(2_600 < number < 2_800 for number in answers[:-1])
        assert len(answers) == 3

    run(test)


@pytest.mark.parametrize("room", [0, 1_500])
def test_what_there_was_no_room_for_is_cut_again(room: int) -> None:
    async def test(world: World) -> None:
        partition = await source(world, *[10] * 6)
        builder = Builder(1 << 20, dealt_bytes=room)
        for lane in (2, 0, 1):
            built = await build(partition, every(lane, 60), builder=builder, sharing=Of(lane))
            assert built.values == [b"%d" % n for n in range(lane, 60, 3)]
            # a batch that is cut stays until the next is, whatever it takes
            assert builder.dealt.room > -1_000

    run(test)


def test_what_was_cut_for_a_lane_ends_where_its_answer_does() -> None:
    async def test(world: World) -> None:
        partition = await source(world, *[10] * 6)
        builder, wanted = Builder(1 << 20), every(1, 60)
        await build(partition, every(0, 60), builder=builder, sharing=Of(0))
        found: list[bytes | None] = []
        at, pieces = 100, 0
        while at < 120:
            built = await build(
                partition, wanted._replace(begin=at), 230, builder=builder, sharing=Of(1), whole_first=True
            )
            assert list(built.records) == list(range(at, built.behind))
            assert built.size <= 230
            found += built.values
            at, pieces = built.behind, pieces + 1
        assert found == [b"%d" % n for n in range(1, 60, 3)]
        assert pieces > 2
        await build(partition, every(0, 60), builder=builder, sharing=Of(0))
        nothing = await build(partition, wanted, 10, builder=builder, sharing=Of(1), whole_first=False)
        assert (nothing.behind, nothing.buffers) == (100, [])

    run(test)


def test_what_was_trimmed_is_not_sent_though_it_was_cut() -> None:
    async def test(world: World) -> None:
        partition = await source(world, 10, 10, 10)
        builder = Builder(1 << 20)
        await build(partition, every(0, 30), builder=builder, sharing=Of(0))
        monkeypatch = pytest.MonkeyPatch()
        with monkeypatch.context() as patch:
            patch.setattr(Partition, "log_start", property(lambda partition: 15))
            built = await build(partition, every(1, 30), builder=builder, sharing=Of(1))
        assert built.records == {100 + n: b"%d" % (3 * n + 1) for n in range(5, 10)}

    run(test)


def test_a_slow_disk_is_waited_for() -> None:
    async def test(world: World) -> None:
        partition = await source(world, 4)
        disk = Disk(partition.log)
        partition.log = disk
        found: Any = drive(
            Builder(1 << 20).build(
                partition,
                piece((0, 3)),
                EPOCH,
                1 << 20,
                100.0,
                whole_first=True,
                whole=lambda begin, end: True,
            )
        )
        task = asyncio.ensure_future(found)
        await asyncio.sleep(0)
        assert not task.done()
        await disk.go()
        assert Built(*await task).values == numbers(0, 4)

    run(test)


@pytest.mark.parametrize("ahead", [True, False])
def test_nothing_comes_that_was_taken_back(ahead: bool) -> None:
    async def test(world: World) -> None:
        partition = await source(world, 6)
        lane = Lane(100)
        lane.give(1, [(0, 5, 0)], ahead=ahead)
        lane.void(100, 102)
        lane.void(103, 104)
        first, rest = lane.readable(100, 106)
        assert (await build(partition, first, whole=lane.whole)).records == {102: b"2"}
        assert (await build(partition, rest, whole=lane.whole)).records == {104: b"4", 105: b"5"}

    run(test)
