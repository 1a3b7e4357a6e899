"""What listeners speak, which of them other machines may reach, and when rights are asked for."""

from __future__ import annotations

import pytest

from gateway.config import Settings, SettingsError


def problems(*flags: str) -> list[str]:
    """What is said of settings, if anything."""
    try:
        Settings.load(flags)
    except SettingsError as error:
        return error.problems
    return []


@pytest.mark.parametrize(
    ("listeners", "mapped", "protocols"),
    [
        ("127.0.0.1:1", "", ["PLAINTEXT"]),
        (
            "SASL_SSL://127.0.0.1:1,SSL://127.0.0.1:2,sasl_plaintext://127.0.0.1:3",
            "",
            ["SASL_SSL", "SSL", "SASL_PLAINTEXT"],
        ),
        ("OUT://127.0.0.1:1,IN://127.0.0.1:2", "OUT:SASL_SSL, IN:SSL", ["SASL_SSL", "SSL"]),
        ("OUT://127.0.0.1:1,IN://127.0.0.1:2", "out:SASL_SSL", ["SASL_SSL", "PLAINTEXT"]),
        # a name that is a protocol may be mapped to another one, as in Kafka
        ("SSL://127.0.0.1:1", "SSL:SASL_SSL", ["SASL_SSL"]),
    ],
)
def test_what_listeners_speak(listeners: str, mapped: str, protocols: list[str]) -> None:
    settings = Settings.load([f"listeners={listeners}", f"listener.security.protocol.map={mapped}"])
    assert [each.protocol for each in settings.listeners] == protocols


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("listener.security.protocol.map=OUT", "must hold NAME:PROTOCOL"),
        ("listener.security.protocol.map=OUT:TLS", "must hold NAME:PROTOCOL"),
        ("listener.security.protocol.map=:SSL", "must hold NAME:PROTOCOL"),
        ("listener.security.protocol.map=OUT:SSL,out:SSL", "must name each listener once"),
        ("super.users=ada", "must hold principals such as User:ada"),
        ("super.users=User:", "must hold principals such as User:ada"),
        ("super.users=User:ada,Group:x", None),
        ("super.users=User:ada,User:bob", "with semicolons between them"),
        ("listeners=TLS://127.0.0.1:1", "the listener TLS speaks PLAINTEXT, and its name says otherwise"),
        ("listeners=my-sasl://127.0.0.1:1", "speaks PLAINTEXT, and its name says otherwise"),
        ("tenancy.unbound=nowhere", "must be listener, refuse or tenant/namespace"),
        ("sasl.enabled.mechanisms=GSSAPI", "may only hold PLAIN"),
    ],
)
def test_what_is_refused(flag: str, said: str | None) -> None:
    found = problems(flag)
    assert (said is None and found == []) or (said is not None and said in found[0])


def test_a_subject_with_commas_may_be_a_super_user() -> None:
    settings = Settings.load(["super.users=User:ada; User:CN=ops,O=Shop,C=DE"])
    assert settings.super_users == {"User:ada", "User:CN=ops,O=Shop,C=DE"}
    assert Settings.load().super_users == frozenset()


@pytest.mark.parametrize(
    ("flags", "exposed"),
    [
        (["listeners=SASL_SSL://:1"], False),
        (["listeners=SSL://:1"], True),
        (["listeners=SSL://:1", "ssl.client.auth=requested"], True),
        (["listeners=SSL://:1", "ssl.client.auth=required"], False),
        (["listeners=SASL_PLAINTEXT://:1"], True),
        (["listeners=PLAINTEXT://:1"], True),
        (["admin.listen=:1"], True),
        (["admin.listen=:1", "admin.authentication=true"], True),
        (["admin.listen=:1", "admin.authentication=true", "ssl.certificate.location=a"], False),
        (["admin.listen=:1", "listeners=SASL_SSL://127.0.0.1:2", "ssl.keystore.location=a"], False),
        (["admin.listen=:1", "listeners=SASL_SSL://127.0.0.1:2", "admin.security.protocol=PLAINTEXT"], True),
        (["admin.listen=:1", "listeners=SASL_SSL://127.0.0.1:2", "admin.authentication=false"], True),
    ],
)
def test_who_may_be_reached_by_others(flags: list[str], exposed: bool) -> None:
    found = problems(*flags)
    assert len(found) == exposed
    assert all("--insecure" in each for each in found)
    assert problems(*flags, "insecure=true") == []


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ([], False),
        (["listeners=SSL://127.0.0.1:1"], False),
        (["listeners=SSL://127.0.0.1:1", "ssl.client.auth=requested"], True),
        (["listeners=127.0.0.1:1,SASL_PLAINTEXT://127.0.0.1:2"], True),
        (["listeners=SASL_SSL://127.0.0.1:2", "authorization=false"], False),
        (["authorization=true"], True),
    ],
)
def test_when_rights_are_asked_for(flags: list[str], asked: bool) -> None:
    settings = Settings.load(flags)
    assert (settings.authorization, settings.admin_authentication) == (asked, asked)


def test_passwords_are_not_shown() -> None:
    settings = Settings.load(["ssl.key.password=geheim", "token.secret.key=geheim"])
    assert "geheim" not in str([settings.shown(name) for name in settings.names])
    assert "geheim" not in str(list(settings.describe()))
