"""The dispatch rate of one subscription over HTTP: set, shown, in force, taken back; beside its topic's."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.admin.billing import EARLIEST, Serve, take
from tests.gateway.admin.conftest import Admin

RATE = "P/orders/billing/dispatchRate"
TWO = {"dispatchThrottlingRateInMsg": 2, "ratePeriodInSecond": 3600}
NOTHING = {
    "dispatchThrottlingRateInMsg": 0,
    "dispatchThrottlingRateInByte": 0,
    "ratePeriodInSecond": 1,
    "relativeToPublishRate": False,
}


async def ask(admin: Admin, method: str, path: str, body: Any = None) -> Any:
    answer = await admin.ask(method, path, None if body is None else json.dumps(body))
    assert answer.status in (200, 204), answer
    return answer.json if answer.body else None


def test_one_subscription_has_a_rate_of_its_own(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)
        await admin.ask("PUT", "P/orders/subscription/other?type=shared", EARLIEST)
        await admin.produce("orders", 0, [b"%d" % n for n in range(10)])
        assert await ask(admin, "GET", RATE) is None
        await ask(admin, "POST", RATE, TWO)
        assert await ask(admin, "GET", RATE) == {**NOTHING, **TWO}
        assert await ask(admin, "GET", f"{RATE}?applied=true") == {**NOTHING, **TWO}
        assert await ask(admin, "GET", "P/orders/other/dispatchRate") is None
        assert await ask(admin, "GET", "P/orders/subscriptionDispatchRate") is None
        assert await take(admin, "c", 5) == [0, 1]
        # its own goes before its topic's, each value by itself
        await ask(admin, "POST", "P/orders/subscriptionDispatchRate", {"dispatchThrottlingRateInMsg": 1})
        applied = await ask(admin, "GET", f"{RATE}?applied=true")
        assert applied["dispatchThrottlingRateInMsg"] == 2
        others = await ask(admin, "GET", "P/orders/other/dispatchRate?applied=true")
        assert others["dispatchThrottlingRateInMsg"] == 1
        await ask(admin, "DELETE", "P/orders/subscriptionDispatchRate")
        await ask(admin, "DELETE", RATE)
        assert await ask(admin, "GET", RATE) is None
        assert admin.broker.topics.get("orders").subscription_policies == {}
        assert await take(admin, "c", 5) == [2, 3, 4, 5, 6], "at once"

    serve(test)


def test_it_may_be_said_before_there_is_the_subscription(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await ask(admin, "POST", RATE, TWO)
        await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)
        await admin.produce("orders", 0, [b"%d" % n for n in range(10)])
        assert await take(admin, "c", 5) == [0, 1]

    serve(test)


def test_wrong_values_change_nothing(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        bodies: list[Any] = [[], {"dispatchThrottlingRateInMsg": "x"}, {"ratePeriodInSecond": 0}]
        for body in bodies:
            answer = await admin.ask("POST", RATE, json.dumps(body))
            assert answer.status in (400, 412)
        assert (await admin.ask("POST", "P/none/billing/dispatchRate", json.dumps(TWO))).status == 404
        assert admin.broker.topics.get("orders").subscription_policies == {}

    serve(test)
