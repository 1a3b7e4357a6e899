"""Starting and stopping, as far as it can be seen within one process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import uvloop

from gateway import reserve
from gateway.config import Settings
from gateway.errors import StartError
from gateway.server import Gateway, open_store, run, start
from store import memory
from store.api import DiskFull, Family, Put
from tests.gateway.broker.held import HeldStore, until


async def get(gateway: Gateway, path: str) -> tuple[int, str]:
    """Status and body of a GET at the admin address."""
    address = gateway.admin_address
    assert address is not None
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body


def with_admin(store: HeldStore, body: Any) -> None:
    """A test against a gateway with an admin address."""

    async def main() -> None:
        async def opened(settings: Settings) -> tuple[Any, None]:
            return store, None

        settings = Settings.load(options={"listeners": "127.0.0.1:0", "admin.listen": "127.0.0.1:0"})
        with mock.patch("gateway.server.open_store", opened):
            async with contextlib.AsyncExitStack() as stack:
                await body(await start(settings, stack))

    uvloop.run(main())


def test_not_ready_while_writes_fail_with_the_reason_and_ready_again_though_nobody_writes() -> None:
    store = HeldStore()

    async def test(gateway: Gateway) -> None:
        assert await get(gateway, "/health/ready") == (200, "ok")
        store.holding = True
        gateway.broker.commit([Put(Family.META, b"x", b"y")], lambda outcome: None)
        await store.has(1)
        store.fail(DiskFull("Cannot write: no space is left on the device."))
        status, answer = await get(gateway, "/health/ready")
        assert (status, "no space is left" in answer) == (503, True)
        # being asked made it try; while that one is under way it does not try once more
        await store.has(1)
        assert (await get(gateway, "/health/ready"))[0] == 503
        assert len(store.queued) == 1
        store.release()
        await until(lambda: not gateway.broker.failing)
        assert await get(gateway, "/health/ready") == (200, "ok")

    with_admin(store, test)


def test_a_read_only_store_is_not_ready() -> None:
    store = HeldStore()
    store.inner.read_only = "The store takes no writes: restore the folder."

    async def test(gateway: Gateway) -> None:
        status, answer = await get(gateway, "/health/ready")
        assert (status, "restore the folder" in answer) == (503, True)

    with mock.patch("gateway.server.cluster_id", mock.AsyncMock(return_value=bytes(16))):
        with_admin(store, test)


@pytest.mark.parametrize("kept", [True, False])
def test_a_store_that_finds_no_space_is_opened_once_more_without_the_reserve(
    kept: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if kept:
        (tmp_path / reserve.NAME).write_bytes(bytes(reserve.SIZE))
    outcomes = [DiskFull("no space is left"), memory.open()]

    async def main() -> None:
        with mock.patch("store.rocksdb.open", mock.AsyncMock(side_effect=outcomes)):
            settings = Settings.load(options={"data": str(tmp_path)})
            if not kept:
                with pytest.raises(StartError, match="no space is left"):
                    await open_store(settings)
                return
            assert await open_store(settings) == (outcomes[1], tmp_path)

    uvloop.run(main())
    assert not (tmp_path / reserve.NAME).exists()
    assert ("gave up the 8 MiB" in caplog.text) is kept


def test_a_gateway_that_serves_looks_for_garbage_seldom_and_not_in_what_it_began_with() -> None:
    """Python's own thresholds cost a tenth of the time; what is made at the start is never garbage."""

    async def main() -> tuple[int, tuple[int, int, int]]:
        told: list[str] = []
        settings = Settings.load(["store.driver=memory", "listeners=PLAINTEXT://127.0.0.1:0"])
        serving = asyncio.create_task(run(settings, told.append))
        await until(lambda: serving.done() or gc.get_freeze_count() > before)
        found = gc.get_freeze_count() - before, gc.get_threshold()
        assert any("listening on" in line for line in told)
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
        assert told[-1] == "stopping"
        return found

    thresholds = gc.get_threshold()
    # as Python starts: the tests' own settings are not found instead of the gateway's
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    before = gc.get_freeze_count()
    try:
        frozen, now = uvloop.run(main())
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        gc.collect()
        gc.freeze()
    # the modules alone are more
    assert frozen > 50_000
    assert now[0] >= 10 * 700
    assert now[1] >= 10
    assert now[2] >= 10
