"""Sums of subscriptions follow what changes, without being asked for it: what a sweep finds by itself."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.admin import slices
from gateway.admin.sums import Sums
from gateway.wire import records
from semantics.console.letter_states import DISCARDED
from semantics.console.standing import NEVER, Standing
from semantics.subscriptions.states import Ending
from store.api import Refused
from tests.gateway.admin.billing import EARLIEST, Serve, ack, cursor_of, made, take
from tests.gateway.admin.conftest import Admin

FAR = 10_000_000


async def delayed(admin: Admin, *dues: int) -> None:
    """A batch of delayed messages, each due at a time in ms since 1970."""
    now = admin.broker.clock.wall_ms()
    batch = records.build_batch(
        [
            records.Record(at, now, b"k", b"v", [("pulsar-deliver-at", b"%d" % due)])
            for at, due in enumerate(dues)
        ]
    )
    topic = admin.broker.catalog.get("orders")
    assert topic is not None
    admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
    await admin.broker.write([])


async def at_rest(admin: Admin) -> None:
    """Nobody has the cursor in memory."""
    at = cursor_of(admin)
    for consumer in list(at.consumers):
        at.detach(consumer, Ending.LEFT)
    for _ in range(4):
        await admin.broker.write([])
        admin.broker.subscriptions.release_idle()
    topic = admin.broker.catalog.get("orders")
    assert topic is not None
    assert admin.broker.subscriptions.in_use("billing", topic.topic_id) is None


def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is looked at from now on, as it is."""
    looked: list[tuple[str, str]] = []
    old: Callable[..., Any] = Sums._look

    async def look(self: Sums, name: tuple[str, str], pace: Any) -> None:
        looked.append(name)
        await old(self, name, pace)

    monkeypatch.setattr(Sums, "_look", look)
    return looked


def sums_of(admin: Admin) -> Sums:
    return admin.server._context.sums


async def swept(admin: Admin, topic: str = "orders", group: str = "billing") -> Standing | None:
    await sums_of(admin).sweep()
    return sums_of(admin).ranking.get(topic, group)


def test_a_sweep_finds_what_cursors_logs_groups_and_deletions_have_changed(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        async def opened(group: str = "billing") -> int | None:
            found = await swept(admin, group=group)
            return found.open if found is not None else None

        await made(admin, count=4)
        assert await opened() == 4
        await take(admin, "c1", 2)
        found = await swept(admin)
        assert found is not None
        assert (found.in_hand, found.unread + found.available) == (2, 2)
        await take(admin, "c1", 1)
        found = await swept(admin)
        assert found is not None
        assert found.in_hand == 3, "nothing of that is stored"
        await ack(admin, "c1", 0, 0)
        assert await opened() == 3
        await admin.produce("orders", 0, [b"x"])
        assert await opened() == 4
        await admin.commit("readers", "orders", 0, 4)
        assert await opened("readers") == 1
        assert (await admin.ask("DELETE", "P/orders/subscription/billing?force=true")).status == 204
        assert await opened() is None
        assert (await admin.ask("DELETE", "P/orders")).status in (204, 412)
        assert (await admin.ask("DELETE", "P/orders?force=true")).status in (204, 404)
        assert await opened("readers") is None

    serve(test)


def test_a_sweep_that_fails_at_one_name_loses_none(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        topics, broker = ["orders", "payments", "stock"], admin.broker

        async def opened(group: str) -> list[int | None]:
            found = [sums_of(admin).ranking.get(topic, group) for topic in topics]
            return [each.open if each is not None else None for each in found]

        for topic in topics:
            await admin.plain(topic)
            path = f"P/{topic}/subscription/billing?type=shared"
            assert (await admin.ask("PUT", path, EARLIEST)).status == 204
        await sums_of(admin).sweep()
        assert await opened("billing") == [0, 0, 0]
        for topic in topics:
            await admin.produce(topic, 0, [b"x"])
            await admin.commit(f"readers-{topic}", topic, 0, 0)
        with monkeypatch.context() as broken:
            fails = {"each_of_topic": 1, "load": 1}
            each_of_topic, load = broker.subscriptions.each_of_topic, broker.group_kinds.load

            def rows(topic_id: bytes) -> Any:
                if fails["each_of_topic"]:
                    fails["each_of_topic"] -= 1
                    raise Refused("the disk is tired")
                return each_of_topic(topic_id)

            def loading(groups: Any) -> Any:
                groups = list(groups)
                if fails["load"] and groups[0].startswith("readers"):
                    fails["load"] -= 1
                    raise Refused("the disk is tired")
                return load(groups)

            broken.setattr(broker.subscriptions, "each_of_topic", rows)
            broken.setattr(broker.group_kinds, "load", loading)
            for _ in range(2):
                with contextlib.suppress(Refused):
                    await sums_of(admin).sweep()
            assert not any(fails.values())
        await sums_of(admin).sweep()
        assert await opened("billing") == [1, 1, 1]
        assert [(await opened(f"readers-{topic}"))[at] for at, topic in enumerate(topics)] == [1, 1, 1]

    serve(test)


def test_a_sweep_that_waits_for_others_on_the_machine_has_not_had_the_loop(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=4)
        # each look at the clock is a minute later; the processor's time is what it is
        minutes = itertools.count(0.0, 60.0)
        monkeypatch.setattr(slices, "perf_counter", lambda: next(minutes))
        assert await sums_of(admin).sweep() < 60
        assert await sums_of(admin).look_at_all() < 60

    serve(test)


def test_a_page_does_not_wait_until_everything_was_looked_at(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=1)
        for number in range(10):
            await admin.commit(f"readers-{number}", "orders", 0, 0)
        sums = sums_of(admin)
        await sums.sweep()
        look, seen = sums._look, list[str]()

        async def slow(name: tuple[str, str], pace: Any) -> None:
            await asyncio.sleep(0)
            await look(name, pace)
            seen.append(name[1])

        monkeypatch.setattr(sums, "_look", slow)
        everything = asyncio.ensure_future(sums.look_at_all())
        while not seen:
            await asyncio.sleep(0)
        await sums.refresh([("orders", "billing")])
        assert not everything.done()
        assert len(seen) < 5
        await everything
        assert len(seen) == 12

    serve(test)


def test_what_has_not_changed_is_not_looked_at(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await swept(admin)
        looked = looks(monkeypatch)
        await swept(admin)
        assert looked == []

    serve(test)


def test_a_page_looks_at_what_has_changed_and_at_what_nobody_has_looked_at_for_a_while(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await swept(admin)
        looked = looks(monkeypatch)

        async def page() -> tuple[int, list[tuple[str, str]]]:
            looked.clear()
            (row,) = (await admin.ask("GET", "/admin/v2/magnetar/subscriptions")).json["subscriptions"]
            return row["states"]["inHand"], list(looked)

        assert await page() == (0, [("orders", "billing")]), "a sweep may be long ago"
        assert await page() == (0, [])
        await take(admin, "c1", 1)
        assert (await page())[0] == 1
        monkeypatch.setattr(sums_of(admin)._lately, "_seconds", 0.0)
        assert await page() == (1, [("orders", "billing")])

    serve(test)


def test_what_could_not_be_read_is_looked_at_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        # no sweep but those of this test
        sums_of(admin).stop()
        await made(admin)
        await swept(admin)
        await take(admin, "c1", 2)
        with monkeypatch.context() as failing:

            async def refused(*_: object) -> None:
                raise Refused("not now")

            failing.setattr(Sums, "_standing", refused)
            found = await swept(admin)
            assert found is not None
            assert found.in_hand == 0
            await sums_of(admin).refresh([("orders", "billing")])
        found = await swept(admin)
        assert found is not None
        assert found.in_hand == 2

    serve(test)


def test_of_a_cursor_that_has_left_memory_no_less_is_open(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, "key_shared", count=4)
        await take(admin, "c1", 1)
        await admin.broker.group_configs.alter(
            "billing", lambda old: {**old, "pulsar.nack.delay.ms": "600000"}
        )
        await ack(admin, "c1", 0, 0, kind=2)
        cursor_of(admin).detach("c1", Ending.LEFT)
        await admin.broker.write([])
        before = await swept(admin)
        assert before is not None
        assert before.blocked
        await at_rest(admin)
        found = await swept(admin)
        assert found is not None
        assert (found.open, found.blocked) == (before.open, 0), "who waits for a key is not known at rest"

    serve(test)


def test_a_delayed_message_has_not_waited_until_its_time_has_come(serve: Serve) -> None:
    """Whether it was read before or not, and whether the cursor is in memory or not."""

    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        far = admin.broker.clock.wall_ms() + FAR
        await delayed(admin, far, far + 5)
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204

        async def said() -> tuple[int, int, int]:
            await sums_of(admin).refresh([("orders", "billing")])
            found = sums_of(admin).ranking.get("orders", "billing")
            assert found is not None
            return found.unread, found.delayed, found.oldest

        assert await said() == (2, 0, NEVER)
        cursor_of(admin).ready()
        assert await said() == (2, 0, NEVER)
        await take(admin, "c1")
        assert await said() == (0, 2, NEVER)
        await at_rest(admin)
        assert await said() == (0, 2, NEVER)
        found = sums_of(admin).ranking.get("orders", "billing")
        assert found is not None
        assert found.next_due == far

    serve(test)


def test_of_what_is_at_rest_the_first_that_is_not_delayed_says_the_age(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await delayed(admin, admin.broker.clock.wall_ms() + FAR)
        await admin.produce("orders", 0, [b"a", b"b"])
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204
        assert await take(admin, "c1") == [1, 2]
        await ack(admin, "c1", 1, 1)
        before = await swept(admin)
        await at_rest(admin)
        after = await swept(admin)
        assert before is not None
        assert after is not None
        assert (after.open, after.delayed, after.available) == (2, 1, 1)
        assert after.oldest == before.oldest > 0

    serve(test)


def test_a_time_that_comes_while_nobody_is_there(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        far = admin.broker.clock.wall_ms() + FAR
        await delayed(admin, far)
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204
        await take(admin, "c1")
        await at_rest(admin)
        await swept(admin)
        monkeypatch.setattr(type(admin.broker.clock), "wall_ms", lambda self: far + 90_000)
        found = await swept(admin)
        assert found is not None
        assert (found.oldest, found.next_due) == (far, NEVER)
        (said,) = (await admin.ask("GET", "/admin/v2/magnetar/attention")).json["findings"]
        assert said["rule"] == "nobody"

    serve(test)


def test_dead_letters_are_open_until_they_are_settled(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)

        async def letters() -> int:
            found = await swept(admin)
            assert found is not None
            return found.dead_letters

        assert await letters() == 0
        await admin.plain("orders-billing-DLQ")
        await admin.produce("orders-billing-DLQ", 0, [b"1", b"2", b"3"])
        assert await letters() == 3
        answer = await admin.ask("GET", "P/orders/subscription/billing/magnetar/deadletters")
        assert len(answer.json["letters"]) == 3, answer
        topic = admin.broker.catalog.get("orders-billing-DLQ")
        assert topic is not None
        cursor = admin.broker.redrive.cursors.of(admin.broker.partition(topic, 0))
        assert cursor.settle([0, 2], DISCARDED) == [0, 2]
        await admin.broker.write([])
        assert await letters() == 1
        await admin.produce("orders-billing-DLQ", 0, [b"4"])
        assert await letters() == 2
        anew = Sums(admin.broker)
        await anew.look_at_all()
        assert [each.dead_letters for each in anew.ranking] == [2]

    serve(test)


def test_letters_are_ones_own_again_when_another_has_chosen_elsewhere(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.plain("orders-billing-DLQ")
        await admin.produce("orders-billing-DLQ", 0, [b"dead"])
        other = "P/orders/subscription/mail"
        assert (await admin.ask("PUT", f"{other}?type=shared", EARLIEST)).status == 204
        await sums_of(admin).look_at_all()
        for chosen, shared in (("orders-billing-DLQ", "orders-billing-DLQ"), ("elsewhere", "")):
            config = json.dumps({"pulsar.dead.letter.topic": chosen})
            assert (await admin.ask("PUT", f"{other}/properties", config)).status == 204
            await sums_of(admin).refresh([("orders", "mail")])
            # whom that concerns
            await sums_of(admin).sweep()
            found = sums_of(admin).ranking.get("orders", "billing")
            assert found is not None
            assert (found.dead_letters, found.letters_in) == (1, shared)

    serve(test)


@pytest.mark.parametrize("gone", ["P/orders/subscription/mail", "P/payments"])
def test_letters_are_ones_own_again_when_the_other_is_gone(serve: Serve, gone: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        for topic in ("payments", "orders-billing-DLQ"):
            await admin.plain(topic)
        at = gone if gone.endswith("mail") else f"{gone}/subscription/mail"
        assert (await admin.ask("PUT", f"{at}?type=shared", EARLIEST)).status == 204
        config = json.dumps({"pulsar.dead.letter.topic": "orders-billing-DLQ"})
        assert (await admin.ask("PUT", f"{at}/properties", config)).status == 204
        await sums_of(admin).sweep()
        await sums_of(admin).refresh([("orders", "billing")])
        found = await swept(admin)
        assert found is not None
        assert found.letters_in == "orders-billing-DLQ"
        assert (await admin.ask("DELETE", f"{gone}?force=true")).status == 204
        await sums_of(admin).sweep()
        found = await swept(admin)
        assert found is not None
        assert found.letters_in == ""

    serve(test)


def test_another_dead_letter_topic_is_looked_at_with_the_next_sweep(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        for topic, count in (("one", 1), ("two", 2)):
            await admin.plain(topic)
            await admin.produce(topic, 0, [b"dead"] * count)

        async def letters() -> int:
            found = await swept(admin)
            assert found is not None
            return found.dead_letters

        assert await letters() == 0
        properties = "P/orders/subscription/billing/properties"
        chosen = json.dumps({"pulsar.dead.letter.topic": "one"})
        assert (await admin.ask("PUT", properties, chosen)).status == 204
        assert await letters() == 1
        assert (await admin.ask("PUT", properties, "{}")).status == 204
        assert await letters() == 0
        # and of one that nobody uses, which its group tells
        await take(admin, "c1")
        await at_rest(admin)
        assert await letters() == 0
        await admin.broker.group_configs.alter(
            "billing", lambda old: {**old, "pulsar.dead.letter.topic": "two"}
        )
        assert await letters() == 2

    serve(test)


def test_dead_letters_are_counted_once_where_there_is_a_retry_topic(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        body = json.loads(EARLIEST)
        path = "P/orders/subscription/billing?enableRetry=true"
        assert (await admin.ask("PUT", path, json.dumps(body))).status == 204
        await admin.broker.group_configs.alter(
            "billing", lambda old: {**old, "pulsar.dead.letter.topic": "bin"}
        )
        await admin.plain("bin")
        await admin.produce("bin", 0, [b"1"])
        await sums_of(admin).look_at_all()
        found = {each.topic: each.dead_letters for each in sums_of(admin).ranking}
        assert found == {"orders": 1, "orders-billing-RETRY": 0}

    serve(test)


def test_a_dead_letter_topic_that_is_not_ones_own_is_named(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        names = "billing", "stock", "mail"
        await admin.plain("orders")
        for name in names:
            assert (await admin.ask("PUT", f"P/orders/subscription/{name}", EARLIEST)).status == 204
            await admin.plain(f"orders-{name}-DLQ")
            await admin.produce(f"orders-{name}-DLQ", 0, [b"1"])

        async def told() -> dict[str, tuple[int, str]]:
            for _ in range(2):
                await sums_of(admin).sweep()
            found = [sums_of(admin).ranking.get("orders", name) for name in names]
            return {each.group: (each.dead_letters, each.letters_in) for each in found if each is not None}

        async def choose(name: str, topic: str) -> None:
            await admin.broker.group_configs.alter(
                name, lambda old: {**old, "pulsar.dead.letter.topic": topic}
            )
            await sums_of(admin).refresh([("orders", name)])

        assert await told() == dict.fromkeys(names, (1, ""))
        # into one that another has by itself
        await choose("stock", "orders-billing-DLQ")
        shared = (1, "orders-billing-DLQ")
        assert await told() == {"billing": shared, "stock": shared, "mail": (1, "")}
        await admin.plain("bin")
        await admin.produce("bin", 0, [b"1", b"2"])
        await choose("mail", "bin")
        assert (await told())["mail"] == (2, "bin"), (
            "others of whom nobody knows any more may have some there"
        )
        listed = (await admin.ask("GET", "/admin/v2/magnetar/subscriptions")).json["subscriptions"]
        assert {each["subscription"]: each.get("deadLettersIn") for each in listed} == {
            "billing": "orders-billing-DLQ", "stock": "orders-billing-DLQ", "mail": "bin",
        }  # fmt: skip

    serve(test)
