"""Non-persistent topics over HTTP: under a domain of their own, with what they have dropped."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.wire import records
from gateway.wire.batch import admit

Admin = Any
Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]

ROOT = "/admin/v2/non-persistent/public/default"
FULL = "non-persistent://public/default/"


async def put(admin: Admin, name: str, *values: bytes, index: int = 0) -> None:
    broker = admin.broker
    partition = broker.partition(broker.topics.get(name), index)
    now = broker.clock.wall_ms()
    made = [records.Record(at, now, None, value, []) for at, value in enumerate(values)]
    data = records.build_batch(made)
    partition.append(data, admit(data), now)
    await broker.write(())


async def small(admin: Admin, partitions: int = 1) -> None:
    """The topic t, of which little stays in memory."""
    await admin.broker.create_topic(
        "t",
        partitions,
        {"pulsar.persistence": "non-persistent", "pulsar.non.persistent.max.bytes": "8000"},
        partitioned=partitions > 1,
    )


def test_it_is_made_listed_and_deleted_under_its_domain(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("disk")
        assert (await admin.ask("PUT", f"{ROOT}/x", '{"team": "a"}')).status == 204
        assert (await admin.ask("PUT", f"{ROOT}/parts/partitions", "2")).status == 204
        parts = [f"{FULL}parts-partition-{index}" for index in range(2)]
        assert (await admin.ask("GET", ROOT)).json == [*parts, f"{FULL}x"]
        assert (await admin.ask("GET", f"{ROOT}/partitioned")).json == [f"{FULL}parts"]
        persistent = ["persistent://public/default/disk"]
        assert (await admin.ask("GET", "P")).json == persistent
        assert (await admin.ask("GET", "P/partitioned")).json == []
        namespace = "/admin/v2/namespaces/public/default/topics"
        for mode, found in (
            ("", persistent),
            ("?mode=PERSISTENT", persistent),
            ("?mode=NON_PERSISTENT", [*parts, f"{FULL}x"]),
            ("?mode=ALL", [*persistent, *parts, f"{FULL}x"]),
        ):
            assert (await admin.ask("GET", namespace + mode)).json == found
        assert (await admin.ask("GET", f"{ROOT}/x/properties")).json == {"team": "a"}
        assert (await admin.ask("POST", f"{ROOT}/parts/partitions", "3")).status == 204
        assert (await admin.ask("GET", f"{ROOT}/parts/partitions")).json["partitions"] == 3
        topic = admin.broker.topics.get("x")
        assert topic.configs == {"pulsar.persistence": "non-persistent"}
        for name in ("x", "parts/partitions"):
            assert (await admin.ask("DELETE", f"{ROOT}/{name}")).status == 204
        assert (await admin.ask("GET", ROOT)).json == []

    serve(test)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "word"),
    [
        ("PUT", f"{ROOT}/disk", "{}", 409, "There is persistent://public/default/disk already"),
        ("PUT", f"{ROOT}/disk/partitions", "2", 409, "There is persistent://public/default/disk already"),
        ("PUT", "P/x", "{}", 409, f"There is {FULL}x already"),
        ("PUT", f"{ROOT}/x", "{}", 409, "Topic 'x' already exists"),
        ("GET", f"{ROOT}/disk/stats", None, 404, f"no topic {FULL}disk"),
        ("GET", "P/x/stats", None, 404, "no topic persistent://public/default/x"),
        ("DELETE", "P/x", None, 404, "no topic persistent://public/default/x"),
        ("PUT", f"{ROOT}/x-partition-0", "{}", 412, "partition's name"),
    ],
)
def test_one_name_is_one_topic(
    serve: Serve, method: str, path: str, body: str | None, status: int, word: str
) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("disk")
        assert (await admin.ask("PUT", f"{ROOT}/x", "{}")).status == 204
        answer = await admin.ask(method, path, body)
        assert answer.status == status
        assert word in answer.json["reason"]

    serve(test)


def test_stats_tell_what_was_dropped_and_for_whom(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await small(admin)
        await admin.broker.subscriptions.make("g", "t", [0], {}, {})
        for number in range(20):
            await put(admin, "t", b"%d" % number + bytes(900))
        told = (await admin.ask("GET", f"{ROOT}/t/stats")).json
        memory, own = told["magnetar"]["memory"], told["subscriptions"]["g"]
        dropped = memory["droppedMessages"]
        assert 10 < dropped < 20
        assert memory["forgottenMessages"] == dropped
        assert memory["forgottenBytes"] > 900 * dropped
        assert (memory["maxBytes"], memory["maxMs"]) == (8000, 60_000)
        assert own["totalMsgExpired"] == dropped
        assert own["msgBacklog"] == 20 - dropped
        assert own["magnetar"]["markDeleteOffset"] + 1 == told["magnetar"]["logStartOffset"]
        assert told["msgInCounter"] == 20
        assert told["storageSize"] <= 8000
        # a second after the first sample, say
        now = admin.broker.loop.time()
        number = admin.broker.topics.get("t").partitions[0]
        assert told["msgDropRate"] > 0
        assert own["msgDropRate"] >= 0
        internal = (await admin.ask("GET", f"{ROOT}/t/internalStats")).json
        assert internal["totalSize"] == told["storageSize"]
        assert now > 0
        assert number >= 1 << 31

    serve(test)


def test_stats_of_all_partitions_are_sums(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await small(admin, 2)
        for index in (0, 1):
            for _ in range(10 + index):
                await put(admin, "t", bytes(900), index=index)
        told = (await admin.ask("GET", f"{ROOT}/t/partitioned-stats")).json
        each = [told["partitions"][f"{FULL}t-partition-{index}"] for index in range(2)]
        assert all(one["magnetar"]["memory"]["droppedMessages"] for one in each)
        for key in ("droppedMessages", "forgottenMessages", "forgottenBytes"):
            assert told["magnetar"]["memory"][key] == sum(one["magnetar"]["memory"][key] for one in each)
        assert told["msgInCounter"] == 21
        assert told["msgDropRate"] > 0

    serve(test)


def test_stats_of_others_say_nothing_of_that(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("disk")
        told = (await admin.ask("GET", "P/disk/stats")).json
        assert "msgDropRate" not in told
        assert "memory" not in told["magnetar"]

    serve(test)


def test_metrics_tell_it_too(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await small(admin)
        for _ in range(20):
            await put(admin, "t", bytes(900))
        text = (await admin.ask("GET", "/metrics")).body.decode()
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        dropped = admin.broker.transients.left(admin.broker.topics.get("t").partitions[0]).unread
        assert float(values["magnetar_non_persistent_dropped_total"]) == dropped > 10
        assert float(values["magnetar_non_persistent_bytes"]) == admin.broker.transients.size > 0
        (came,) = [value for name, value in values.items() if name.startswith("pulsar_in_messages_total")]
        assert float(came) == 20
        assert any(f'topic="{FULL}t"' in name for name in values)

    serve(test)
