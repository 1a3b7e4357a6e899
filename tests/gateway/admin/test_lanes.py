"""Lanes over HTTP: in stats, in explain, in a backlog, and under the hands of administrators; on a real broker."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.admin import lane_stats
from gateway.admin.places import commit_offsets
from gateway.admin.topics import Found
from gateway.broker.consumer_groups import Beating
from gateway.broker.errors import KafkaError
from gateway.broker.machines import Caller
from gateway.broker.queues.queue import Queue
from gateway.broker.queues.registry import Queues
from gateway.coordinators.classic_events import Join, Sync
from gateway.wire import records
from gateway.wire.errors import Error
from tests.gateway.admin.billing import EARLIEST, Serve, World, explain, stats
from tests.gateway.admin.conftest import Admin
from tests.gateway.broker.queues.reading import Client

NAME = "orders-billing-QUEUE"
PATH = "P/orders/subscription/billing"


async def queue(admin: Admin, kind: str = "shared", count: int = 5, lanes: int = 2, **own: str) -> Queue:
    """Topic orders with records of one key, and its subscription billing, served by lanes."""
    await admin.plain("orders")
    await admin.produce("orders", 0, [f"m{n}".encode() for n in range(count)])
    body = json.dumps({**json.loads(EARLIEST), "properties": own})
    answer = await admin.ask("PUT", f"{PATH}?type={kind}&lanes={lanes}", body)
    assert answer.status == 204, answer
    return at_work(admin)


def at_work(admin: Admin) -> Queue:
    topic = admin.broker.catalog.get(NAME)
    assert topic is not None
    return admin.broker.queues.of(topic)


def reader(admin: Admin, lane: int = 0) -> Client:
    """Somebody who fetches a lane."""
    return Client(World(admin), lane, "orders", "billing")  # type: ignore[arg-type]


async def join(admin: Admin, *lanes: int) -> str:
    """A member of the group, which has these lanes; its id."""
    name = NAME.encode()
    topic = len(name).to_bytes(2, "big") + name
    event = Join(
        Caller(lambda answer: answer), "", "member-1", None, "biller", "/10.0.0.7", 30_000, 30_000, "consumer",
        (("range", b"\0\0\0\0\0\1" + topic + b"\xff" * 4),), id_required=False,
    )  # fmt: skip
    joined: Any = await admin.broker.groups.run("billing", event)
    assert joined.error == 0, joined
    given = b"\0\1\0\0\0\1" + topic + len(lanes).to_bytes(4, "big")
    given += b"".join(lane.to_bytes(4, "big") for lane in lanes) + b"\xff" * 4
    asked = Sync(
        Caller(lambda answer: answer),
        joined.member_id,
        joined.generation,
        assignments={joined.member_id: given},
    )
    synced: Any = admin.broker.groups.run("billing", asked)
    if not hasattr(synced, "error"):
        synced = await synced
    assert synced.error == 0, synced
    member: str = joined.member_id
    return member


async def lanes_of(admin: Admin) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await stats(admin))["magnetar"]["queue"]["lanes"]
    return found


# -- stats -------------------------------------------------------------------------------------------------------------


def test_stats_tell_of_each_lane_who_has_it_and_what_is_open(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await queue(admin, count=80)
        member = await join(admin, 0)
        await reader(admin).read()
        one, other = await lanes_of(admin)
        assert one == {
            "lane": 0, "member": member, "clientId": "biller", "clientHost": "10.0.0.7", "openDeliveries": 64,
            "sentDeliveries": 64, "firstOpenOffset": 0, "endOffset": 64, "startOffset": 0, "window": 64, "allowed": 64,
            "ackRate": 0.0, "suspects": 0, "waits": True,
        }  # fmt: skip
        assert ("member" in other, other["openDeliveries"], other["waits"]) == (False, 0, False)
        found = await stats(admin)
        assert (found["msgBacklog"], found["magnetar"]["groupMembers"]) == (80, 1)
        scraped = (await admin.ask("GET", "/metrics")).body.decode().splitlines()
        assert [line[-2:] for line in scraped if line.startswith("pulsar_subscription_consumers_count{")] == [
            " 1"
        ]
        # to the cursor a lane is a consumer
        holds, idle = found["consumers"]
        assert (holds["consumerName"], holds["unackedMessages"], holds["address"]) == (
            "lane 0",
            64,
            "10.0.0.7",
        )
        assert holds["metadata"] == {"clientId": "biller", "clientHost": "10.0.0.7", "member": member}
        assert idle["metadata"] == {"clientId": ""}

    serve(test)


def test_members_of_the_new_protocol_are_told_and_hold_the_subscription(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await queue(admin)
        groups = admin.broker.consumer_groups
        joins = Beating(
            "billing", "m", 0, None, None, 30_000, (NAME,), None, None, frozenset(), ("/10.0.0.7", "biller"),
            Caller(lambda answer: answer),
        )  # fmt: skip
        joined = groups.heartbeat(joins)
        if not hasattr(joined, "error"):
            joined = await joined
        assert joined.error == 0
        lanes = await lanes_of(admin)
        assert [(lane["member"], lane["clientId"], lane["clientHost"]) for lane in lanes] == [
            ("m", "biller", "10.0.0.7")
        ] * 2
        scraped = (await admin.ask("GET", "/metrics")).body.decode().splitlines()
        assert [line[-2:] for line in scraped if line.startswith("pulsar_subscription_consumers_count{")] == [
            " 1"
        ]
        refused = await admin.ask("DELETE", PATH)
        assert refused.status == 412
        assert "billing has 1 consumers of orders-billing-QUEUE" in refused.body.decode()
        assert (await admin.ask("DELETE", f"{PATH}?force=true")).status == 204

    serve(test)


def test_stats_of_a_partitioned_topic_tell_of_its_lanes_once(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 3)
        assert (await admin.ask("PUT", f"{PATH}?type=shared&lanes=2", EARLIEST)).status == 204
        answer = (await admin.ask("GET", "P/orders/partitioned-stats")).json
        told = answer["subscriptions"]["billing"]["magnetar"]["queue"]
        assert (told["topic"], [lane["lane"] for lane in told["lanes"]]) == (NAME, [0, 1])
        for each in answer["partitions"].values():
            assert "queue" not in each["subscriptions"]["billing"]["magnetar"]
        one = (await admin.ask("GET", "P/orders-partition-1/stats")).json
        assert len(one["subscriptions"]["billing"]["magnetar"]["queue"]["lanes"]) == 2

    serve(test)


def test_stats_of_a_queue_topic_are_those_of_its_lanes(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await queue(admin)
        await reader(admin, 1).read()
        told = (await admin.ask("GET", f"P/{NAME}/partitioned-stats")).json["magnetar"]["queue"]
        assert (told["baseTopic"], told["subscription"]) == ("orders", "billing")
        assert [lane["openDeliveries"] for lane in told["lanes"]] == [0, 5]
        (lane,) = (await admin.ask("GET", f"P/{NAME}-partition-1/stats")).json["magnetar"]["queue"]["lanes"]
        assert (lane["lane"], lane["openDeliveries"]) == (1, 5)

    serve(test)


def test_a_queue_that_nobody_uses_is_told_without_being_loaded(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        work = await queue(admin)
        await join(admin, 1)
        await reader(admin).read()
        work.commit(0, 2, "", member=True)
        await admin.broker.write([])
        # as after a restart
        admin.broker.queues._live.clear()
        monkeypatch.setattr(Queues, "of", None)
        one, other = await lanes_of(admin)
        assert (one["firstOpenOffset"], one["openDeliveries"], one["sentDeliveries"]) == (2, 3, 0)
        assert ("member" in one, other["clientId"]) == (False, "biller")
        assert (await admin.ask("POST", f"{PATH}/analyzeBacklog")).json["magnetar"]["lanes"] == []

    serve(test)


def test_what_a_plain_group_of_that_name_had_committed_is_not_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await queue(admin, count=5)
        await admin.commit("billing", "orders", 0, 4)
        found = await stats(admin)
        assert (found["type"], found["msgBacklog"]) == ("Shared", 5)
        (one,) = (await admin.ask("GET", "P/orders/lag")).json["subscriptions"]
        assert (one["type"], one["msgBacklog"], one["consumersCount"]) == ("Shared", 5, 0)
        await join(admin, 0)
        (one,) = (await admin.ask("GET", "P/orders/lag")).json["subscriptions"]
        assert one["consumersCount"] == 1
        # of another topic of that group it has no lanes
        await admin.plain("other")
        assert (
            await admin.ask("PUT", "P/other/subscription/billing?type=shared&lanes=2", EARLIEST)
        ).status == 204
        (one,) = (await admin.ask("GET", "P/other/lag")).json["subscriptions"]
        assert one["consumersCount"] == 0

    serve(test)


def test_exporters_tell_the_open_deliveries_of_lanes_as_lag(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        work = await queue(admin)
        await admin.commit("billing", "orders", 0, 4)
        # where it was committed is not where it goes on
        await admin.commit("billing", NAME, 0, 1)
        await reader(admin).read()
        work.commit(0, 1, "ack1;a=1", member=True)
        await admin.broker.write([])
        lines = (await admin.ask("GET", "/metrics")).body.decode().splitlines()
        which = f'{{consumergroup="billing",topic="{NAME}"'
        assert f'kafka_consumergroup_current_offset{which},partition="0"}} 2' in lines
        assert f'kafka_consumergroup_lag{which},partition="0"}} 3' in lines
        assert f"kafka_consumergroup_lag_sum{which}}} 3" in lines
        names = [line.split(" ")[0] for line in lines if not line.startswith("#")]
        assert len(names) == len(set(names)), "no line comes twice"
        own = [line for line in lines if line.startswith("pulsar_subscription_back_log{")]
        assert [line.split(" ")[1] for line in own] == ["3"], "of the base topic alone"

    serve(test)


# -- explain -----------------------------------------------------------------------------------------------------------


def test_a_record_in_hand_is_told_with_its_lane_and_offset(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        work = await queue(admin, lanes=1)
        client = reader(admin)
        # given when it asks, and sent with the next fetch
        await client.poll()
        await admin.broker.write([])
        nobody = await explain(admin, 3)
        assert (nobody["state"], nobody["delivery"]["offset"], nobody["delivery"]["sent"]) == (
            "ACQUIRED",
            3,
            False,
        )
        assert "Nobody has the lane at present: whoever gets it" in nobody["explanation"]
        stranger = reader(admin)
        await stranger.poll()
        stranger.leave()
        said = (await explain(admin, 3))["explanation"]
        assert "a reader of another group than billing, or of none, its commits settle nothing" in said
        member = await join(admin, 0)
        assert "was not sent it yet" in (await explain(admin, 3))["explanation"]
        await client.poll()
        held = await explain(admin, 3)
        assert held["delivery"] == {"lane": 0, "offset": 3, "open": True, "sent": True, "suspect": False}
        assert held["explanation"] == (
            f"It is at offset 3 of lane 0 of {NAME}. {member} (biller at 10.0.0.7) has the lane and was sent it; no"
            " commit has settled it."
        )
        assert (held["lane"]["member"], held["lane"]["clientId"], held["lane"]["window"]) == (
            member,
            "biller",
            64,
        )
        work.commit(0, 4, "ack1;n:60000=1;d=2", member=True)
        await admin.broker.write([])
        waits, settled = await explain(admin, 1), await explain(admin, 3)
        assert (waits["state"], waits["failedDeliveries"], "due" in waits) == ("BACKOFF", 1, True)
        assert waits["explanation"].endswith(f"It was last delivered at offset 1 of lane 0 of {NAME}.")
        assert (settled["state"], settled["delivery"]) == ("DONE", {"lane": 0, "offset": 3, "open": False})
        assert (await explain(admin, 2))["deadLetter"]["topic"] == "orders-billing-DLQ"

    serve(test)


def test_a_message_is_followed_to_its_retry_letter_and_to_the_dead_letter_of_that(serve: Serve) -> None:
    """By which message a letter was at first: the offsets on the topic of retries are others."""

    async def test(admin: Admin) -> None:
        work = await queue(admin, lanes=1)
        client = reader(admin)
        await client.read()
        work.commit(0, 5, "ack1;r:0=3", member=True)
        async with asyncio.timeout(30):
            while "retryLetter" not in (told := await explain(admin, 3)):
                await asyncio.sleep(0)
        assert told["retryLetter"] == {"topic": "orders-billing-RETRY", "partition": 0, "offset": 0}
        asked = "orders-billing-RETRY-partition-0 -s billing --offset 0"
        assert asked in told["explanation"]
        answer = await admin.ask(
            "GET", "P/orders-billing-RETRY-partition-0/subscription/billing/explain?offset=0"
        )
        assert answer.status == 200, answer
        # of its neighbours nothing is said
        for other in (0, 2, 4):
            assert not {"retryLetter", "deadLetter"} & (await explain(admin, other)).keys()
        async with asyncio.timeout(30):
            while 5 not in await client.read():
                await admin.broker.write([])
        work.commit(0, 6, "ack1;d=5", member=True)
        async with asyncio.timeout(30):
            while "deadLetter" not in (told := await explain(admin, 3)):
                await asyncio.sleep(0)
        assert (told["deadLetter"]["topic"], told["deadLetter"]["offset"]) == ("orders-billing-DLQ", 0)
        assert not {"retryLetter", "deadLetter"} & (await explain(admin, 0)).keys()

    serve(test)


def test_what_nobody_was_given_yet_is_told_with_what_it_waits_for(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await queue(admin, count=200)
        # looked at, and not read by anybody
        assert "No consumer has any lane." in (await explain(admin, 150))["explanation"]
        member = await join(admin, 0, 1)
        assert "The consumer that asks next" in (await explain(admin, 150))["explanation"]
        for lane in range(2):
            await reader(admin, lane).read()
        full = (await explain(admin, 150))["explanation"]
        for lane in range(2):
            assert (
                f"Lane {lane} is full: 64 of 64 deliveries are open, and {member} (biller at 10.0.0.7) has to commit"
                " some first." in full
            )

    serve(test)


def test_a_key_waits_for_its_lane(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        work = await queue(admin, kind="key_shared", count=100)
        # the slots are dealt
        for _ in range(3):
            await admin.broker.write([])
        answer = await admin.ask("GET", f"{PATH}/hash?key=k")
        (lane,) = answer.json["lanes"]
        number = lane["lane"]
        assert (answer.json["owner"], "member" in lane) == (f"lane {number}", False)
        client = reader(admin, number)
        await client.read()
        work.commit(number, 3, "ack1;n:60000=1", member=True)
        await admin.broker.write([])
        await client.read()
        behind = await explain(admin, 80)
        assert (behind["state"], behind["owner"], behind["lane"]["lane"]) == (
            "BLOCKED",
            f"lane {number}",
            number,
        )
        assert behind["explanation"].endswith(f"No consumer has lane {number}.")
        member = await join(admin, number)
        assert (await explain(admin, 80))["explanation"].endswith(
            f"{member} (biller at 10.0.0.7) has lane {number}."
        )
        (lane,) = (await admin.ask("GET", f"{PATH}/hash?key=k")).json["lanes"]
        assert lane["member"] == member

    serve(test)


def test_a_key_that_moves_waits_for_the_lane_that_had_it(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await queue(admin, kind="key_shared", lanes=1)
        await reader(admin).read()
        # more lanes, until the key is another's
        for lanes in range(2, 40):
            await admin.broker.topics.grow(NAME, lanes)
            for _ in range(3):
                await admin.broker.write([])
            work = at_work(admin)
            (source,) = work.sources.values()
            if draining := source.at.ready().draining():
                break
        (one,) = draining
        assert one.owner is not None
        assert (one.holder, one.owner != "lane 0") == ("lane 0", True)
        number = int(one.owner.removeprefix("lane "))
        member = await join(admin, 0)
        await admin.produce("orders", 0, [b"m5"])
        await reader(admin, number).read()
        waits = await explain(admin, 5)
        assert (waits["state"], waits["consumer"], waits["owner"]) == ("BLOCKED", "lane 0", one.owner)
        assert "lane 0 has a record of its slot" in waits["explanation"]
        assert waits["explanation"].endswith(
            f"{member} (biller at 10.0.0.7) has lane 0. No consumer has lane {number}."
        )
        assert (waits["lane"]["lane"], "delivery" in waits) == (number, False)

    serve(test)


def test_suspects_are_told_as_such(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        work = await queue(admin, count=200, lanes=1, **{"pulsar.max.redeliver.count": "2"})
        member = await join(admin, 0)
        client = reader(admin)
        await client.read()
        work.crashed(member)
        work.assigned({member: [0]})
        await admin.broker.write([])
        await client.read()
        found = await explain(admin, 0)
        assert (found["failedDeliveries"], found["delivery"]["suspect"]) == (1, True)
        assert "It is one of 64 that a consumer had in hand when it was lost" in found["explanation"]
        assert found["explanation"].endswith("It failed 1 time so far.")
        (lane,) = await lanes_of(admin)
        assert (lane["suspects"], lane["allowed"] < lane["window"]) == (64, True)
        waits = await explain(admin, 63)
        assert waits["state"] == "AVAILABLE"
        assert (
            f"Lane 0 may have {lane['allowed']} open, and has {lane['openDeliveries']}"
            in waits["explanation"]
        )

    serve(test)


def test_beside_a_message_that_is_to_be_alone_other_lanes_of_its_member_say_so(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        work = await queue(admin, "key_shared", 1, 2, **{"pulsar.max.redeliver.count": "1"})
        for _ in range(3):
            await admin.broker.write([])
        owners = [
            (await admin.ask("GET", f"{PATH}/hash?key={key}")).json["owner"] for key in ("k", *"abcdefgh")
        ]
        one = int(owners[0].removeprefix("lane "))
        other = 1 - one
        key = dict(zip(owners, ("k", *"abcdefgh"), strict=True))[f"lane {other}"]
        member = await join(admin, 0, 1)
        await reader(admin, one).read()
        # its consumer is lost with it: its last delivery is to come, and it alone
        work.crashed(member)
        work.assigned({member: [0, 1]})
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        now = admin.broker.clock.wall_ms()
        batch = records.build_batch([records.Record(0, now, key.encode(), b"v", [])])
        admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
        await admin.broker.write([])
        client = reader(admin, one)
        assert len(await client.read()) == 1
        waits = (await explain(admin, 1))["explanation"]
        assert f"Lane {other} is given nothing for now: {member} (biller at 10.0.0.7) is to have one" in waits

    serve(test)


def test_the_last_commit_that_was_refused_is_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await queue(admin, lanes=1)
        await reader(admin).read()
        topic = admin.broker.catalog.get(NAME)
        assert topic is not None
        admin.broker.queues.refusals.note(topic.partitions[0], 5, "ack1;n:soon=3", "'n:soon=3' is no item", 0)
        (lane,) = await lanes_of(admin)
        assert lane["lastRefused"] == {
            "offset": 5,
            "metadata": "ack1;n:soon=3",
            "reason": "'n:soon=3' is no item",
            "at": "1970-01-01T00:00:00.000Z",
        }
        assert (await explain(admin, 2))["explanation"].endswith(
            "The last commit of lane 0 that was refused, at 1970-01-01T00:00:00.000Z, was of offset 5 with"
            " 'ack1;n:soon=3': 'n:soon=3' is no item"
        )
        # it goes with the lane
        await admin.broker.topics.delete(NAME)
        assert admin.broker.queues.refusals.of(topic.partitions[0]) is None

    serve(test)


def test_a_delivery_is_explained_by_its_lane_and_offset(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        work = await queue(admin)
        await reader(admin, 1).read()
        path = f"P/{NAME}-partition-1/subscription/billing/explain"
        found = (await admin.ask("GET", f"{path}?offset=3")).json
        assert (found["topic"], found["partition"], found["offset"], found["state"]) == (
            "orders",
            0,
            3,
            "ACQUIRED",
        )
        assert found["explanation"].startswith(f"It is at offset 3 of lane 1 of {NAME}.")
        work.commit(1, 2, "ack1;n:0=1", member=True)
        await admin.broker.write([])
        await reader(admin, 1).read()
        # an offset is one delivery: of one that is over it is told where its record is by now
        old, new = [(await admin.ask("GET", f"{path}?offset={offset}")).json for offset in (1, 5)]
        assert [each["offset"] for each in (old, new)] == [1, 1]
        assert [each["delivery"]["offset"] for each in (old, new)] == [5, 5]
        assert new["explanation"].startswith(f"It is at offset 5 of lane 1 of {NAME}.")
        before = "Delivery 1 of lane 1 is over; its record was delivered again. "
        assert old["explanation"] == before + new["explanation"]
        work.commit(1, 6, "", member=True)
        await admin.broker.write([])
        old = (await admin.ask("GET", f"{path}?offset=1")).json
        assert old["explanation"].startswith(before)
        assert old["explanation"].endswith(f"It was last delivered at offset 5 of lane 1 of {NAME}.")
        missing = await admin.ask("GET", f"{path}?offset=6")
        assert (missing.status, "ends at offset 6" in missing.json["reason"]) == (404, True)
        work.at[1].trim(1)
        work.at[1].lane.runs[:] = []
        gone = await admin.ask("GET", f"{path}?offset=0")
        assert (gone.status, "not kept any more" in gone.json["reason"]) == (404, True)
        other = await admin.ask("GET", f"P/{NAME}-partition-1/subscription/other/explain?offset=0")
        assert (other.status, "it is that of billing" in other.json["reason"]) == (404, True)
        whole = await admin.ask("GET", f"P/{NAME}/subscription/billing/explain?offset=0")
        assert (whole.status, f"{NAME}-partition-0" in whole.json["reason"]) == (405, True)

    serve(test)


def test_a_delivery_whose_record_is_trimmed_says_so(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        work = await queue(admin, lanes=1)
        await reader(admin).read()
        (source,) = work.sources.values()
        await admin.broker.topics.delete_records(source.at.partition, 3)
        answer = await admin.ask("GET", f"P/{NAME}-partition-0/subscription/billing/explain?offset=1")
        assert answer.status == 404
        assert answer.json["reason"].startswith(
            "It is of record 1 of orders, partition 0. Record 1 is not there"
        )

    serve(test)


def test_lanes_that_cannot_be_read_are_left_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await queue(admin)

        def of(self: object, topic: object) -> None:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)

        monkeypatch.setattr(Queues, "of", of)
        assert "lane" not in await explain(admin, 0)
        answer = await admin.ask("GET", f"P/{NAME}-partition-0/subscription/billing/explain?offset=0")
        assert answer.status == 503

        def unread(*_: object) -> None:
            raise KafkaError(Error.COORDINATOR_LOAD_IN_PROGRESS)

        monkeypatch.setattr(Queues, "in_use", lambda *_: None)
        monkeypatch.setattr(type(admin.broker.groups), "get", unread)
        topic = admin.broker.catalog.get(NAME)
        assert topic is not None
        assert lane_stats.of_queue(admin.broker, topic) == {"topic": NAME, "members": 0, "lanes": []}

    serve(test)


# -- looked at, and moved ----------------------------------------------------------------------------------------------


def test_a_backlog_says_what_of_it_lies_on_which_lane(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        work = await queue(admin)
        await reader(admin, 1).read()
        work.commit(1, 2, "", member=True)
        await admin.produce("orders", 0, [b"m5"])
        found = (await admin.ask("POST", f"{PATH}/analyzeBacklog")).json
        assert (found["messages"], found["magnetar"]["states"]["acquired"]) == (4, 4)
        # the last one was given to who waits, and is on its way
        assert found["magnetar"]["lanes"] == [{"lane": 1, "openDeliveries": 4, "sentDeliveries": 3}]

    serve(test)


def test_the_open_deliveries_of_a_lane_can_be_peeked_at(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        work = await queue(admin)
        await reader(admin, 1).read()
        work.commit(1, 1, "ack1;a=2", member=True)
        path = f"P/{NAME}-partition-1/subscription/billing/position"
        assert [(await admin.ask("GET", f"{path}/{n}")).body for n in (1, 2, 3)] == [b"m1", b"m3", b"m4"]
        assert (await admin.ask("GET", f"{path}/4")).status == 404
        assert (await admin.ask("GET", f"{path}/0")).status == 412
        # and of the base topic what is not settled
        assert [(await admin.ask("GET", f"{PATH}/position/{n}")).body for n in (1, 2)] == [b"m1", b"m3"]

    serve(test)


def test_skip_clear_and_reset_take_back_what_lanes_hold(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        work = await queue(admin, lanes=1)
        client = reader(admin)
        await client.read()
        lane = work.at[0].lane
        answer = await admin.ask("POST", f"{PATH}/skip/2")
        assert json.loads(answer.headers["X-Magnetar-Result"]) == {"messages": 2}
        assert (lane.open, lane.opened) == (2, 3)
        assert (await admin.ask("POST", f"{PATH}/skip_all")).status == 204
        assert (lane.open, lane.end) == (5, 5)
        assert (await admin.ask("POST", f"{PATH}/resetcursor", EARLIEST)).status == 204
        assert list((await client.read()).values()) == [b"m0", b"m1", b"m2", b"m3", b"m4"]
        assert (await admin.ask("POST", f"{PATH}/resetcursor", "{}")).status == 204
        assert (lane.open, lane.end) == (10, 10)

    serve(test)


def test_what_is_for_a_partition_is_not_for_a_lane(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await queue(admin)
        # as its group does, of which a lane's commits are known like those of any topic
        topic = admin.broker.catalog.get(NAME)
        assert topic is not None
        found = Found(admin.broker.catalog.namespaces.full(NAME), topic, -1)
        await commit_offsets(admin.broker, found, "billing", {0: 0})
        for verb, name in (("skip/1", "skip"), ("analyzeBacklog", "analyze-backlog")):
            for lane in ("", "-partition-0"):
                answer = await admin.ask("POST", f"P/{NAME}{lane}/subscription/billing/{verb}")
                assert answer.status == 412, answer
                why = "is a queue topic, which keeps no messages of its own"
                assert f"{why}: use {name} on orders." in answer.json["reason"]

    serve(test)
