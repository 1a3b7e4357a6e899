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
    assert open_files.shares().connections == sys.maxsize
    assert open_files.too_few() == ""


@pytest.mark.parametrize("soft", [128, 129, 200, 256, 1000, 1024, 4096, 65536, 1 << 20])
def test_the_shares_are_the_limit(soft: int) -> None:
    with limits(soft, soft):
        assert open_files.too_few() == ""
        shares = open_files.shares()
    segments = 2 * shares.segments + shares.segments // 2
    assert shares.connections + shares.http + segments + shares.tables + open_files.FIXED == soft
    assert min(shares) >= 4
    assert shares.tables >= 20, "RocksDB takes no fewer"
    assert shares.connections >= soft * 0.2


def test_what_each_has_at_most() -> None:
    with limits(NO_END, NO_END):
        assert open_files.shares() == (sys.maxsize, 256, 1024, 256)
    with limits(1 << 20, 1 << 20):
        assert open_files.shares()[1:] == (256, 1024, 256)


def test_a_limit_that_is_too_low_for_anything() -> None:
    with limits(100, 100):
        assert "may have 100 files open" in open_files.too_few()


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
