"""What the programs that Python drives make of COMPAT_SECURITY."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat.harness.catalogue import CLIENTS

ASKED = """
import json, security
print(json.dumps([security.librdkafka("HOST:1"), security.java(), security.java_options()]))
"""
USER = {"protocol": "SASL_SSL", "ca": "/ca.pem", "user": "ada", "password": "secret"}


def ask(told: dict[str, str] | None) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(CLIENTS)}
    if told is not None:
        environment["COMPAT_SECURITY"] = json.dumps(told)
    done = subprocess.run(
        [sys.executable, "-c", ASKED], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_without_it_clients_connect_in_the_clear() -> None:
    assert ask(None) == [{"bootstrap.servers": "HOST:1"}, {}, []]


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)
def test_a_password(mechanism: str, module: str) -> None:
    librdkafka, java, options = ask({**USER, "mechanism": mechanism})
    assert librdkafka == {
        "bootstrap.servers": "HOST:1",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca.pem",
        "sasl.mechanisms": mechanism,
        "sasl.username": "ada",
        "sasl.password": "secret",
    }
    assert java["sasl.jaas.config"].endswith(f'.{module} required username="ada" password="secret";')
    assert options == []


def test_a_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    told = {
        **USER,
        "mechanism": "OAUTHBEARER",
        "token_file": str(file),
        "token_endpoint": "http://HOST/token",
    }
    librdkafka, java, options = ask(told)
    assert librdkafka["sasl.oauthbearer.token.endpoint.url"] == "http://HOST/token"
    assert "sasl.password" not in librdkafka
    assert java["sasl.oauthbearer.token.endpoint.url"] == file.as_uri()
    assert "secret" not in java["sasl.jaas.config"]
    assert options == [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()}"]


def test_a_certificate() -> None:
    told = {"protocol": "SSL", "ca": "/ca.pem", "certificate": "/client.pem", "key": "/client.pem"}
    librdkafka, java, _ = ask(told)
    assert librdkafka["ssl.key.location"] == java["ssl.keystore.location"] == "/client.pem"
    assert not [name for name in (*librdkafka, *java) if name.startswith("sasl")]
