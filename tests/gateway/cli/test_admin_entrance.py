"""`topics produce` and `topics consume` at a port that asks for TLS or a login: what is told, and what to do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError

from gateway.cli import admin_kafka
from gateway.cli.admin import main
from gateway.cli.admin_entrance import why_closed
from tests.gateway.pki import Pki
from tests.gateway.serving import serving


def test_each_kind_of_port_is_told_apart(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")
    listeners = (
        "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0"
    )

    async def test() -> None:
        async with serving(*pki.flags, listeners=listeners) as gateway:
            for listener, protocol, word in (
                ("SSL", "PLAINTEXT", "security.protocol=SSL, or SASL_SSL"),
                ("SASL_SSL", "plaintext", "security.protocol=SSL, or SASL_SSL"),
                ("SASL_SSL", "SSL", "security.protocol=SASL_SSL"),
                ("SASL_PLAINTEXT", "PLAINTEXT", "security.protocol=SASL_PLAINTEXT"),
            ):
                host, port = gateway.broker.endpoints[listener]
                found = await asyncio.to_thread(why_closed, host, port, protocol)
                assert found is not None, listener
                assert word in found[1]
                assert "--client-config" in found[1]
                assert found[0].startswith("it speaks TLS") is (listener != "SASL_PLAINTEXT")
            host, port = gateway.broker.endpoints["SASL_SSL"]
            assert await asyncio.to_thread(why_closed, host, port, "SASL_SSL") is None

    asyncio.run(test())


@pytest.mark.parametrize("verb", [["consume", "orders"], ["produce", "orders", "hi"]])
def test_a_port_of_tls_is_told_with_what_to_do(verb: list[str], tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")

    async def test() -> None:
        async with serving(*pki.flags, listeners="SSL://127.0.0.1:0") as gateway:
            host, port = gateway.broker.endpoints["SSL"]
            flags = ["--request-timeout", "0.5", "topics", *verb, "-b", f"{host}:{port}"]
            result = await asyncio.to_thread(CliRunner().invoke, main, flags)
            assert result.exit_code == 1
            assert (
                "does not answer like a Kafka port: it speaks TLS. Say how one gets in with" in result.stderr
            )

    asyncio.run(test())


def test_a_login_that_was_refused_is_told_as_such() -> None:
    watch = admin_kafka.Watch()
    said = "sasl://127.0.0.1:1/bootstrap: SASL authentication error: no (after 3ms in state AUTH_REQ)"
    watch.settings()["error_cb"](KafkaError(KafkaError._AUTHENTICATION, said))
    watch.settings()["error_cb"](KafkaError(KafkaError._TRANSPORT, "a:1/bootstrap: Disconnected"))
    assert watch.no_kafka("a:1").reason == "a:1 refused the login: SASL authentication error: no."
