"""Dead letters: exactly once in their topic, in the commit that settles the original, whatever fails."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions.letter_kinds import FIRST_RETRY_MS
from gateway.wire.errors import Error
from store.api import Append, Family, Refused, StoreError, Unknown
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import ACCEPT, REJECT, RELEASE, World, run, said
from tests.gateway.broker.test_policies import say


def test_after_n_plus_one_deliveries_a_record_is_a_dead_letter_with_its_history(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic(partitions=3)
        await world.configure("g", pulsar__max__redeliver__count="2")
        at = await world.subscribe(index=1)
        await world.produce(b"good", b"bad", index=1, key=b"k", headers=[("h", b"v")])
        for delivery in (1, 2, 3):
            got = await world.fetch(at)
            assert got[1] == (b"bad", delivery)
            if delivery == 1:
                assert not await world.ack(at, 0)
            assert not await world.ack(at, 1, kind=RELEASE)
        assert await world.fetch(at) == {}
        assert at.ready().start == 2
        topic = world.broker.catalog.get("t-g-DLQ")
        assert topic is not None
        assert len(topic.partitions) == 3
        (letter,) = await world.read("t-g-DLQ", 1)
        assert (letter.key, letter.value, letter.timestamp) == (b"k", b"bad", world.clock.wall_ms())
        headers = said(letter.headers)
        assert headers["h"] == b"v"
        assert headers["REAL_TOPIC"] == b"persistent://public/default/t"
        assert headers["REAL_SUBSCRIPTION"] == b"g"
        assert headers["__dlq.errors.topic"] == b"t"
        assert headers["__dlq.errors.partition"] == b"1"
        assert headers["__dlq.errors.offset"] == b"1"
        assert headers["__dlq.errors.delivery.count"] == b"3"
        assert headers["pulsar-dead-letter-reason"] == b"MAX_DELIVERIES"
        assert headers["ORIGIN_MESSAGE_ID"] is not None
        assert headers["ORIGIN_MESSAGE_ID"].split(b":")[2:] == [b"1", b"1"]

    run(test, folder)


def test_a_rejected_record_is_dead_at_once_and_stays_so_after_a_crash(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        for turn in range(3):
            await world.produce(b"%d" % turn)
            await world.fetch(at)
            assert not await world.ack(at, turn, kind=REJECT)
        await world.crash()
        assert await world.fetch(world.at()) == {}
        found = await world.read("t-g-DLQ")
        assert [each.value for each in found] == [b"0", b"1", b"2"]
        assert {said(each.headers)["pulsar-dead-letter-reason"] for each in found} == {b"REJECTED"}

    run(test, folder)


def test_letter_and_acknowledgement_are_one_carried_commit_also_the_one_that_makes_the_topic() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        at = await world.subscribed()
        for turn in range(2):
            await world.produce(b"bad")
            await world.fetch(at)
            store.commits.clear()
            await world.ack(at, turn, kind=REJECT)
            (writes,) = store.commits
            (append,) = [each for each in writes if isinstance(each, Append)]
            assert append.carried
            assert any(getattr(each, "family", None) == "cursor" for each in writes)

    run(test)


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("outcome", [Refused("no"), Unknown("who knows")])
def test_a_burial_that_was_not_stored_is_done_again_once(exists: bool, outcome: StoreError) -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        await world.topic()
        if exists:
            await world.topic("t-g-DLQ")
        at = await world.subscribe()
        await world.produce(b"bad")
        await world.fetch(at)
        store.holding = True
        assert at.acknowledge("c", [(0, 0, REJECT)]) == 0
        await store.has(1)
        store.holding = False
        store.fail(outcome)
        await world.settled()
        assert list(await world.fetch(at)) == [0], "the rejection was not stored either"
        count = world.broker.metrics.dead_letters.labels("REJECTED")
        assert count.value == 0
        assert not await world.ack(at, 0, kind=REJECT)
        assert count.value == 1
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"bad"]
        assert at.ready().start == 1

    run(test)


def test_while_a_letter_cannot_be_stored_the_record_stays_open_and_says_why(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        # nothing can be called so beside it
        await world.topic("t.g-DLQ")
        await world.configure("g", pulsar__dead__letter__topic="t_g-DLQ")
        at = await world.subscribe()
        await world.produce(b"bad", b"good")
        await world.fetch(at)
        assert not await world.ack(at, 0, kind=REJECT)
        state = at.ready().look(0)
        assert state.state == "BACKOFF"
        assert state.reason is not None
        assert "collides" in state.reason
        assert await world.fetch(at) == {}
        refused = world.broker.metrics.dead_letters_refused.value
        assert refused == 1
        await world.pass_time(FIRST_RETRY_MS)
        assert world.broker.metrics.dead_letters_refused.value == 2
        await world.broker.topics.delete("t.g-DLQ")
        await world.pass_time(FIRST_RETRY_MS)
        assert world.broker.metrics.dead_letters_refused.value == 2, "later each time"
        await world.pass_time(FIRST_RETRY_MS)
        assert [each.value for each in await world.read("t_g-DLQ")] == [b"bad"]
        assert at.ready().look(0).state == "DONE"

    run(test, folder)


@pytest.mark.parametrize("name", ["t", "t-g-RETRY"])
def test_what_the_group_reads_itself_cannot_hold_its_dead_letters(folder: Path | None, name: str) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.broker.group_configs.alter("g", lambda own: {**own, "pulsar.dead.letter.topic": name})
        at = await world.subscribe()
        await world.produce(b"bad")
        await world.fetch(at)
        assert not await world.ack(at, 0, kind=REJECT)
        assert "given them again" in (at.ready().look(0).reason or "")
        assert len(await world.read("t")) == 1

    run(test, folder)


def test_letters_that_cannot_be_stored_are_dropped_once_dead_letters_are_off(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.configure("g", pulsar__dead__letter__topic="t-g-RETRY")
        at = await world.subscribe()
        await world.produce(b"bad", b"worse")
        await world.fetch(at)
        assert not await world.ack(at, 0, kind=REJECT)
        assert at.ready().look(0).state == "BACKOFF"
        await world.configure("g", pulsar__dead__letter__enable="false")
        await world.pass_time(FIRST_RETRY_MS)
        assert at.ready().look(0).state == "DONE"
        assert (at.ready().totals["dropped"], at.ready().totals["buried"]) == (1, 0)
        assert world.broker.metrics.share_dropped.value == 1
        assert at.ready().start == 1

    run(test, folder)


def test_dead_letters_have_no_dead_letters(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.topic("t-g-DLQ")
        at = await world.subscribe(topic="t-g-DLQ")
        await world.produce(b"bad", topic="t-g-DLQ")
        await world.fetch(at)
        assert not await world.ack(at, 0, kind=REJECT)
        reason = at.ready().look(0).reason
        assert reason is not None
        assert "holds dead letters itself" in reason
        assert world.broker.catalog.get("t-g-DLQ-g-DLQ") is None
        # as the reason says
        await world.configure("g", pulsar__dead__letter__topic="graveyard")
        await world.pass_time(FIRST_RETRY_MS)
        assert [each.value for each in await world.read("graveyard")] == [b"bad"]
        assert at.ready().start == 1

    run(test, folder)


def test_dead_letters_skip_limits_and_go_where_the_group_says_with_a_first_reader(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        await world.topic(max__message__bytes="100000")
        await world.topic("grave", max__message__bytes="10", partitions=2)
        await world.configure(
            "g", pulsar__dead__letter__topic="grave", pulsar__dead__letter__initial__subscription="mourner"
        )
        at = await world.subscribe()
        await world.produce(b"x" * 50_000)
        await world.fetch(at)
        assert not await world.ack(at, 0, kind=REJECT)
        assert [len(each.value or b"") for each in await world.read("grave")] == [50_000]
        assert world.broker.subscriptions.get("mourner", "grave") is None, "it was there before"
        await world.configure("g", pulsar__dead__letter__topic="other")
        await world.produce(b"y")
        await world.fetch(at)
        assert not await world.ack(at, 1, kind=REJECT)
        mourner = world.at("mourner", "other")
        assert [value for value, _ in (await world.fetch(mourner)).values()] == [b"y"]

    run(test, folder)


def test_an_initial_subscription_that_nobody_may_make_keeps_the_letter_open_and_says_so(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        await world.topic()
        at = await world.subscribe()
        await world.configure("g", pulsar__dead__letter__initial__subscription="mourner")
        await say(world, "namespace", "pulsar.auto.subscription.creation", "false")
        await world.produce(b"y")
        await world.fetch(at)
        assert not await world.ack(at, 0, kind=REJECT)
        await world.pass_time(1)
        assert world.broker.catalog.get("t-g-DLQ") is None
        state = at.ready().look(0)
        assert state.state == "BACKOFF"
        assert "'t-g-DLQ' would be made with the subscription mourner" in str(state.reason)
        await say(world, "namespace", "pulsar.auto.subscription.creation", None)
        await world.pass_time(600_000)
        assert [value for value, _ in (await world.fetch(world.at("mourner", "t-g-DLQ"))).values()] == [b"y"]

    run(test, folder)


@pytest.mark.parametrize(("index", "grave"), [(0, 0), (1, 1), (3, 1), (4, 0)])
def test_letters_of_partition_p_go_to_partition_p_mod_n(index: int, grave: int) -> None:
    async def test(world: World) -> None:
        await world.topic(partitions=5)
        await world.topic("t-g-DLQ", partitions=2)
        at = await world.subscribe(index=index)
        await world.produce(b"v", index=index)
        await world.fetch(at)
        assert not await world.ack(at, 0, kind=REJECT)
        assert [len(await world.read("t-g-DLQ", each)) for each in (0, 1)] == [1 - grave, grave]

    run(test)


def test_many_die_in_one_commit(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        for _ in range(4):
            await world.produce(*(b"%d" % n for n in range(100)))
        await world.fetch(at)
        for offset in range(0, 400, 2):
            assert at.acknowledge("c", [(offset, offset, REJECT), (offset + 1, offset + 1, ACCEPT)]) == 0
        await world.settled()
        await world.crash()
        found = await world.read("t-g-DLQ")
        assert [int(said(each.headers)["__dlq.errors.offset"] or b"") for each in found] == list(
            range(0, 400, 2)
        )
        assert await world.fetch(world.at()) == {}

    run(test, folder)


def test_more_than_a_turn_takes_are_buried_by_the_next_ones(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.configure(
            "g", share__partition__max__record__locks="10000", pulsar__receiver__queue__size="10000"
        )
        at = await world.subscribe()
        await world.produce(*(b"%d" % n for n in range(4500)))
        assert len(await world.fetch(at, limit=10_000)) == 4500
        assert at.acknowledge("c", [(0, 4499, REJECT)]) == 0
        for _ in range(5):
            await world.settled()
        assert [int(each.value or b"") for each in await world.read("t-g-DLQ")] == list(range(4500))
        assert at.ready().start == 4500

    run(test, folder)


@pytest.mark.parametrize("also", ["a reader", "another group"])
def test_a_dead_letter_topic_is_nobodys_before_its_first_letters_are_stored(
    tmp_path: Path, also: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows can be read as soon as they are written; its records only when that is on the disk."""

    async def test(world: World) -> None:
        await world.topic(durability="fsync")
        for group in ("g", "h"):
            await world.configure(group, pulsar__dead__letter__topic="graves")
        at, other = await world.subscribe("g"), await world.subscribe("h")
        await world.produce(b"a", b"b")
        await world.fetch(at)
        await world.fetch(other)
        disk = threading.Event()
        sync = world.store._database.sync

        def slow() -> None:
            disk.wait(30)
            sync()

        monkeypatch.setattr(world.store._database, "sync", slow)
        assert not at.acknowledge("c", [(0, 0, REJECT)])
        stored = asyncio.ensure_future(world.settled())
        async with asyncio.timeout(20):
            while world.store.get(Family.CATALOG, b"t/graves") is None:
                await asyncio.sleep(0.001)
        if also == "a reader":
            runtime = world.broker.topic(b"graves")
            if runtime is not None:
                with pytest.raises(KafkaError) as told:
                    world.broker.partition_of(runtime, 0)
                assert told.value.code == Error.UNKNOWN_TOPIC_OR_PARTITION
        else:
            assert not other.acknowledge("c", [(1, 1, REJECT)])
        disk.set()
        assert await stored is None
        expected = [b"a"] if also == "a reader" else [b"a", b"b"]
        async with asyncio.timeout(20):
            # who found the topic being made comes back a moment later
            while len(values := await world.read("graves")) < len(expected):
                await asyncio.sleep(0.001)
                await world.settled()
        assert sorted([each.value for each in values], key=str) == expected
        await world.produce(b"more", topic="graves")
        assert len(await world.read("graves")) == len(values) + 1

    run(test, tmp_path / "data")
