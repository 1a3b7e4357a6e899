"""Settings of one listener: written in three ways, checked, and shown as any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import Settings
from semantics.homes import EVERYWHERE
from semantics.names import DEFAULT, Namespace
from tests.gateway.config.refused import problems

TWO = "listeners=127.0.0.1:1,Shop-EU://127.0.0.1:2"
NAME = "listener.name.shop-eu.pulsar.namespace"
EU = Namespace("shop", "eu")


def test_a_listener_is_for_a_namespace_and_the_others_are_for_all() -> None:
    settings = Settings.load([TWO, f"{NAME}=shop/eu"])
    assert [each.namespace for each in settings.listeners] == [DEFAULT, EU]
    assert settings.homes == settings.listener_homes == frozenset({EU})
    assert Settings.load([TWO]).homes == frozenset()
    asking = Settings.load([TWO, f"{NAME}=shop/eu", "authorization=true"])
    assert asking.homes is EVERYWHERE
    assert asking.listener_homes == {EU}
    assert Settings.load([TWO, f"{NAME}=public/default"]).homes == frozenset()


def test_flags_a_file_and_variables_say_it(tmp_path: Path) -> None:
    file = tmp_path / "m.toml"
    file.write_text('[listener.name.Shop-EU.pulsar]\nnamespace = "shop/eu"\n')
    assert Settings.load([TWO], file=file).homes == frozenset({EU})
    # a variable cannot have the dash
    variable = {"MAGNETAR_LISTENER_NAME_SHOP_EU_PULSAR_NAMESPACE": "shop/us"}
    assert Settings.load([TWO], environ=variable).homes == frozenset({Namespace("shop", "us")})


def test_it_is_shown_with_the_others() -> None:
    settings = Settings.load([TWO, f"{NAME}=shop/eu"])
    assert settings.names[-1] == NAME
    row = {row.name: row for row in settings.describe()}[NAME]
    assert (row.value, row.read_only) == ("shop/eu", True)
    assert "read at the start" in (settings.altered(NAME, "shop/us") or "")


@pytest.mark.parametrize("value", ["shop", "shop/eu/x", "shop/e.u", "/", ""])
def test_what_is_no_namespace_is_refused(value: str) -> None:
    (problem,) = problems(TWO, f"{NAME}={value}")
    assert "must be tenant/namespace" in problem


def test_a_listener_that_is_not_there_is_named() -> None:
    (problem,) = problems(TWO, "listener.name.us.pulsar.namespace=shop/us")
    assert "us.pulsar.namespace is of a listener that there is not" in problem
    assert "PLAINTEXT, Shop-EU" in problem
    (problem,) = problems(TWO, f"{NAME}=shop/eu", "listener.name.shop_eu.pulsar.namespace=shop/us")
    assert "is said twice" in problem


def test_a_slip_is_told_what_is_meant() -> None:
    (problem,) = problems("listener.name.plaintext.pulsar.namespac=shop/eu")
    assert 'Did you mean "listener.name.plaintext.pulsar.namespace"?' in problem


def test_what_a_listener_does_not_have_is_told_with_what_it_has() -> None:
    (problem,) = problems("listener.name.lan.nonsense=x")
    assert problem.endswith(
        "A listener has listener.name.lan.pulsar.namespace and listener.name.lan.ssl.client.auth."
    )
    (problem,) = problems("listener.name.lan.ssl.client.aut=x")
    assert 'Did you mean "listener.name.lan.ssl.client.auth"?' in problem


def test_one_that_nobody_has_set_has_the_default() -> None:
    settings = Settings.load([TWO])
    assert (settings.shown(NAME), settings.origin(NAME)) == ("public/default", "default")
    with pytest.raises(KeyError):
        settings.value("listener.name.shop-eu.no")


SECURE = "listeners=SSL://127.0.0.1:1,SASL_SSL://127.0.0.1:2,127.0.0.1:3"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([], ["none", "none", "none"]),
        (["ssl.client.auth=required"], ["required", "none", "none"]),
        (
            ["ssl.client.auth=required", "listener.name.ssl.ssl.client.auth=requested"],
            ["requested", "none", "none"],
        ),
        (["listener.name.sasl_ssl.ssl.client.auth=required"], ["none", "required", "none"]),
    ],
)
def test_a_listener_asks_for_certificates_as_is_said_of_it_or_of_all(
    said: list[str], expected: list[str]
) -> None:
    settings = Settings.load([SECURE, *said])
    assert [settings.client_auth(each) for each in settings.listeners] == expected
    assert [settings.knows(each) for each in settings.listeners] == [expected[0] != "none", True, False]


def test_a_variable_says_it_of_a_listener_too() -> None:
    variable = {"MAGNETAR_LISTENER_NAME_SSL_SSL_CLIENT_AUTH": "required"}
    settings = Settings.load([SECURE], environ=variable)
    assert settings.client_auth(settings.listeners[0]) == "required"
    (problem,) = problems(SECURE, "listener.name.ssl.ssl.client.auth=perhaps")
    assert "must be none, requested or required" in problem
