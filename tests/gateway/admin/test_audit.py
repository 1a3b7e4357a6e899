"""What of calls is told, and to whom."""

from __future__ import annotations

from gateway.admin.audit import place_of
from gateway.admin.exchange import Call
from tests.gateway.admin.secured import Secured, furnish, serve_secured

AUDIT = "/admin/v2/magnetar/audit"


def test_changes_refusals_and_logins_are_told() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        await at.ask("ada", "POST", "/admin/v2/namespaces/shop/eu/messageTTL", "60")
        await at.ask("ada", "DELETE", "/admin/v2/persistent/shop/eu/nope")
        await at.ask("eve", "DELETE", "/admin/v2/persistent/shop/eu/orders/partitions")
        await at.ask("eve", "GET", "/admin/v2/persistent/shop/eu/orders/stats")
        await at.ask(None, "DELETE", "/admin/v2/persistent/shop/eu/orders/partitions")
        found = (await at.ask("root", "GET", AUDIT)).json
        told = [
            (each["kind"], each["what"], each["who"], each["outcome"], each.get("target", ""))
            for each in found
        ]
        assert told[:7] == [
            ("refused", "login by HTTP", "", "it does not say who it is", ""),
            ("refused", "GET", "User:eve", "not allowed", "persistent/shop/eu/orders/stats"),
            ("refused", "DELETE", "User:eve", "not allowed", "persistent/shop/eu/orders/partitions"),
            ("login", "Basic", "User:eve", "done", ""),
            ("refused", "DELETE", "User:ada", "HTTP 404", "persistent/shop/eu/nope"),
            ("change", "POST", "User:ada", "done", "namespaces/shop/eu/messageTTL"),
            ("login", "Basic", "User:ada", "done", ""),
        ]
        assert {each["host"] for each in found} == {"127.0.0.1"}
        assert {each["over"] for each in found} == {"http"}
        changes = (await at.ask("root", "GET", f"{AUDIT}?kind=change&limit=1")).json
        assert [each["target"] for each in changes] == ["namespaces/shop/eu/messageTTL"]
        assert (await at.ask("root", "GET", f"{AUDIT}?kind=none")).status == 400
        assert (await at.ask("root", "GET", f"{AUDIT}?limit=0")).status == 400
        assert (await at.ask("ada", "GET", AUDIT)).status == 403

    serve_secured(test)


def test_a_write_that_was_refused_is_no_change_and_the_same_is_told_once() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        before = (await at.ask("root", "GET", f"{AUDIT}?kind=change")).json
        place = "persistent/shop/eu"
        for path, body in (
            (f"{place}/orders/partitions", "3"),
            (f"{place}/orders/partitions", "3"),
            (f"{place}/new/partitions", "none"),
        ):
            assert (await at.ask("ada", "PUT", f"/admin/v2/{path}", body)).status in (400, 409)
        assert (await at.ask("root", "GET", f"{AUDIT}?kind=change")).json == before
        refused = (await at.ask("root", "GET", f"{AUDIT}?kind=refused")).json
        assert [(each["what"], each["outcome"], each["target"]) for each in refused] == [
            ("PUT", "HTTP 400", f"{place}/new/partitions"),
            ("PUT", "HTTP 409", f"{place}/orders/partitions"),
        ]

    serve_secured(test)


def test_reads_are_not_told() -> None:
    async def test(at: Secured) -> None:
        await at.ask("root", "GET", "/admin/v2/clusters")
        await at.ask("root", "GET", "/admin/v2/persistent/public/default/nope/stats")
        assert [each.kind for each in at.admin.broker.audit.last(10)] == ["login"]

    serve_secured(test)


def test_no_body_and_no_value_is_told() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        for method, path, body in (
            ("PUT", "namespaces/shop/eu/property/key/sEcReT", None),
            ("PUT", "namespaces/shop/eu/properties", '{"key": "sEcReT"}'),
            ("POST", "brokers/configuration/log.retention.ms/12345", None),
        ):
            assert (await at.ask("root", method, f"/admin/v2/{path}", body)).status == 204, path
        entries = at.admin.broker.audit.last(3)
        told = str(entries)
        assert "sEcReT" not in told
        assert "12345" not in told
        assert entries[0].target == "brokers/configuration/log.retention.ms"

    serve_secured(test)


def test_where_nobody_is_asked_changes_are_told_too() -> None:
    async def test(at: Secured) -> None:
        assert (await at.ask(None, "PUT", "/admin/v2/tenants/shop", "{}")).status == 204
        (entry,) = at.admin.broker.audit.last(10)
        assert (entry.who, entry.host, entry.target) == ("User:ANONYMOUS", "127.0.0.1", "tenants/shop")

    serve_secured(test, "authorization=false")


def test_a_path_is_told_on_one_line() -> None:
    call = Call("PUT", ("persistent", "public", "default", "a/b\n%"))
    assert place_of(call, ("PUT", "topic", "")) == "persistent/public/default/a%2Fb%0A%25"
