"""Logs are compacted when that is due and when somebody asks, by a process of its own, and nobody is harmed by it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gateway.broker import aborted_transactions
from gateway.broker.compaction import State, Status
from gateway.broker.errors import KafkaError
from gateway.compaction import running
from gateway.compaction.messages import Work
from semantics.compaction import MARKERS_MS
from store.api import Family
from store.rocksdb.segments import REWRITTEN
from store.rocksdb.verify import verify
from tests.gateway.broker.compacted import (
    HOUR,
    applied,
    closed_to,
    compact,
    files,
    filled,
    held,
    offsets,
    partition,
    put,
    run,
    start,
)
from tests.gateway.broker.subscriptions.world import World
from tests.gateway.broker.transacted import coordinated, end
from tests.gateway.serving import batch


async def waits_for(world: World) -> str:
    """What keeps compaction of `t` from going on."""
    topic = world.broker.catalog.get("t")
    assert topic is not None
    return (await world.broker.compaction.held_back(topic, [0])).partition(":")[0]


def test_the_last_record_of_each_key_stays_and_what_is_not_closed(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        before = {each.offset: each for each in await world.read("t")}
        ids = {offset: partition(world).log.position_of(offset) for offset in before}
        dirty = closed_to(world)
        await applied(world)
        kept = [*range(dirty - 4, dirty), *range(dirty, 40)]
        assert await world.read("t") == [before[offset] for offset in kept]
        log = partition(world).log
        assert {offset: log.position_of(offset) for offset in kept} == {each: ids[each] for each in kept}
        metrics = world.broker.metrics
        assert metrics.compactions.labels("success").value == 1
        assert metrics.compaction_removed.value > 2000
        # what is clean is not compacted again
        await applied(world)
        assert metrics.compactions.labels("success").value == 1
        # and it stays so over a start
        await world.close()
        await start(world)
        await applied(world)
        assert world.broker.metrics.compactions.labels("success").value == 0
        assert await offsets(world) == kept
        # what comes then is compacted with it
        await put(world, *[(b"k0", b"new" + b"x" * 60)] * 8)
        await applied(world)
        assert [each.key for each in await world.read("t")][:3] == [b"k1", b"k2", b"k3"]

    run(test, tmp_path / "data")
    assert verify(tmp_path / "data").ok


@pytest.mark.parametrize(
    ("configs", "flags"),
    [
        ({"cleanup__policy": "delete"}, ()),
        ({"min__cleanable__dirty__ratio": "1"}, ()),
        ({"min__compaction__lag__ms": "1000"}, ()),
        ({}, ("log.cleaner.enable=false",)),
    ],
)
def test_what_is_not_due_stays_as_it_is(
    tmp_path: Path, configs: dict[str, Any], flags: tuple[str, ...]
) -> None:
    async def test(world: World) -> None:
        await filled(world, **configs)
        await applied(world)
        assert await offsets(world) == [*range(40)]

    run(test, tmp_path / "data", *flags)


def test_pulsars_threshold_counts_beside_the_ratio(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        size = 3000
        await filled(world, min__cleanable__dirty__ratio="1", pulsar__compaction__threshold=str(size))
        closed = sum(each.size for each in partition(world).log.segments() if not each.active)
        assert closed > size
        await applied(world)
        assert len(await offsets(world)) < 12

    run(test, tmp_path / "data")


def test_whoever_asks_has_all_of_it_compacted_at_once(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world, min__cleanable__dirty__ratio="1", min__compaction__lag__ms=str(HOUR))
        topic = world.broker.catalog.get("t")
        assert topic is not None
        assert world.broker.compaction.status(topic, [0]) == Status(State.NOT_RUN)
        assert await compact(world) == Status(State.SUCCESS)
        assert await offsets(world) == [36, 37, 38, 39]
        assert partition(world).high_watermark == 40
        await put(world, (b"k0", b"new"))
        assert await offsets(world) == [36, 37, 38, 39, 40]
        assert await compact(world) == Status(State.SUCCESS)
        assert await offsets(world) == [37, 38, 39, 40]
        # nothing is left to do
        assert await compact(world) == Status(State.SUCCESS)

    run(test, tmp_path / "data")


def test_a_topic_that_is_not_compacted_loses_nothing_for_somebody_asking(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world, cleanup__policy="delete")
        with pytest.raises(KafkaError, match=r"cleanup\.policy"):
            await compact(world)
        assert await offsets(world) == [*range(40)]

    run(test, tmp_path / "data")


def test_a_subscription_gets_every_message_unless_that_takes_too_long(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world, max__compaction__lag__ms=str(HOUR))
        at = await world.subscribe()
        await world.fetch(at, limit=13)
        await world.ack(at, *range(13))
        await applied(world)
        # below where it stands the last of each key is left
        assert await offsets(world) == [*range(9, 40)]
        assert await waits_for(world) == "Subscription g has not acknowledged offset 13 of partition 0"
        assert list(await world.fetch(at)) == [*range(13, 40)]
        await world.pass_time(HOUR + 1)
        await applied(world)
        assert await offsets(world) == [36, 37, 38, 39]
        assert await waits_for(world) == ""

    run(test, tmp_path / "data")


def test_who_asks_in_vain_is_told_what_it_waits_for(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        at = await world.subscribe()
        await compact(world)
        assert await offsets(world) == [*range(40)]
        assert await waits_for(world) == "Subscription g has not acknowledged offset 0 of partition 0"
        await world.fetch(at, limit=40)
        await world.ack(at, *range(40))
        assert await waits_for(world) == "", "it has gone on since"
        await compact(world)
        assert await offsets(world) == [36, 37, 38, 39]
        assert await waits_for(world) == ""

    run(test, tmp_path / "data")


def test_a_message_of_a_moment_ago_is_held_though_its_segment_is_late(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await world.topic(
            "t",
            1,
            cleanup__policy="compact",
            min__cleanable__dirty__ratio="0",
            max__compaction__lag__ms=str(HOUR),
        )
        at = await world.subscribe()
        await put(world, (b"k", b"0"))
        await world.pass_time(HOUR + 1)
        await put(world, (b"k", b"1"), (b"k", b"2"))
        await applied(world)
        assert list(await world.fetch(at)) == [0, 1, 2]
        # nothing comes into that segment any more, so that it is late as a whole some time
        await put(world, (b"k", b"3"))
        await world.pass_time(HOUR)
        await applied(world)
        assert await offsets(world) == [0, 1, 2, 3]
        await world.pass_time(1)
        await applied(world)
        assert await offsets(world) == [3]

    run(test, tmp_path / "data")


def test_a_subscription_that_comes_later_gets_what_there_is(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        await compact(world)
        at = await world.subscribe()
        assert list(await world.fetch(at)) == [36, 37, 38, 39]
        await world.ack(at, 36, 37, 38, 39)
        await put(world, (b"k0", b"new"))
        assert list(await world.fetch(at)) == [40]

    run(test, tmp_path / "data")


def test_records_of_aborted_transactions_never_win_and_what_is_open_is_not_touched(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        coordinated(world)
        await world.topic("t", 1, cleanup__policy="compact", min__cleanable__dirty__ratio="0")
        at = partition(world)

        async def transaction(sequence: int, committed: bool | None) -> None:
            data = batch(
                b"v", key=b"k", producer_id=9, producer_epoch=0, base_sequence=sequence, transactional=True
            )
            await world.append(data)
            if committed is not None:
                end(at, committed, producer_id=9)
                await world.settled()

        await put(world, (b"k", b"old"))
        await transaction(0, True)  # 1, marker 2
        await transaction(1, False)  # 3, marker 4
        await transaction(2, None)  # 5
        await put(world, (b"z", b"z"))  # 6
        await compact(world)
        # what was read is markers, too
        assert await offsets(world) == [1, 2, 4, 5, 6]
        assert aborted(world) == [4]
        end(at, True, producer_id=9)  # 7
        await world.settled()
        assert at.last_stable_offset == 8
        # readers may still ask about it
        await compact(world)
        assert await offsets(world) == [2, 4, 5, 6, 7]
        assert aborted(world) == [4]
        world.clock.now += 86_400_000
        await put(world, (b"z", b"zz"))
        await compact(world)
        assert aborted(world) == []
        # the marker of what is left stays
        assert await offsets(world) == [5, 7, 8]

    run(test, tmp_path / "data")


def aborted(world: World) -> list[int]:
    """The markers of those that readers are told of."""
    rows = world.store.scan(Family.ABORTED)
    return [aborted_transactions.decode(*row).marker for row in rows]


@pytest.mark.parametrize("age", [0, MARKERS_MS - 1, MARKERS_MS])
def test_readers_are_told_of_aborted_transactions_for_a_minute_whatever_the_topic_says(
    tmp_path: Path, age: int
) -> None:
    async def test(world: World) -> None:
        coordinated(world)
        await world.topic("t", 1, cleanup__policy="compact", delete__retention__ms="0")
        data = batch(b"v", key=b"k", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
        await world.append(data)
        end(partition(world), False, producer_id=9)
        await put(world, (b"z", b"z"))
        await compact(world)
        world.clock.now += age
        await put(world, (b"z", b"zz"))
        await compact(world)
        assert aborted(world) == ([] if age == MARKERS_MS else [1])

    run(test, tmp_path / "data")


def test_no_reader_is_ever_told_of_an_aborted_transaction_whose_marker_is_gone(tmp_path: Path) -> None:
    """It would pass over all that the producer wrote behind it: a marker says to readers where that ends."""

    async def test(world: World) -> None:
        coordinated(world)
        await world.topic("t", 1, cleanup__policy="compact", delete__retention__ms="0")
        for sequence, committed in enumerate((False, False, True, False)):
            data = batch(
                b"v", key=b"k", producer_id=9, producer_epoch=0, base_sequence=sequence, transactional=True
            )
            await world.append(data)
            end(partition(world), committed, producer_id=9)
            await world.settled()
        await put(world, (b"z", b"z"))
        await compact(world)
        assert aborted(world) == [1, 3, 7]
        world.clock.now += MARKERS_MS
        await put(world, (b"z", b"zz"))
        write = world.store.write
        commits: list[tuple[set[int], set[int]]] = []

        async def watched(*what: Any, **how: Any) -> Any:
            # as a reader would find it if the gateway died before this commit, or just after it
            commits.append((set(aborted(world)), set(await offsets(world))))
            done = await write(*what, **how)
            commits.append((set(aborted(world)), set(await offsets(world))))
            return done

        world.store.write = watched
        await compact(world)
        assert all(told <= there for told, there in commits)
        assert commits
        assert commits[-1][0] == set()
        assert await offsets(world) == [4, 5, 9]

    run(test, tmp_path / "data")


def test_tombstones_stay_for_as_long_as_the_topic_says(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await world.topic(
            "t",
            1,
            cleanup__policy="compact",
            delete__retention__ms=str(HOUR),
            min__cleanable__dirty__ratio="0",
        )
        await put(world, (b"k", b"1"), (b"k", None), (b"z", b"z"))
        await compact(world)
        assert await offsets(world) == [1, 2]
        world.clock.now += HOUR - 1
        await put(world, (b"y", b"y"))
        await compact(world)
        assert await offsets(world) == [1, 2, 3]
        world.clock.now += 1
        await put(world, (b"x", b"x"))
        await compact(world)
        assert await offsets(world) == [2, 3, 4]

    run(test, tmp_path / "data")


def test_one_pass_at_a_time_runs_on_a_partition(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        topic = world.broker.catalog.get("t")
        assert topic is not None
        begun, go = held(world)
        assert world.broker.compaction.ask(topic, [0])
        await begun.wait()
        assert world.broker.compaction.status(topic, [0]).state is State.RUNNING
        assert world.broker.metrics.compactions_running.value == 1
        assert not world.broker.compaction.ask(topic, [0])
        # by time neither
        await world.broker.compaction.apply()
        go.set()
        while world.broker.compaction.status(topic, [0]).state is State.RUNNING:
            await asyncio.sleep(0.01)
        assert world.broker.metrics.compactions.labels("success").value == 1

    run(test, tmp_path / "data")


def listed(world: World) -> tuple[list[int], asyncio.Event]:
    """Passes wait: the partitions for which one was begun, in that order; until they may go on."""
    begun: list[int] = []
    go = asyncio.Event()
    compacting: Any = world.broker.compaction._compacting

    async def run_later(work: Work, receiver: Any) -> Any:
        begun.append(receiver._number)
        await go.wait()
        return await running.run(work, receiver)

    compacting._run = run_later
    return begun, go


def test_what_is_due_waits_for_no_pass_beside_which_it_may_run(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        begun, go = listed(world)
        await world.broker.compaction.apply()
        while len(begun) < 1:
            await asyncio.sleep(0.01)
        await filled(world, topic="u")
        await world.broker.compaction.apply()
        while len(begun) < 2:
            await asyncio.sleep(0.01)
        assert begun == [partition(world).id, partition(world, "u").id]
        # and no more than two at a time
        await filled(world, topic="v")
        await world.broker.compaction.apply()
        assert world.broker.metrics.compactions_running.value == 2
        # the next one begins when one of them is over
        go.set()
        while world.broker.compaction.busy:
            await asyncio.sleep(0.01)
        assert begun == [partition(world, name).id for name in "tuv"]
        assert [len(await offsets(world, name)) < 12 for name in "tuv"] == [True] * 3

    run(test, tmp_path / "data", "log.cleaner.threads=2")


def test_many_partitions_are_looked_at_while_others_have_their_turn(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 450, cleanup__policy="compact")
        await world.broker.compaction.apply()
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await world.broker.compaction.apply()
        assert turns >= 4
        task.cancel()

    run(test, tmp_path / "data")


def test_what_comes_while_it_is_at_work_is_there(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        dirty = closed_to(world)
        begun, go = held(world)
        task = asyncio.create_task(applied(world))
        await begun.wait()
        await put(world, *[(b"k%d" % n, b"new" + b"x" * 60) for n in range(4)] * 3)
        go.set()
        await task
        assert await offsets(world) == [*range(dirty - 4, dirty), *range(dirty, 52)]

    run(test, tmp_path / "data")


def test_damage_is_told_and_nothing_is_taken_away(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world)
        at = partition(world).log.sources(5, 20)[0]
        content = bytearray(Path(at.path).read_bytes())
        content[-3] ^= 0xFF
        Path(at.path).write_bytes(content)
        assert (status := await compact(world)).state is State.ERROR
        assert Path(at.path).name in status.error
        topic = world.broker.catalog.get("t")
        assert topic is not None
        there = [each for each in partition(world).log.segments() if each.number >= REWRITTEN]
        assert there == []
        await world.store.checkpoint()
        assert not any(int(path.stem.split("-")[2]) >= REWRITTEN for path in files(world))

    run(test, tmp_path / "data")


def test_a_process_that_is_killed_has_done_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        await filled(world, once=True)
        made: list[asyncio.subprocess.Process] = []
        begin = asyncio.create_subprocess_exec

        async def watched(*arguments: str, **options: Any) -> asyncio.subprocess.Process:
            made.append(await begin(*arguments, **options))
            return made[-1]

        monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
        reserve = world.store.reserve

        async def killed(number: int, bases: list[int]) -> Any:
            places = await reserve(number, bases)
            os.kill(made[-1].pid, signal.SIGKILL)
            return places

        world.store.reserve = killed
        assert (status := await compact(world)).state is State.ERROR
        assert "signal 9" in status.error
        await world.store.checkpoint()
        assert not any(int(path.stem.split("-")[2]) >= REWRITTEN for path in files(world))
        assert await offsets(world) == [*range(40)]
        world.store.reserve = reserve
        assert (await compact(world)).state is State.SUCCESS
        assert await offsets(world) == [0, 36, 37, 38, 39]

    run(test, tmp_path / "data")


def test_a_stop_ends_the_process_and_the_next_start_removes_what_it_had_begun(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world, once=True)
        topic = world.broker.catalog.get("t")
        assert topic is not None
        reserved = asyncio.Event()
        reserve = world.store.reserve

        async def never(number: int, bases: list[int]) -> Any:
            await reserve(number, bases)
            reserved.set()
            await asyncio.Event().wait()

        world.store.reserve = never
        assert world.broker.compaction.ask(topic, [0])
        await reserved.wait()
        await world.broker.compaction.stop()
        assert world.broker.compaction.status(topic, [0]) == Status(State.ERROR, "The gateway stops.")
        await world.close()
        await start(world)
        assert await offsets(world) == [*range(40)]
        assert not any(int(path.stem.split("-")[2]) >= REWRITTEN for path in files(world))
        assert world.store.notices == []
        assert (await compact(world)).state is State.SUCCESS

    run(test, tmp_path / "data")


def test_a_map_that_is_full_ends_a_pass_and_the_next_goes_on(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world, 60, keys=30)
        compaction: Any = world.broker.compaction
        compaction._memory = lambda: 160 * 10
        dirty = closed_to(world)
        for _ in range(7):
            await applied(world)
        assert await offsets(world) == [*range(dirty - 30, 60)]
        assert world.broker.metrics.compactions.labels("success").value > 2

    run(test, tmp_path / "data")


def test_whoever_asks_has_as_many_passes_as_it_takes(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await filled(world, 60, keys=30, internal__segment__bytes="1000000")
        compaction: Any = world.broker.compaction
        compaction._memory = lambda: 160 * 20
        assert await compact(world) == Status(State.SUCCESS)
        assert await offsets(world) == [*range(30, 60)]
        assert world.broker.metrics.compactions.labels("success").value == 3

    run(test, tmp_path / "data")


def test_what_a_gateway_says_of_how_much_it_may_take(tmp_path: Path) -> None:
    flags = ("log.cleaner.threads=4", "log.cleaner.dedupe.buffer.size=8000000")

    async def test(world: World) -> None:
        compaction: Any = world.broker.compaction
        assert compaction._memory() == 1_800_000

    run(test, tmp_path / "data", *flags)


def test_no_topic_waits_longer_at_least_than_at_most(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, min__compaction__lag__ms="5", max__compaction__lag__ms="5")
        with pytest.raises(KafkaError, match=r"min\.compaction\.lag\.ms is 6"):
            await world.topic("u", 1, min__compaction__lag__ms="6", max__compaction__lag__ms="5")
        with pytest.raises(KafkaError, match=r"max\.compaction\.lag\.ms, 4"):
            await world.broker.topics.configure("t", lambda old: {**old, "max.compaction.lag.ms": "4"})

    run(test, tmp_path / "data")
