"""Users of a gateway as a process: the first one, librdkafka's admin client, a kill, and the gateway's own tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from compat.peers.magnetar import MagnetarPeer
from gateway.cli.admin import main as magnetar_admin
from gateway.cli.main import main as magnetar

pytestmark = pytest.mark.integration

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def told(client: AdminClient) -> dict[str, dict[str, int]]:
    """All users with their credentials."""
    found = client.describe_user_scram_credentials(request_timeout=10).result()
    return {
        name: {each.mechanism.name: each.iterations for each in row.scram_credential_infos}
        for name, row in found.items()
    }


def alter(client: AdminClient, *changes: Any) -> dict[str, int]:
    """By user the error code."""
    answers = client.alter_user_scram_credentials(list(changes), request_timeout=10)
    return {name: _code(answer) for name, answer in answers.items()}


def _code(answer: Any) -> int:
    try:
        answer.result()
    except KafkaException as error:
        code: int = error.args[0].code()
        return code
    return 0


def put(name: str, mechanism: Any, iterations: int = 4096) -> Any:
    return UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, iterations), b"open sesame")


def command(main: Any, *args: str, stdin: str = "") -> Result:
    return CliRunner(env={"MAGNETAR_CONFIG": None}).invoke(main, args, input=stdin)


def test_users_from_the_first_one_on(own_gateway: Callable[..., MagnetarPeer], tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = ("users", "create", "ada", "--password-stdin", "--data", str(data))
    assert command(magnetar, *first, stdin="open sesame\n").stdout == "Created user ada.\n"
    gateway = own_gateway()
    client = AdminClient({"bootstrap.servers": gateway.bootstrap})
    both = {"SCRAM_SHA_256": 4096, "SCRAM_SHA_512": 4096}
    assert told(client) == {"ada": both}
    assert alter(client, put("bob", SHA_512, 8192), put("a,b", SHA_256)) == {
        "bob": 0,
        "a,b": KafkaError.UNACCEPTABLE_CREDENTIAL,
    }
    answers = alter(
        client, UserScramCredentialDeletion("ada", SHA_256), UserScramCredentialDeletion("eve", SHA_256)
    )
    assert answers == {"ada": 0, "eve": KafkaError.RESOURCE_NOT_FOUND}
    after = {"ada": {"SCRAM_SHA_512": 4096}, "bob": {"SCRAM_SHA_512": 8192}}
    assert told(client) == after
    # one that has seen the server go waits before it comes back
    del client
    gateway.kill()
    gateway.start()
    client = AdminClient({"bootstrap.servers": gateway.bootstrap})
    assert told(client) == after

    # the store is the gateway's now
    refused = command(magnetar, "users", "list", "--data", str(data))
    assert refused.exit_code == 1
    assert "magnetar-admin users" in refused.stderr
    admin = ("--admin-url", gateway.admin_url, "--output", "json", "users")
    assert (
        command(magnetar_admin, *admin, "passwd", "bob", "--password-stdin", stdin="another").exit_code == 0
    )
    assert told(client)["bob"] == both
    assert command(magnetar_admin, *admin, "delete", "ada").exit_code == 0
    (bob,) = json.loads(command(magnetar_admin, *admin, "list").stdout)
    assert (bob["name"], bob["home"]) == ("bob", None)
    assert "sesame" not in gateway.log() + "".join(gateway.lines)
