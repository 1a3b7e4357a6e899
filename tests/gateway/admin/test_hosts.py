"""By which names the gateway may be called over HTTP."""

from __future__ import annotations

import pytest

from gateway.admin.exchange import RefusedError
from gateway.admin.hosts import check_host, check_origin, own_names
from gateway.config.settings import Settings


def test_its_names_are_those_that_it_binds_and_advertises_and_those_that_it_was_given() -> None:
    settings = Settings.load(
        [
            "admin.listen=Admin.shop.example:8080",
            "listeners=broker.shop.example:9092",
            "advertised.listeners=kafka.shop.example:9092",
            "admin.allowed.hosts=Console.Shop.Example., magnetar",
            "insecure=true",
        ]
    )
    names = own_names(settings)
    assert names == {
        "admin.shop.example",
        "broker.shop.example",
        "kafka.shop.example",
        "console.shop.example",
        "magnetar",
    }
    for host in ("ADMIN.shop.example:8080", "kafka.shop.example", "magnetar.:1", "console.shop.example"):
        check_host(host, names)
    for host in (
        "shop.example",
        "evil.example:8080",
        "magnetar.evil.example",
        "",
        "[nonsense",
        "a@magnetar.x",
    ):
        with pytest.raises(RefusedError, match="not known as"):
            check_host(host, names)


def test_a_gateway_that_listens_everywhere_has_no_name_by_that() -> None:
    names = own_names(Settings.load(["admin.listen=:8080", "insecure=true"]))
    assert names == {"127.0.0.1"}
    with pytest.raises(RefusedError):
        check_host("evil.example:8080", names)


def test_clients_without_a_host_and_an_asterisk() -> None:
    check_host(None, ())
    check_host("anything.example", own_names(Settings.load(["admin.allowed.hosts=*"])))


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://[x]", "null", "", "http://"])
def test_an_origin_that_is_no_site_is_not_this_one(origin: str) -> None:
    for headers in ({"Origin": origin, "Host": "127.0.0.1:8080"}, {"Origin": origin}):
        with pytest.raises(RefusedError, match="another site") as refused:
            check_origin("POST", headers)
        assert refused.value.status == 403
        check_origin("GET", headers)
    check_origin("POST", {"Origin": "http://[::1]:8080", "Host": "[::1]:8080"})
