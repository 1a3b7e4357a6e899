"""Fetch sessions (KIP-227): what an incremental fetch carries, its epochs, and who makes room for whom."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from gateway.broker import fetching
from gateway.broker.fetch_sessions import EVICTION_MS, MAX_EPOCH, FetchSessions
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.asking import delete_records, errors, fetch, offsets, told
from tests.gateway.broker.held import Clock, part, run, until
from tests.gateway.serving import Client, batch, create, produce_body


async def put(client: Client, topic: str, partition: int, *values: bytes) -> None:
    answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, batch(*values), partition=partition))
    assert part(answer).error_code == 0


def test_the_first_answer_tells_everything_the_next_only_what_changed() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 4)
        first = await fetch(client, {"t": dict.fromkeys(range(4), 0)}, session=(0, 0))
        assert list(told(first)) == [0, 1, 2, 3]
        session = first.session_id
        assert session > 0
        assert told(await fetch(client, session=(session, 1))) == {}
        await put(client, "t", 2, b"a")
        second = await fetch(client, session=(session, 2))
        assert (second.session_id, list(told(second))) == (session, [2])
        again = await fetch(client, session=(session, 3))
        assert offsets(told(again)[2].records) == [0], "the client did not move on: the same once more"
        assert told(await fetch(client, {"t": {2: 1}}, session=(session, 4))) == {}
        await delete_records(client, "t", {2: 1})
        moved = told(await fetch(client, session=(session, 5)))
        assert [(index, each.log_start_offset) for index, each in moved.items()] == [(2, 1)]
        assert told(await fetch(client, session=(session, 6))) == {}

    run(test)


def test_a_high_watermark_that_moved_is_told_even_if_the_data_did_not_fit() -> None:
    one = b"x" * 1000

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        first = await fetch(client, {"t": {0: 0, 1: 0}}, session=(0, 0))
        await put(client, "t", 0, one)
        await put(client, "t", 1, one)
        seen = set()
        for epoch in (1, 2):
            answer = await fetch(client, session=(first.session_id, epoch), max_bytes=100)
            seen |= {index for index, each in told(answer).items() if each.records}
        assert seen == {0, 1}

    run(test)


def test_partitions_added_changed_and_forgotten() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 3)
        for index in range(3):
            await put(client, "t", index, b"a", b"b")
        first = await fetch(client, {"t": {0: 2}}, session=(0, 0))
        session = first.session_id
        added = told(await fetch(client, {"t": {1: 0}}, session=(session, 1)))
        assert (list(added), offsets(added[1].records)) == ([1], [0, 1])
        await put(client, "t", 0, b"c")
        forgotten = told(await fetch(client, {"t": {2: 2}}, session=(session, 2), forget={"t": [0, 1]}))
        assert list(forgotten) == [2], "it is new, so it is told, and the others are not in it any more"
        assert told(await fetch(client, session=(session, 3), forget={"t": [0, 17], "other": [3]})) == {}
        assert gateway.broker.fetch_sessions.partitions() == 1

    run(test)


def test_a_session_of_which_nothing_is_left_ends() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        first = await fetch(client, {"t": {0: 0}}, session=(0, 0))
        last = await fetch(client, session=(first.session_id, 1), forget={"t": [0]}, max_wait=60_000)
        assert (last.error_code, last.session_id, last.responses) == (0, 0, [])
        assert len(gateway.broker.fetch_sessions) == 0

    run(test)


def test_epochs_and_ids_that_do_not_fit() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await create(client, "t")
        first = await fetch(client, {"t": {0: 0}}, session=(0, 0))
        session = first.session_id
        for epoch in (2, 7, MAX_EPOCH):
            answer = await fetch(client, session=(session, epoch))
            assert (answer.error_code, answer.session_id) == (Error.INVALID_FETCH_SESSION_EPOCH, 0)
        assert (await fetch(client, session=(session, 1))).error_code == 0
        assert (await fetch(client, session=(session, 1))).error_code == Error.INVALID_FETCH_SESSION_EPOCH
        unknown = await fetch(client, session=(session % MAX_EPOCH + 1, 1))
        assert unknown.error_code == Error.FETCH_SESSION_ID_NOT_FOUND
        mixed = await fetch(client, {topic_id: {0: 0}}, version=13, session=(session, 2))
        assert mixed.error_code == Error.FETCH_SESSION_TOPIC_ID_ERROR
        assert (await fetch(client, session=(session, 2))).error_code == 0

    run(test)


def test_the_epoch_wraps_to_one() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        session = (await fetch(client, {"t": {0: 0}}, session=(0, 0))).session_id
        (state,) = gateway.broker.fetch_sessions._sessions.values()
        state.epoch = MAX_EPOCH
        assert (await fetch(client, session=(session, MAX_EPOCH))).error_code == 0
        assert (await fetch(client, session=(session, 1))).error_code == 0

    run(test)


def test_a_session_is_closed_and_replaced_by_its_client() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await put(client, "t", 0, b"a")
        sessions = gateway.broker.fetch_sessions
        first = await fetch(client, {"t": {0: 0}}, session=(0, 0))
        second = await fetch(client, {"t": {0: 0}}, session=(first.session_id, 0))
        assert second.session_id not in (0, first.session_id)
        assert len(sessions) == 1
        last = await fetch(client, {"t": {0: 0}}, session=(second.session_id, -1))
        assert (last.session_id, offsets(told(last)[0].records)) == (0, [0])
        assert len(sessions) == 0

    run(test)


def test_topic_ids_in_a_session() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await create(client, "t", 2)
        first = await fetch(client, {topic_id: {0: 0, 1: 0}}, version=13, session=(0, 0))
        assert first.responses[0].topic_id == topic_id
        await put(client, "t", 1, b"a")
        second = await fetch(client, version=13, session=(first.session_id, 1))
        assert (second.responses[0].topic_id, list(told(second))) == (topic_id, [1])
        mixed = await fetch(client, session=(first.session_id, 2))
        assert mixed.error_code == Error.FETCH_SESSION_TOPIC_ID_ERROR

    run(test)


def test_a_partition_that_comes_later_is_served_when_it_is_there() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        first = await fetch(client, {"t": {0: 0, 1: 0}}, session=(0, 0), max_wait=60_000)
        assert errors(first) == {0: 0, 1: Error.UNKNOWN_TOPIC_OR_PARTITION}
        await gateway.broker.create_partitions("t", 2)
        await put(client, "t", 1, b"a")
        second = told(await fetch(client, session=(first.session_id, 1)))
        assert (list(second), second[1].error_code, offsets(second[1].records)) == ([1], 0, [0])

    run(test)


def test_ten_thousand_partitions_cost_a_look_only_at_those_that_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    look_at = fetching.Fetch._look_at

    def counted(self: Any, wanted: Any, budget: int, first: bool) -> Any:
        looks.append(wanted.index)
        return look_at(self, wanted, budget, first)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 10_000)
        first = await fetch(client, {"t": dict.fromkeys(range(10_000), 0)}, session=(0, 0))
        assert len(told(first)) == 10_000
        monkeypatch.setattr(fetching.Fetch, "_look_at", counted)
        await put(client, "t", 4711, b"a")
        await put(client, "t", 815, b"b")
        second = await fetch(client, session=(first.session_id, 1))
        assert sorted(told(second)) == [815, 4711]
        assert sorted(looks) == [815, 4711]
        looks.clear()
        await fetch(client, {"t": {4711: 1, 815: 1}}, session=(first.session_id, 2))
        await fetch(client, session=(first.session_id, 3))
        assert sorted(looks) == [815, 4711], "asked anew, then not any more"

    run(test)


def test_full_slots_mean_fetches_without_a_session_until_one_is_old() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        ids = []
        for _ in range(2):
            clock.now += 1
            ids.append((await fetch(client, {"t": {0: 0}}, session=(0, 0))).session_id)
        assert all(ids)
        third = await fetch(client, {"t": {0: 0}}, session=(0, 0))
        assert (third.error_code, third.session_id, list(told(third))) == (0, 0, [0])
        clock.now += EVICTION_MS - 1
        assert (await fetch(client, session=(ids[1], 1))).error_code == 0
        clock.now += 1
        fourth = await fetch(client, {"t": {0: 0}}, session=(0, 0))
        assert fourth.session_id > 0
        assert (await fetch(client, session=(ids[0], 1))).error_code == Error.FETCH_SESSION_ID_NOT_FOUND
        assert (await fetch(client, session=(ids[1], 2))).error_code == 0
        assert gateway.broker.fetch_sessions.evicted == 1

    run(test, "max.incremental.fetch.session.cache.slots=2", clock=clock)


def test_no_slots_no_sessions() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        assert (await fetch(client, {"t": {0: 0}}, session=(0, 0))).session_id == 0

    run(test, "max.incremental.fetch.session.cache.slots=0")


def test_an_id_that_is_in_use_is_drawn_again() -> None:
    drawn = iter([7, 7, MAX_EPOCH, 7, 1])
    sessions = FetchSessions(10, draw=lambda: next(drawn))
    made = [sessions.create(1, False, 0) for _ in range(3)]
    assert [each.session_id for each in made if each] == [7, MAX_EPOCH, 1]


def test_ids_cannot_be_guessed_from_each_other() -> None:
    sessions = FetchSessions(10)
    ids = [each.session_id for _ in range(10) if (each := sessions.create(1, False, 0))]
    assert all(0 < each <= MAX_EPOCH for each in ids)
    steps = {later - earlier for earlier, later in itertools.pairwise(ids)}
    assert len(steps) == 9


class SlowDisk:
    """The log of a partition that is read from a disk, which gives nothing before the test says so."""

    def __init__(self, log: Any) -> None:
        self.log = log
        self.asked = False
        self.go = asyncio.Event()

    def lend(self, *given: Any, **named: Any) -> Any:
        async def read() -> Any:
            self.asked = True
            await self.go.wait()
            return self.log.lend(*given, **named)

        return read()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


@pytest.mark.parametrize("change", ["it grows", "it is trimmed"])
def test_what_changes_while_a_disk_is_asked_for_another_partition_is_told_next(change: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await create(client, "t", 2)
        await put(client, "t", 0, b"a")
        await put(client, "t", 1, b"a")
        first = await fetch(client, {"t": {0: 1, 1: 1}}, session=(0, 0))
        runtime = gateway.broker.in_use.topic_by_id(topic_id)
        assert runtime is not None
        slow = runtime.partitions[0]
        assert slow is not None
        await put(client, "t", 0, b"b")
        slow.log = disk = SlowDisk(slow.log)
        # there is room for both, so both are looked at
        asked = fetch(client, {"t": {1: 1}}, session=(first.session_id, 1), max_bytes=4 << 20)
        asking = asyncio.ensure_future(asked)
        await until(lambda: disk.asked)
        client_of_another = await Client.connect(gateway)
        if change == "it grows":
            await put(client_of_another, "t", 1, b"late")
        else:
            await delete_records(client_of_another, "t", {1: 1})
        disk.go.set()
        assert 1 not in told(await asking)
        slow.log = disk.log
        found = told(await fetch(client, {"t": {0: 2}}, session=(first.session_id, 2)))
        assert list(found) == [1]
        assert found[1].log_start_offset == (1 if change == "it is trimmed" else 0)
        assert offsets(found[1].records) == ([1] if change == "it grows" else [])
        client_of_another.close()

    run(test)


def test_a_session_is_its_connections_alone() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await create(client, "secret")
        session = (await fetch(client, {"t": {0: 0}}, session=(0, 0))).session_id
        stranger = await Client.connect(gateway)
        for epoch in (1, 2):
            answer = await fetch(stranger, {"secret": {0: 0}}, session=(session, epoch))
            assert (answer.error_code, told(answer)) == (Error.FETCH_SESSION_ID_NOT_FOUND, {})
        # nor can it be ended, or replaced
        for epoch in (0, -1):
            answer = await fetch(stranger, {"t": {0: 0}}, session=(session, epoch))
            assert (answer.error_code, list(told(answer))) == (0, [0])
        mine = await fetch(client, session=(session, 1))
        assert (mine.error_code, mine.session_id, told(mine)) == (0, session, {})
        stranger.close()

    run(test)


def test_a_session_ends_with_its_connection() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        other = await Client.connect(gateway)
        await fetch(other, {"t": {0: 0}}, session=(0, 0))
        await fetch(other, {"t": {0: 0}}, session=(0, 0))
        kept = await fetch(client, {"t": {0: 0}}, session=(0, 0))
        sessions = gateway.broker.fetch_sessions
        assert (len(sessions), sessions.total) == (3, 3)
        other.close()
        while len(sessions) > 1:
            await asyncio.sleep(0)
        assert sessions.total == 1
        assert (await fetch(client, session=(kept.session_id, 1))).error_code == 0

    run(test)


def test_what_a_closed_session_watched_is_let_go() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        first = await fetch(client, {"t": {0: 0}}, session=(0, 0))
        runtime = gateway.broker.topic(b"t")
        assert runtime is not None
        partition = gateway.broker.partition_of(runtime, 0)
        assert len(partition.watchers) == 1
        await fetch(client, {"t": {0: 0}}, session=(first.session_id, -1))
        assert not partition.watchers

    run(test)


def test_what_is_asked_and_forgotten_at_once_is_forgotten() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        first = await fetch(client, {"t": {0: 0, 1: 0}}, session=(0, 0))
        await put(client, "t", 0, b"a")
        both = await fetch(client, {"t": {0: 0}}, session=(first.session_id, 1), forget={"t": [0]})
        assert told(both) == {}
        assert gateway.broker.fetch_sessions.partitions() == 1

    run(test)


def test_an_epoch_below_the_final_one_names_no_session() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        answer = await fetch(client, {"t": {0: 0}}, session=(12345, -2))
        assert answer.error_code == Error.FETCH_SESSION_ID_NOT_FOUND

    run(test)


def test_sessions_remember_no_more_partitions_than_there_is_memory_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.broker.fetch_sessions.MAX_PARTITIONS", 10)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 8)
        sessions = gateway.broker.fetch_sessions
        six = dict.fromkeys(range(6), 0)
        first = await fetch(client, {"t": six}, session=(0, 0))
        assert first.session_id > 0
        beyond = await fetch(client, {"t": six}, session=(0, 0))
        assert (beyond.session_id, len(told(beyond))) == (0, 6), "served, and not remembered"
        small = await fetch(client, {"t": {0: 0, 1: 0}}, session=(0, 0))
        # one that grows beyond it ends: its client names everything again
        grown = await fetch(client, {"t": dict.fromkeys(range(8), 0)}, session=(small.session_id, 1))
        assert grown.error_code == Error.FETCH_SESSION_ID_NOT_FOUND
        assert (len(sessions), sessions.total, sessions.partitions()) == (1, 6, 6)
        await fetch(client, session=(first.session_id, 1), forget={"t": [0, 1]})
        assert sessions.total == 4

    run(test)
