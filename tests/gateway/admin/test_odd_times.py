"""Times that no calendar has, as any client may stamp its messages: calls answer with the nearest that there is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gateway.admin.exchange import iso
from gateway.wire import records
from gateway.wire.batch import HEADER_SIZE, sealed
from tests.gateway.admin.billing import EARLIEST, Serve, explain, take
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_replaying import DLQ, dead

FAR, LONG_AGO = 1 << 60, -(10**14)
FIRST, LAST = "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"
Q = "P/orders/subscription/billing/magnetar"


async def stamped(admin: Admin, name: str, base: int, *headers: tuple[str, bytes | None]) -> None:
    """A record with this time, in a batch that says of its newest one that it is of now."""
    now = admin.broker.clock.wall_ms()
    batch = records.build_batch([records.Record(0, base, b"k", b"odd", list(headers))])
    said = records.header(batch)
    batch = sealed(
        (
            said.attributes,
            said.last_offset_delta,
            base,
            now,
            said.producer_id,
            said.producer_epoch,
            said.base_sequence,
            said.count,
        ),
        batch[HEADER_SIZE:],
    )
    topic = admin.broker.catalog.get(name)
    assert topic is not None
    admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
    await admin.broker.write([])


async def far_due(admin: Admin) -> None:
    """`orders` has one message, for `billing` not before some millions of years."""
    await admin.plain("orders")
    await stamped(admin, "orders", FAR, ("pulsar-deliver-at", b"%d" % (FAR + 1000)))
    assert (await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)).status == 204
    assert await take(admin, "c1") == []


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_774_823_400_123, "2026-03-29T22:30:00.123Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, FIRST),
        (-62_135_596_800_001, FIRST),
        (LONG_AGO, FIRST),
        (-(1 << 64), FIRST),
        (253_402_300_799_999, LAST),
        (253_402_300_800_000, LAST),
        ((1 << 63) - 1, LAST),
    ],
)
def test_a_time_is_one_that_there_is(ms: int, said: str) -> None:
    assert iso(ms) == said
    assert datetime.fromisoformat(said).tzinfo is UTC


def test_one_message_that_is_due_in_millions_of_years_ends_no_list(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await far_due(admin)
        answer = await admin.ask("GET", "/admin/v2/magnetar/subscriptions")
        assert answer.status == 200, answer
        (found,) = answer.json["subscriptions"]
        assert (found["states"]["delayed"], found["nextDue"]) == (1, LAST)
        assert (await explain(admin, 0))["due"] == LAST
        due = await admin.ask("GET", f"{Q}/due")
        assert (due.status, due.json["next"], due.json["later"]["delayed"]) == (200, LAST, 1)
        for path in (f"{Q}/open", f"{Q}/causes", "P/orders/magnetar/records", "/admin/v2/magnetar/lag"):
            assert (await admin.ask("GET", path)).status == 200, path
        message = (await admin.ask("GET", "P/orders/magnetar/records")).json["records"][0]["messageId"]
        trace = await admin.ask("GET", f"P/orders/magnetar/trace?id={message}")
        assert (trace.status, trace.json["subscriptions"][0]["due"]) == (200, LAST)

    serve(test)


@pytest.mark.parametrize(("ms", "said"), [(LONG_AGO, FIRST), (FAR, LAST)])
def test_a_dead_letter_that_a_client_wrote_is_listed_whatever_its_time(
    serve: Serve, ms: int, said: str
) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 1)
        await stamped(admin, DLQ, ms)
        answer = await admin.ask("GET", f"{Q}/deadletters")
        assert answer.status == 200, answer
        assert answer.json["letters"][1]["diedAt"] == said
        groups = await admin.ask("GET", f"{Q}/deadletters/groups")
        assert groups.status == 200, groups
        (group,) = [each for each in groups.json["groups"] if each["group"] == "UNKNOWN"]
        assert (group["first"], group["last"]) == (said, said)

    serve(test)


def test_pulsars_calls_say_a_publish_time_that_there_is(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await far_due(admin)
        answer = await admin.ask("GET", "P/orders/examinemessage?initialPosition=earliest&messagePosition=1")
        assert (answer.status, answer.headers["X-Pulsar-publish-time"]) == (200, LAST), answer

    serve(test)
