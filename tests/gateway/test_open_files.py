"""The limit of open files: raised at the start, and what it leaves to connections."""

from __future__ import annotations

import builtins
import resource
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from gateway import apis, open_files
from gateway.apis.registry import APIS
from gateway.server import Gateway
from gateway.wire import codec, messages, schema
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.held import run
from tests.gateway.serving import Client

NO_END = resource.RLIM_INFINITY


def limits(soft: int, hard: int) -> Any:
    return mock.patch("resource.getrlimit", return_value=(soft, hard))


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [
        (1024, 4096, 4096),
        (1024, 1 << 30, open_files.MOST),
        (1024, NO_END, open_files.MOST),
        (4096, 4096, None),
        (2_000_000, NO_END, None),
        (NO_END, NO_END, None),
    ],
)
def test_raised_to_the_hard_one_within_reason(soft: int, hard: int, wanted: int | None) -> None:
    with limits(soft, hard), mock.patch("resource.setrlimit") as setting:
        open_files.raise_limit()
    asked = [each.args[1] for each in setting.call_args_list]
    assert asked == ([] if wanted is None else [(wanted, hard)])


def test_a_system_that_does_not_allow_it_is_left_as_it_is() -> None:
    with limits(10, 20), mock.patch("resource.setrlimit", side_effect=ValueError("no")):
        open_files.raise_limit()


def test_a_system_without_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    open_files.raise_limit()
    assert open_files.room_for_connections() == sys.maxsize


@pytest.mark.parametrize(("soft", "room"), [(1024, 512), (513, 16), (10, 16), (NO_END, sys.maxsize)])
def test_what_is_left_to_connections(soft: int, room: int) -> None:
    with limits(soft, soft):
        assert open_files.room_for_connections() == room


def test_a_listener_takes_no_more_than_there_are_files_for() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        others = [await Client.connect(gateway) for _ in range(open_files.FEWEST)]
        assert await others[-1].at_end()
        for other in others[:-1]:
            await other.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        for other in others:
            other.close()

    with limits(100, 100):
        run(test)


def test_no_file_is_opened_for_an_api_that_is_first_used_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """When connections have taken all there are, answers must still be made."""
    monkeypatch.setattr(schema, "_loaded", {})

    def refuse(*arguments: Any, **more: Any) -> Any:
        raise AssertionError("a file is opened")

    async def test(gateway: Gateway, client: Client) -> None:
        with (
            mock.patch.object(Path, "read_text", refuse),
            mock.patch.object(builtins, "open", refuse),
        ):
            for api in APIS.values():
                assert schema.load(api.name + "Request").key == api.key
                assert schema.load(api.name + "Response").key == api.key
            await client.ask(ApiKey.DESCRIBE_CLUSTER, 0, messages.DescribeClusterRequest())

    run(test)


def test_every_served_api_has_its_schemas() -> None:
    apis.load_all()
    codec.load_schemas(APIS)
