"""A failure at every step of two overlapping groups: afterwards memory and store agree, and so does a new start."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from store import memory
from store.api import (
    Append,
    Durability,
    Family,
    Outcome,
    Put,
    Refused,
    Store,
    Unknown,
)
from tests.store.making import Clock, append, content, soon
from tests.store.rocksdb.faults import MODES, Faults, crash, open_faulty

SHAPES = {
    # sizes of the batches of the two groups; the large ones sync their segment and roll it
    "small": ([100, 200], [50]),
    "large": ([90_000, 90_000], [150_000]),
}


def first_group(ends: dict[int, int], sizes: list[int]) -> list[Append | Put]:
    return [
        append(1, ends[1], sizes),
        append(2, ends[2], sizes, carried=True),
        Put(Family.GROUP, b"first", b"x"),
    ]


def second_group(ends: dict[int, int], sizes: list[int]) -> list[Append | Put]:
    return [append(1, ends[1], sizes), append(3, ends[3], sizes), Put(Family.GROUP, b"second", b"x")]


async def prepare(store: Store) -> None:
    await store.write([append(1, 0, [300]), append(2, 0, [300])], Durability.FSYNC)
    for partition in (1, 2, 3):
        store.log(partition).configure(segment_bytes=200_000)


async def agree(store: Store, model: Store) -> None:
    """Everything that can be asked gives the same answer."""
    assert list(store.scan(Family.GROUP)) == list(model.scan(Family.GROUP))
    for partition in (1, 2, 3):
        log, wanted = store.log(partition), model.log(partition)
        assert (log.start_offset, log.end_offset, log.size) == (
            wanted.start_offset,
            wanted.end_offset,
            wanted.size,
        )
        assert await content(log) == await content(wanted)
        for offset in range(log.start_offset, log.end_offset):
            assert log.position_of(offset)[1:] == wanted.position_of(offset)[1:]
        assert await soon(log.max_timestamp_batch()) == await soon(wanted.max_timestamp_batch())


CLEANING = ("truncate", "unlink")
"""What is done to undo a group; it fails as well, every time, in a second run of each failure."""


async def run(
    folder: Path,
    durability: Durability,
    shape: str,
    plan: tuple[int, str] | None,
    after: str,
    broken: tuple[str, ...] = (),
) -> list[str]:
    """The scenario with one failure; `broken` operations fail always. Answers the operations that were seen."""
    clock, faults = Clock(), Faults()
    store = await open_faulty(
        folder / "data", faults, clock=clock, inline_bytes=-1, tail_cache_bytes=500, checkpoint_seconds=1e6
    )
    model = memory.open(clock=clock)
    await prepare(store)
    await prepare(model)
    sizes = SHAPES[shape]
    ends = {partition: store.log(partition).end_offset for partition in (1, 2, 3)}
    groups = [first_group(ends, sizes[0])]
    groups.append(second_group({1: ends[1] + len(sizes[0]), 3: 0}, sizes[1]))
    outcomes: list[Outcome] = []
    every = asyncio.Event()

    def done(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if len(outcomes) == 2:
            every.set()

    faults.arm(plan, gate=True)
    faults.broken.update(broken)
    store.commit(groups[0], durability, done)
    await asyncio.to_thread(faults.entered.wait, 10)
    store.commit(groups[1], durability, done)
    assert faults.go is not None
    faults.go.set()
    await every.wait()
    seen = list(faults.seen)
    # a second failure is another test's
    faults.disarm()

    struck = faults.struck
    if struck and not struck.endswith("stall"):
        assert any(outcome is not None for outcome in outcomes), struck
        if outcomes[0] is not None:
            assert outcomes[1] is not None, "what was queued behind a failure fails too"
            assert store.log(1).stale is False
    for number, (outcome, group) in enumerate(zip(outcomes, groups, strict=True)):
        name = (b"first", b"second")[number]
        there = store.get(Family.GROUP, name) is not None
        if outcome is None:
            assert there
        elif not isinstance(outcome, Unknown):
            assert not there, f"{struck}: {outcome!r} and yet it was written"
        if there:
            await model.write(group, durability)
    await agree(store, model)

    # the client tries again what was not done; what turned out to be there is not for it to know
    for number, outcome in enumerate(outcomes):
        if outcome is None or store.get(Family.GROUP, (b"first", b"second")[number]) is not None:
            continue
        ends = {partition: store.log(partition).end_offset for partition in (1, 2, 3)}
        again = (first_group, second_group)[number](ends, sizes[number])
        await store.write(again, durability)
        await model.write(again, durability)
    await agree(store, model)

    if after == "close":
        await store.close()
    else:
        await crash(store)
    reopened = await open_faulty(folder / "data", Faults(), clock=clock)
    assert not reopened.read_only
    await agree(reopened, model)
    more = [append(partition, reopened.log(partition).end_offset) for partition in (1, 2, 3)]
    await reopened.write(more, Durability.FSYNC)
    await model.write(more, Durability.FSYNC)
    await agree(reopened, model)
    await reopened.close()
    return seen


def cases() -> list[tuple[Durability, str, str]]:
    """What follows a clean end does not depend on the sizes."""
    crashes = [(durability, shape, "crash") for durability in Durability for shape in SHAPES]
    return [*crashes, *((durability, "large", "close") for durability in Durability)]


@pytest.mark.parametrize(("durability", "shape", "after"), cases())
def test_a_failure_at_every_step(folder: Path, durability: Durability, shape: str, after: str) -> None:
    (folder / "plain").mkdir()
    steps = asyncio.run(run(folder / "plain", durability, shape, None, after))
    assert "write" in steps
    assert "batch" in steps
    if durability is Durability.FSYNC:
        assert "wal" in steps
        assert ("sync" in steps) == (shape == "large")
    for number, step in enumerate(steps):
        for mode in MODES[step]:
            undone = after == "crash" and (step not in ("batch", "wal") or mode == "stall")
            for broken in ((), CLEANING) if undone else ((),):
                place = folder / f"{number}-{mode}-{len(broken)}"
                place.mkdir()
                try:
                    asyncio.run(run(place, durability, shape, (number, mode), after, broken))
                except BaseException as error:
                    error.add_note(
                        f"failure at step {number} ({step}) of {steps}, mode {mode}, also of {broken}"
                    )
                    raise
                shutil.rmtree(place)


def test_at_most_two_syncs_a_group(folder: Path) -> None:
    async def main() -> None:
        faults = Faults()
        store = await open_faulty(folder / "data", faults)
        ends = dict.fromkeys(range(64), 0)
        for sizes in ([100], [4000], [200_000]):
            for partitions in (range(64), range(1)):
                group = [append(partition, ends[partition], sizes) for partition in partitions]
                # segments exist: the sync of a new folder is not counted
                await store.write(group, Durability.FSYNC)
                for partition in partitions:
                    ends[partition] += len(sizes)
                faults.arm()
                await store.write(
                    [
                        append(partition, ends[partition], [size // 4 for size in sizes])
                        for partition in partitions
                    ],
                    Durability.FSYNC,
                )
                faults.disarm()
                for partition in partitions:
                    ends[partition] += len(sizes)
                syncs = [step for step in faults.seen if step in ("sync", "wal", "sync_folder")]
                assert syncs in (["wal"], ["sync", "wal"]), (sizes, len(partitions), faults.seen)
        await store.close()

    asyncio.run(main())


def test_segments_are_synced_before_the_batch_and_the_wal_after(folder: Path) -> None:
    async def main() -> None:
        faults = Faults()
        store = await open_faulty(folder / "data", faults)
        await store.write([append(1, 0)], Durability.FSYNC)
        faults.arm()
        # the segment was made by a group whose payload is in the journal: nobody has synced its name yet
        await store.write([append(1, 1, [300_000])], Durability.FSYNC)
        assert faults.seen == ["write", "sync", "sync_folder", "batch", "wal"]
        faults.arm()
        await store.write([append(1, 2, [300_000])], Durability.FSYNC)
        assert faults.seen == ["write", "sync", "batch", "wal"]
        faults.arm()
        await store.write([append(1, 3, [3000])], Durability.FSYNC)
        assert faults.seen == ["write", "batch", "wal"]
        faults.arm()
        await store.write([append(1, 4, [3000])], Durability.OS)
        assert faults.seen == ["write", "batch"]
        await store.close()

    asyncio.run(main())


def test_a_full_disk_refuses_and_recovers(folder: Path) -> None:
    async def main() -> None:
        faults = Faults()
        store = await open_faulty(folder / "data", faults)
        await store.write([append(1, 0)], Durability.OS)
        held = store.log(1)
        faults.arm((0, "short"))
        with pytest.raises(Refused, match="no space is left on the device"):
            await store.write([append(1, 1, [100, 100])], Durability.OS)
        faults.disarm()
        assert held.stale
        log = store.log(1)
        assert log.end_offset == 1
        assert [each.stat().st_size for each in (folder / "data" / "segments").glob("*/*")] == [log.size]
        await store.write([append(1, 1, [100, 100])], Durability.OS)
        assert len(await content(log)) == log.size
        assert [each.base_offset for each in log.segments()] == [0], "cut back, not given up"
        await store.close()

    asyncio.run(main())


def test_a_segment_whose_sync_failed_is_given_up(folder: Path) -> None:
    async def main() -> None:
        faults = Faults()
        store = await open_faulty(folder / "data", faults)
        await store.write([append(1, 0, [100])], Durability.FSYNC)
        faults.arm((1, "EIO"))
        with pytest.raises(Refused):
            await store.write([append(1, 1, [300_000])], Durability.FSYNC)
        assert faults.struck.startswith("sync")
        faults.disarm()
        await store.write([append(1, 1, [300_000])], Durability.FSYNC)
        assert [each.base_offset for each in store.log(1).segments()] == [0, 1]
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["before", "after"])
def test_after_an_unknown_outcome_a_new_file_is_begun_and_the_old_one_kept(folder: Path, mode: str) -> None:
    async def main() -> None:
        faults = Faults()
        store = await open_faulty(folder / "data", faults)
        await store.write([append(1, 0)], Durability.OS)
        faults.arm((1, mode))
        with pytest.raises(Unknown):
            await store.write([append(1, 1, [500])], Durability.OS)
        faults.disarm()
        (path,) = (folder / "data" / "segments").glob("*/*")
        kept = path.stat().st_size
        assert kept > 500, "the WAL may bring the row back, so the bytes stay"
        end = store.log(1).end_offset
        assert end == (1 if mode == "before" else 2), "what the store says is what counts"
        await store.write([append(1, end)], Durability.OS)
        assert [each.base_offset for each in store.log(1).segments()] == [0, end]
        assert path.stat().st_size == kept
        await store.close()

    asyncio.run(main())


def test_when_rocksdb_cannot_settle_commits_are_refused(folder: Path) -> None:
    async def main() -> None:
        faults = Faults()
        store = await open_faulty(folder / "data", faults)
        await store.write([append(1, 0)], Durability.FSYNC)
        faults.arm()
        faults.broken.update(("wal", "settle"))
        with pytest.raises(Unknown):
            await store.write([append(1, 1)], Durability.FSYNC)
        end = store.log(1).end_offset
        for _ in range(2):
            with pytest.raises(Refused):
                await store.write([append(1, end)], Durability.OS)
        # reads go on
        assert await content(store.log(1))
        faults.disarm()
        await store.write([append(1, end)], Durability.OS)
        assert store.log(1).end_offset == end + 1
        await store.close()

    asyncio.run(main())
