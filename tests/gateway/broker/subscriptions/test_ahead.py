"""Reading on where no consumer is connected."""

from __future__ import annotations

from gateway.broker.subscriptions import ahead
from tests.gateway.admin.billing import Serve, cursor_of, explain, made, take
from tests.gateway.admin.conftest import Admin, serve
from tests.gateway.admin.test_open_messages import keyed

__all__ = ["serve"]


def test_batches_are_looked_at_some_at_a_time_and_given_to_nobody(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=1)
        for _ in range(5):
            await admin.produce("orders", 0, [b"x" * 40_000])
        at = cursor_of(admin)
        assert at.ready().read == 0
        steps = 1
        while await ahead.read_on(at, 4):
            steps += 1
        cursor = at.ready()
        assert (cursor.read >= 4, cursor.read < 6, cursor.acquired) == (True, True, 0)
        assert steps > 1
        assert await ahead.read_on(at, 1) is False
        # behind the end there is nothing
        while await ahead.read_on(at, 100):
            pass
        assert at.ready().read == 6
        assert await take(admin, "c1") == list(range(6))

    serve(test)


def test_what_their_headers_say_is_known_then(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await keyed(admin, "key_shared", [(b"a", b"1", 0), (b"b", b"2", 60_000)])
        at = cursor_of(admin)
        assert (await explain(admin, 1))["state"] == "UNREAD"
        assert await ahead.read_on(at, 2) is False
        await admin.broker.write([])
        assert [(await explain(admin, offset))["state"] for offset in (0, 1)] == ["AVAILABLE", "DELAYED"]
        assert await take(admin, "c1") == [0]

    serve(test)
