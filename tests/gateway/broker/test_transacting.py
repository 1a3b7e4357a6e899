"""Batches of transactions and their ends in one partition: what is taken, in which order it is stored, and up to where
readers of committed records may read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.broker import aborted_transactions
from gateway.broker.aborted_transactions import Aborted
from gateway.broker.clipping import clip
from gateway.broker.errors import KafkaError
from gateway.broker.partition import Partition
from gateway.wire import records
from gateway.wire.errors import Error
from store import rocksdb
from store.api import Append, Family, Put, Refused
from store.limits import CARRIED_BYTES
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import World, run
from tests.gateway.broker.transacted import coordinated, done, end, partition_of, plain, put
from tests.store.making import content
from tests.store.rocksdb.powercut import Recorder, Worst, open_recorded


async def started(world: World, store: Any = None) -> Partition:
    if store is not None:
        await world.start(store)
    coordinated(world)
    await world.topic()
    return partition_of(world)


async def stored(partition: Partition) -> list[tuple[int, str]]:
    """(offset, what it is) of every batch: a record's value, or the verdict of a marker with its epoch."""
    data = await content(partition.log)
    found = []
    for start, header in records.batches(data):
        (first, *_) = records.records(data[start : start + header.size])
        if header.control:
            assert first.key is not None
            verdict = "commit" if first.key[3] else "abort"
            found.append((header.base_offset, f"{verdict} {header.producer_id}/{header.producer_epoch}"))
        else:
            assert first.value is not None
            found.append((header.base_offset, first.value.decode()))
    return found


def aborted(world: World, partition: Partition) -> list[Aborted]:
    return aborted_transactions.overlapping(world.store, partition.id, 0, 1 << 40)


def refused(code: Error) -> Any:
    return pytest.raises(KafkaError, check=lambda error: error.code == code)


# -- what is taken ----------------------------------------------------------------------------------------------------


def test_the_coordinator_is_asked_once_of_each_batch_that_is_stored() -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        coordinator = coordinated(world)
        coordinator.rows = [Put(Family.META, b"joined", b"t-0")]
        assert put(partition, b"a", implicit=True) == 0
        assert put(partition, b"b", sequence=1) == 1
        # sent again: it is stored already, whatever became of its transaction
        assert put(partition, b"a") == 0
        with refused(Error.OUT_OF_ORDER_SEQUENCE_NUMBER):
            put(partition, b"d", sequence=3)
        assert coordinator.asked == [(7, 0, 0, True), (7, 0, 0, False)]
        assert await done(world) is None
        assert world.store.get(Family.META, b"joined") == b"t-0"

    run(test)


def test_of_a_batch_that_the_coordinator_refuses_nothing_is_left() -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        coordinator = coordinated(world)
        coordinator.refuses = KafkaError(Error.INVALID_TXN_STATE, "not added")
        with refused(Error.INVALID_TXN_STATE):
            put(partition)
        coordinator.refuses = None
        assert not end(partition)
        assert put(partition) == 0
        assert await done(world) is None
        assert await stored(partition) == [(0, "v")]

    run(test)


def test_a_batch_that_is_refused_for_its_records_joins_no_transaction() -> None:
    async def test(world: World) -> None:
        coordinator = coordinated(world)
        await world.topic(cleanup__policy="compact")
        partition = partition_of(world)
        with refused(Error.INVALID_RECORD):
            put(partition, b"without a key")
        assert coordinator.asked == []
        assert not end(partition)

    run(test)


def test_transactions_of_the_newer_kind_begin_at_zero() -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        with refused(Error.OUT_OF_ORDER_SEQUENCE_NUMBER):
            put(partition, sequence=3, implicit=True)
        assert put(partition, sequence=3) == 0, "older clients go on where the partition forgot them"

    run(test)


def test_a_plain_batch_of_a_producer_in_a_transaction_is_refused() -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        put(partition)
        with refused(Error.INVALID_TXN_STATE):
            put(partition, sequence=1, transactional=False)
        assert put(partition, producer_id=8, transactional=False) == 1
        assert plain(partition) == 2
        end(partition)
        assert put(partition, sequence=1, transactional=False) == 4

    run(test)


def test_a_batch_of_a_transaction_must_have_a_producer() -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        with refused(Error.INVALID_TXN_STATE):
            put(partition, producer_id=-1, epoch=-1)

    run(test)


def test_what_is_not_persistent_takes_no_part() -> None:
    async def test(world: World) -> None:
        coordinated(world)
        await world.topic(pulsar__persistence="non-persistent")
        with refused(Error.POLICY_VIOLATION):
            put(partition_of(world))

    run(test)


def test_of_a_batch_of_a_transaction_no_message_is_left_out_as_a_duplicate() -> None:
    async def test(world: World) -> None:
        coordinated(world)
        await world.topic(pulsar__deduplication="true")
        partition = partition_of(world)

        def named(*ids: int, sequence: int) -> None:
            listed = [
                records.Record(
                    at,
                    1_000,
                    None,
                    b"%d" % number,
                    [("pulsar-producer-name", b"p"), ("pulsar-sequence-id", b"%d" % number)],
                )
                for at, number in enumerate(ids)
            ]
            data = records.build_batch(
                listed, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True
            )
            partition.append(data, records.header(data), 1_000)

        named(1, 2, sequence=0)
        named(2, 3, sequence=2)
        assert await done(world) is None
        data = await content(partition.log)
        assert [
            (header.base_offset, header.count, header.transactional) for _, header in records.batches(data)
        ] == [(0, 2, True), (2, 2, True)]
        # all of it was stored before: it begins the next transaction all the same
        assert end(partition)
        named(3, sequence=4)
        assert end(partition)

    run(test)


# -- their order ------------------------------------------------------------------------------------------------------


def test_one_turn_has_batches_and_markers_in_the_order_in_which_they_came() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        partition = await started(world, store)
        before = len(store.commits)
        plain(partition, b"before")
        put(partition, b"a1")
        put(partition, b"b1", producer_id=8)
        assert end(partition, committed=False)
        plain(partition, b"between")
        # the same producer begins its next transaction behind its marker
        put(partition, b"a2", sequence=1)
        assert end(partition, committed=True)
        plain(partition, b"behind")
        assert await done(world) is None
        assert len(store.commits) == before + 1
        assert await stored(partition) == [
            (0, "before"),
            (1, "a1"),
            (2, "b1"),
            (3, "abort 7/0"),
            (4, "between"),
            (5, "a2"),
            (6, "commit 7/0"),
            (7, "behind"),
        ]
        assert aborted(world, partition) == [Aborted(3, 7, 1)]
        assert partition.last_stable_offset == 2

    run(test)


def test_a_marker_may_have_a_later_epoch_and_sequence_numbers_begin_anew() -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        put(partition, b"a")
        put(partition, b"b", sequence=1)
        assert end(partition, epoch=1)
        with refused(Error.INVALID_PRODUCER_EPOCH):
            put(partition, b"late", sequence=2)
        assert put(partition, b"c", epoch=1, implicit=True) == 3
        assert await done(world) is None
        assert (await stored(partition))[2:] == [(2, "commit 7/1"), (3, "c")]

    run(test)


def test_a_partition_without_records_of_it_gets_no_marker() -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        assert not end(partition)
        put(partition)
        assert end(partition)
        assert not end(partition), "it is over"
        assert await done(world) is None
        assert await stored(partition) == [(0, "v"), (1, "commit 7/0")]

    run(test)


# -- up to where readers may read -------------------------------------------------------------------------------------


def test_readers_go_on_when_the_commit_with_the_marker_is_done() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        partition = await started(world, store)
        plain(partition)
        assert await done(world) is None
        store.holding = True
        put(partition)
        plain(partition)
        await store.has(1)
        assert (partition.high_watermark, partition.last_stable_offset) == (1, 1)
        store.land()
        assert (partition.high_watermark, partition.last_stable_offset) == (3, 1)
        end(partition)
        await store.has(1)
        # behind its end, which is not stored, the producer goes on
        put(partition, sequence=1)
        await store.has(2)
        assert partition.last_stable_offset == 1
        store.land()
        assert (partition.high_watermark, partition.last_stable_offset) == (4, 4)
        store.land()
        assert (partition.high_watermark, partition.last_stable_offset) == (5, 4)
        store.release()

    run(test)


def test_it_is_never_below_the_start_of_the_log() -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        put(partition)
        plain(partition)
        assert await done(world) is None
        await world.broker.topics.delete_records(partition, 2)
        plain(partition)
        assert await done(world) is None
        assert (partition.last_stable_offset, partition.high_watermark) == (2, 3)
        assert end(partition)
        assert await done(world) is None
        assert partition.last_stable_offset == 4

    run(test)


def test_a_failed_end_is_no_end() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        partition = await started(world, store)
        put(partition)
        assert await done(world) is None
        store.holding = True
        end(partition, committed=False)
        put(partition, sequence=1)
        await store.has(1)
        store.fail(Refused("full"))
        store.holding = False
        assert partition.stale
        with refused(Error.NOT_LEADER_OR_FOLLOWER):
            end(partition)
        again = partition_of(world)
        assert (again.high_watermark, again.last_stable_offset) == (1, 0)
        assert aborted(world, again) == []
        assert end(again)
        assert await done(world) is None
        assert await stored(again) == [(0, "v"), (1, "commit 7/0")]
        assert again.last_stable_offset == 2

    run(test)


def test_open_ones_are_open_after_a_restart(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        put(partition, b"a")
        put(partition, b"b", producer_id=8)
        end(partition, committed=False)
        put(partition, b"c", producer_id=9)
        assert await done(world) is None
        await world.crash()
        coordinated(world)
        partition = partition_of(world)
        assert partition.last_stable_offset == 1
        assert aborted(world, partition) == [Aborted(2, 7, 0)]
        assert end(partition, producer_id=8)
        assert await done(world) is None
        assert partition.last_stable_offset == 3
        assert end(partition, producer_id=9, epoch=4)
        assert await done(world) is None
        assert partition.last_stable_offset == 6

    run(test, tmp_path / "data")


# -- power cuts -------------------------------------------------------------------------------------------------------


def appends(store: HeldStore) -> list[Append]:
    return [write for writes in store.commits for write in writes if isinstance(write, Append)]


def test_what_is_of_a_transaction_does_not_get_lost_apart_from_it() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        partition = await started(world, store)
        plain(partition)
        assert await done(world) is None
        put(partition)
        assert await done(world) is None
        assert not partition.transacting.to_sync(7)
        # too large to be carried
        put(partition, b"x" * CARRIED_BYTES, sequence=1)
        assert await done(world) is None
        assert partition.transacting.to_sync(7) == (partition.id, 1)
        assert not partition.transacting.to_sync(8)
        end(partition)
        assert await done(world) is None
        assert not partition.transacting.to_sync(7)
        plain(partition)
        assert await done(world) is None
        assert [each.carried for each in appends(store)] == [False, True, False, True, False]

    run(test)


def test_of_what_is_synced_anyhow_nothing_is_left_to_sync() -> None:
    async def test(world: World) -> None:
        coordinated(world)
        await world.topic(durability="fsync")
        partition = partition_of(world)
        put(partition, b"x" * CARRIED_BYTES)
        assert await done(world) is None
        assert not partition.transacting.to_sync(7)

    run(test)


def test_after_a_restart_nobody_knows_what_is_on_disk(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        put(await started(world))
        assert await done(world) is None
        await world.crash()
        assert partition_of(world).transacting.to_sync(7) == (partition_of(world).id, 0)

    run(test, tmp_path / "data")


def test_one_that_has_lost_records_can_only_be_aborted() -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        put(partition)
        assert await done(world) is None
        dict(partition.producers)[7].torn = True
        with refused(Error.TRANSACTION_ABORTABLE):
            end(partition)
        assert end(partition, committed=False)
        assert await done(world) is None
        assert await stored(partition) == [(0, "v"), (1, "abort 7/0")]

    run(test)


@pytest.mark.parametrize("synced", [False, True])
def test_a_power_cut_takes_no_record_of_one_that_is_committed(tmp_path: Path, synced: bool) -> None:
    """A large batch is lost, a small one behind it is not: the log has a gap, and the transaction can only be aborted.
    Had the log been synced, it could have been committed.
    """

    async def test(world: World) -> None:
        recorder = Recorder()
        before = await open_recorded(tmp_path / "data", recorder, boot="before", clip=clip)
        partition = await started(world, before)
        plain(partition, b"first")
        assert await done(world) is None
        await before.checkpoint()
        put(partition, b"x" * 100_000)
        assert await done(world) is None
        put(partition, b"small", sequence=1)
        assert await done(world) is None
        wanted = partition.transacting.to_sync(7)
        assert wanted == (partition.id, 1)
        if synced:
            pending = before.sync([wanted])
            assert pending is not None
            await pending
        # what was written to RocksDB is there, and of the segments what was synced
        recorder.image(tmp_path / "data", tmp_path / "image", Worst())
        after = await rocksdb.open(tmp_path / "image", boot="after", clip=clip)
        await world.start(after)
        coordinated(world)
        partition = partition_of(world)
        assert partition.last_stable_offset == 1
        if synced:
            assert end(partition)
        else:
            with refused(Error.TRANSACTION_ABORTABLE):
                end(partition)
            assert end(partition, committed=False)
        assert await done(world) is None
        assert partition.last_stable_offset == partition.high_watermark == 4
        found = await stored(partition)
        assert [offset for offset, _ in found] == ([0, 1, 2, 3] if synced else [0, 2, 3])
        await after.close()
        await before.close()

    run(test)


def test_a_log_that_takes_nothing_says_so_before_anything_is_in_the_turn() -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        put(partition)
        assert await done(world) is None

        class Refusing:
            refuses = "damaged"
            start_offset = 0

        partition.log = Refusing()  # type: ignore[assignment]
        with refused(Error.KAFKA_STORAGE_ERROR):
            partition.transacting.check_end(7, committed=True)
        with refused(Error.KAFKA_STORAGE_ERROR):
            end(partition)
        assert partition.quiet

    run(test)


def test_the_rows_of_aborted_ones_go_with_the_records() -> None:
    async def test(world: World) -> None:
        partition = await started(world)
        put(partition)
        end(partition, committed=False)
        put(partition, sequence=1)
        end(partition, committed=False)
        assert await done(world) is None
        assert aborted(world, partition) == [Aborted(1, 7, 0), Aborted(3, 7, 2)]
        await world.broker.topics.delete_records(partition, 1)
        assert aborted(world, partition) == [Aborted(1, 7, 0), Aborted(3, 7, 2)]
        await world.broker.topics.delete_records(partition, 2)
        assert aborted(world, partition) == [Aborted(3, 7, 2)]
        await world.broker.topics.delete("t")
        assert list(world.store.scan(Family.ABORTED)) == []

    run(test)
