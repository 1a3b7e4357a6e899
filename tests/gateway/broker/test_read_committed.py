"""What readers of committed records are given by Fetch and told by ListOffsets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.broker import aborted_transactions
from gateway.broker.fetch_one import fetch_again
from gateway.broker.found import committed_of
from gateway.broker.partition import Partition
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from store import rocksdb
from store.api import Stored
from tests.gateway.broker.asking import delete_records, fetch, list_offsets, offsets, told
from tests.gateway.broker.held import HeldStore, run, run_held, serving_on, until
from tests.gateway.broker.transacted import Coordinator, end, plain, put
from tests.gateway.serving import Client, batch, create

LATEST, EARLIEST = -1, -2
QUICK, BY_ID, BY_NAME = 17, 13, 11


async def began(gateway: Gateway, client: Client, topic: str = "t") -> tuple[Partition, bytes]:
    """A topic of one partition, and its id."""
    topic_id = await create(client, topic)
    stand_in: Any = Coordinator()
    gateway.broker.transactions = stand_in
    found = gateway.broker.catalog.get(topic)
    assert found is not None
    return gateway.broker.partition(found, 0), topic_id


async def settled(gateway: Gateway) -> None:
    """What is in the open turn is stored."""
    await gateway.broker.write([])


Reader = Callable[..., Awaitable[Any]]


def reader(client: Client, topic_id: bytes, version: int) -> Reader:
    name: str | bytes = topic_id if version >= 13 else "t"

    async def read(offset: int, isolation: int = 1, **options: Any) -> Any:
        answer = await fetch(client, {name: {0: offset}}, version=version, isolation=isolation, **options)
        return told(answer)[0]

    return read


def aborted(found: Any) -> list[tuple[int, int]] | None:
    if found.aborted_transactions is None:
        return None
    return [(each.producer_id, each.first_offset) for each in found.aborted_transactions]


@pytest.mark.parametrize("version", [BY_NAME, BY_ID, QUICK])
def test_they_are_given_what_is_decided_and_told_what_to_pass_over(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        partition, topic_id = await began(gateway, client)
        read = reader(client, topic_id, version)
        plain(partition, b"0")
        put(partition, b"1", producer_id=1)
        put(partition, b"2", producer_id=2)
        put(partition, b"3", producer_id=3)
        end(partition, committed=False, producer_id=2)  # 4
        end(partition, committed=True, producer_id=1)  # 5
        plain(partition, b"6")
        await settled(gateway)

        found = await read(0)
        assert (offsets(found.records), aborted(found)) == ([0, 1, 2], [(2, 2)])
        assert (found.high_watermark, found.last_stable_offset) == (7, 3)
        # who begins between the records of a transaction and its marker passes over the rest of it
        found = await read(3)
        assert (found.error_code, offsets(found.records), aborted(found)) == (0, [], [])
        # between the last stable offset and the high watermark there is nothing yet, and nothing wrong
        found = await read(6)
        assert (found.error_code, offsets(found.records)) == (0, [])

        everything = await read(0, isolation=0)
        assert (offsets(everything.records), aborted(everything)) == ([*range(7)], None)
        assert (everything.high_watermark, everything.last_stable_offset) == (7, 3)

        end(partition, committed=False, producer_id=3)  # 7
        await settled(gateway)
        found = await read(0)
        assert (offsets(found.records), aborted(found)) == ([*range(8)], [(2, 2), (3, 3)])
        assert found.last_stable_offset == 8
        found = await read(5)
        assert (offsets(found.records), aborted(found)) == ([5, 6, 7], [(3, 3)])
        plain(partition, b"8")
        await settled(gateway)
        found = await read(8)
        assert (offsets(found.records), aborted(found), found.last_stable_offset) == ([8], [], 9)

    run(test)


def test_a_list_tells_of_what_the_records_are_in_and_of_no_more() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        partition, topic_id = await began(gateway, client)
        read = reader(client, topic_id, BY_ID)
        for number in range(5):
            put(partition, b"v" * 1000, producer_id=number)
            end(partition, committed=False, producer_id=number)
        await settled(gateway)
        found = await read(2, partition_max_bytes=2500)
        assert offsets(found.records) == [2, 3, 4, 5]
        assert aborted(found) == [(1, 2), (2, 4)]

    run(test)


def test_an_answer_ends_before_its_list_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aborted_transactions.cut, "__defaults__", (3,))

    async def test(gateway: Gateway, client: Client) -> None:
        partition, topic_id = await began(gateway, client)
        read = reader(client, topic_id, BY_ID)
        for number in range(5):
            put(partition, producer_id=number)
            end(partition, committed=False, producer_id=number)
        await settled(gateway)
        found = await read(0)
        assert (offsets(found.records), aborted(found)) == ([*range(6)], [(0, 0), (1, 2), (2, 4)])
        found = await read(6)
        assert (offsets(found.records), aborted(found)) == ([*range(6, 10)], [(3, 6), (4, 8)])

    run(test)


# -- waiting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [BY_NAME, QUICK])
def test_what_is_not_decided_wakes_nobody(version: int) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        partition, topic_id = await began(gateway, client)
        read = reader(client, topic_id, version)
        parked = gateway.broker.metrics.fetches_parked
        waits = asyncio.ensure_future(read(0, max_wait=60_000))
        await until(lambda: parked.value == 1)
        put(partition, b"a")
        plain(partition, b"b")
        await settled(gateway)
        assert (partition.high_watermark, parked.value) == (2, 1)
        store.holding = True
        end(partition)
        await store.has(1)
        assert parked.value == 1
        store.release()
        found = await waits
        assert (offsets(found.records), found.last_stable_offset) == ([0, 1, 2], 3)
        # where no transaction is open any more an append wakes as ever
        waits = asyncio.ensure_future(read(3, max_wait=60_000))
        await until(lambda: parked.value == 1)
        plain(partition, b"c")
        assert offsets((await waits).records) == [3]

    run_held(test)


def test_as_many_bytes_are_waited_for_as_are_decided() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        partition, topic_id = await began(gateway, client)
        read = reader(client, topic_id, BY_ID)
        parked = gateway.broker.metrics.fetches_parked
        size = len(batch(b"v" * 1000))
        put(partition, b"v" * 1000)
        await settled(gateway)
        waits = asyncio.ensure_future(read(0, max_wait=60_000, min_bytes=3 * size))
        await until(lambda: parked.value == 1)
        # 20 kB that are read by nobody, behind what is open
        put(partition, b"v" * 20_000, producer_id=8)
        await settled(gateway)
        assert parked.value == 1
        end(partition)
        await settled(gateway)
        assert (parked.value, partition.last_stable_offset) == (1, 1), "only the first batch is decided"
        end(partition, producer_id=8)
        found = await waits
        assert offsets(found.records) == [0, 1, 2, 3]

    run(test)


def test_who_reads_everything_is_woken_by_what_is_open() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        partition, topic_id = await began(gateway, client)
        read = reader(client, topic_id, QUICK)
        waits = asyncio.ensure_future(read(0, isolation=0, max_wait=60_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value == 1)
        put(partition, b"a")
        found = await waits
        assert (offsets(found.records), found.last_stable_offset, aborted(found)) == ([0], 0, None)

    run(test)


def test_a_session_of_theirs_goes_on() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        partition, topic_id = await began(gateway, client)
        plain(partition, b"0")
        put(partition, b"1")
        await settled(gateway)

        async def go_on(session: tuple[int, int], offset: int) -> Any:
            return await fetch(
                client, {topic_id: {0: offset}}, version=QUICK, session=session, isolation=1, max_wait=0
            )

        first = await go_on((0, 0), 0)
        assert offsets(told(first)[0].records) == [0]
        assert told(await go_on((first.session_id, 1), 1)) == {}
        put(partition, b"2", sequence=1)
        await settled(gateway)
        found = told(await go_on((first.session_id, 2), 1))[0]
        assert (offsets(found.records), found.high_watermark, found.last_stable_offset) == ([], 3, 1)
        end(partition)
        await settled(gateway)
        found = told(await go_on((first.session_id, 3), 1))[0]
        assert (offsets(found.records), aborted(found)) == ([1, 2, 3], [])

    run(test)


# -- from a disk, and large ones ------------------------------------------------------------------------------------


def test_a_large_answer_holds_nothing_that_is_open(tmp_path: Any) -> None:
    """Records that are lent to be sent from their file go up to the last stable offset, too."""

    async def main() -> None:
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        async with serving_on(store) as gateway:
            client = await Client.connect(gateway)
            partition, topic_id = await began(gateway, client)
            read = reader(client, topic_id, QUICK)
            large = {"max_bytes": 1 << 24, "partition_max_bytes": 1 << 24}
            for _ in range(10):
                plain(partition, b"v" * 100_000)
                await settled(gateway)
            # nothing of it has to do with a transaction: it is lent
            assert offsets((await read(0, **large)).records) == [*range(10)]
            put(partition, b"w" * 100_000)
            plain(partition, b"x" * 100_000)
            await settled(gateway)
            found = await read(0, **large)
            assert (offsets(found.records), aborted(found)) == ([*range(10)], [])
            assert offsets((await read(0, 0, **large)).records) == [*range(12)]
            end(partition, committed=False)
            await settled(gateway)
            found = await read(0, **large)
            assert (offsets(found.records), aborted(found)) == ([*range(13)], [(7, 10)])
            client.close()
        await store.close()

    asyncio.run(main())


def test_what_is_lent_from_a_file_is_told_with_the_aborted_transactions_in_it(tmp_path: Any) -> None:
    """Nobody has read it, so how far it goes is asked of the index: none may be left out."""

    async def main() -> None:
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        lends: list[int] = []
        async with serving_on(store) as gateway:
            client = await Client.connect(gateway)
            partition, topic_id = await began(gateway, client)
            read = reader(client, topic_id, BY_ID)
            everything: list[tuple[int, int]] = []
            for producer_id in range(30):
                # records of a little more than what an answer is lent from
                everything.append((producer_id, put(partition, b"v" * 40_000, producer_id=producer_id)))
                for _ in range(producer_id % 3):
                    plain(partition, b"p" * 30_000)
                end(partition, committed=False, producer_id=producer_id)
                await settled(gateway)
            plain(partition, b"last")
            await settled(gateway)
            lend = partition.log.lend

            def counted(offset: int, *options: Any, **named: Any) -> Any:
                found = lend(offset, *options, **named)
                assert isinstance(found, list)
                lends.append(sum([isinstance(each, Stored) for each in found]))
                return found

            partition.log.lend = counted  # type: ignore[method-assign]
            stable = partition.last_stable_offset
            offset = 0
            while offset < stable:
                found = await read(offset, partition_max_bytes=300_000)
                there = offsets(found.records)
                assert there
                listed = aborted(found)
                assert listed is not None
                # all of those whose records or markers are there, and none that ended before
                for producer_id, first in everything:
                    marker = first + producer_id % 3 + 1
                    if first <= there[-1] and marker >= offset:
                        assert (producer_id, first) in listed
                    if marker < offset:
                        assert (producer_id, first) not in listed
                assert len(listed) < 25, "not those of the whole segment"
                offset = there[-1] + 1
            assert any(lends), "something was lent"
            # while a transaction is open what lies before it is lent, and no answer comes to it
            before = sum(lends)
            opened = put(partition, b"w" * 40_000, producer_id=99)
            plain(partition, b"z" * 400_000)
            await settled(gateway)
            found = await read(0, partition_max_bytes=300_000)
            assert offsets(found.records)[0] == 0
            assert sum(lends) > before
            found = await read(opened - 3, partition_max_bytes=900_000)
            assert offsets(found.records)[-1] == opened - 1
            client.close()
        await store.close()

    asyncio.run(main())


def test_what_cannot_be_read_from_its_file_is_read_again_up_to_the_same_offset() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        partition, topic_id = await began(gateway, client)
        plain(partition, b"0")
        put(partition, b"1", producer_id=1)
        end(partition, committed=False, producer_id=1)
        put(partition, b"3", producer_id=2)
        await settled(gateway)
        for isolation, expected, list_of_it in ((0, [0, 1, 2, 3], []), (1, [0, 1, 2], [(1, 1)])):
            error, found, aborted_there = await fetch_again(
                gateway.broker, 1 << 20, isolation, topic_id, 0, 0, 1 << 20
            )
            assert (error, found.stable, list(aborted_there)) == (0, 3, list_of_it)
            read = [each for each in found.buffers if not isinstance(each, Stored)]
            assert offsets(b"".join(read)) == expected

    run(test)


class Lent(Stored):
    def __init__(self, end: int) -> None:
        self.released = 0
        self.end = end

    def __len__(self) -> int:
        return 1 << 20

    @property
    def below(self) -> int:
        return self.end

    def read_into(self, buffer: memoryview, *, wait: bool = False) -> bool:
        raise AssertionError("nobody may send it")

    @property
    def known(self) -> bool:
        return True

    def release(self) -> None:
        self.released += 1


def test_what_was_lent_before_a_transaction_began_is_asked_for_again() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        partition, _ = await began(gateway, client)
        lent = Lent(2)
        plain(partition, b"0")
        assert committed_of(partition, 0, 1, [lent]) == ([lent], ())
        put(partition, b"1")
        assert committed_of(partition, 0, 1, [b"", lent]) is None
        assert lent.released == 1

    run(test)


# -- what is told of offsets and producers ----------------------------------------------------------------------------


def test_the_latest_offset_is_the_last_stable_one() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        partition, _ = await began(gateway, client)
        plain(partition, b"0", b"1")
        put(partition, b"2")
        plain(partition, b"3")
        await settled(gateway)

        async def asked(timestamp: int, isolation: int, version: int = 7) -> int:
            (found,) = await list_offsets(client, "t", (0, timestamp), isolation=isolation, version=version)
            assert found.error_code == 0
            offset: int = found.offset
            return offset

        assert [await asked(LATEST, isolation) for isolation in (0, 1)] == [4, 2]
        # in version 1 nobody says
        assert await asked(LATEST, 0, version=1) == 4
        assert [await asked(EARLIEST, isolation) for isolation in (0, 1)] == [0, 0]
        # batches are stamped from 1,000 ms on
        assert [await asked(1001, isolation) for isolation in (0, 1)] == [1, 1]
        assert await delete_records(client, "t", {0: 2}) == {0: (0, 2)}
        assert [await asked(1000, isolation) for isolation in (0, 1)] == [2, -1]
        end(partition)
        await settled(gateway)
        assert [await asked(LATEST, isolation) for isolation in (0, 1)] == [5, 5]
        assert await asked(1000, 1) == 2

    run(test)


def test_producers_are_shown_with_what_they_have_open() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        partition, _ = await began(gateway, client)
        request = messages.DescribeProducersRequest

        async def shown() -> list[tuple[int, int, int, int, int]]:
            answer = await client.ask(
                ApiKey.DESCRIBE_PRODUCERS,
                0,
                request(topics=[request.TopicRequest(name="t", partition_indexes=[0])]),
            )
            return [
                (
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                )
                for each in answer.topics[0].partitions[0].active_producers
            ]

        plain(partition)
        put(partition, b"a")
        put(partition, b"b", sequence=1)
        put(partition, b"c", producer_id=8, transactional=False)
        assert await shown() == [(7, 0, 1, -1, 1), (8, 0, 0, -1, -1)]
        partition.end_transaction(7, 1, True, 4, 2_000)
        assert await shown() == [(7, 1, -1, 4, -1), (8, 0, 0, -1, -1)]

    run(test)
