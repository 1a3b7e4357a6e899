"""A disk that fails at every step of two overlapping groups, as clients of a gateway see it.

An idempotent producer has two requests in flight; whatever fails in whichever way, it sends again what was not
acknowledged, and finds each batch once: before and after a restart, and when it did not get the answer either.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.clipping import clip
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import retriable
from gateway.wire.records import records
from store.batch import walk
from store.rocksdb import RocksStore
from tests.gateway.broker.held import part, serving_on, until
from tests.gateway.broker.test_turn import numbered
from tests.gateway.serving import Client, create, fetch_body, produce_body
from tests.store.rocksdb.conftest import MEMORY
from tests.store.rocksdb.faults import MODES, Faults, open_faulty

pytestmark = pytest.mark.integration

SIZES = {"small": (40, 70), "large": (90_000, 150_000)}
"""Bytes of the values of the two requests; the large ones sync their segment under fsync."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="magnetar-", dir=MEMORY)) if MEMORY.is_dir() else tmp_path
    yield made
    shutil.rmtree(made, ignore_errors=True)


def sent(shape: str) -> list[tuple[bytes, ...]]:
    """(value for partition 0, value for partition 1) of each request."""
    return [tuple(bytes([65 + 2 * n + p]) * size for p in range(2)) for n, size in enumerate(SIZES[shape])]


def bodies(shape: str) -> list[Any]:
    return [produce_body("t", *(numbered(n, value) for value in pair)) for n, pair in enumerate(sent(shape))]


async def opened(path: Path, faults: Faults) -> RocksStore:
    return await open_faulty(path, faults, clip=clip, inline_bytes=-1, checkpoint_seconds=1e6)


async def retried(client: Client, body: Any) -> None:
    """Send until it is acknowledged, as a client does; every answer before must ask for that."""
    for _ in range(5):
        answer = await client.ask(ApiKey.PRODUCE, 9, body)
        codes = [part(answer, index).error_code for index in range(2)]
        if codes == [0, 0]:
            return
        assert all(not code or retriable(code) for code in codes), codes
    raise AssertionError("it is not stored, however often it is sent")


async def all_of(client: Client) -> list[list[bytes | None]]:
    """The values of both partitions. One answer ends with a segment, so it may take several."""
    found: list[list[bytes | None]] = []
    for index in range(2):
        offset, own = 0, []
        while True:
            answer = await client.ask(ApiKey.FETCH, 11, fetch_body("t", offset, partition=index))
            data = bytes(part(answer).records or b"")
            if not data:
                break
            for at, size, base, following in walk(data):
                assert base == offset
                own += [record.value for record in records(data[at : at + size])]
                offset = following
        found.append(own)
    return found


async def run(
    folder: Path, durability: str, shape: str, plan: tuple[int, str] | None, broken: str
) -> list[str]:
    """One failure (`broken` fails as well from then on, once each). Answers the steps that were seen."""
    faults = Faults()
    store = await opened(folder / "data", faults)
    wanted = [list(each) for each in zip(*sent(shape), strict=True)]
    async with serving_on(store, f"durability={durability}") as gateway:
        client = await Client.connect(gateway)
        await create(client, "t", 2)
        faults.arm(plan, gate=True)
        if broken:
            faults.broken.add(broken)
        for body in bodies(shape):
            client.send(ApiKey.PRODUCE, 9, body)
            await until(lambda: faults.entered.is_set() and gateway.broker.turn.in_flight)
        await until(lambda: gateway.broker.turn.in_flight == 2)
        assert faults.go is not None
        faults.go.set()
        for _ in bodies(shape):
            await client.receive()
        seen = list(faults.seen)
        faults.disarm()
        # as if no answer had come: what is there already must not come twice
        for body in bodies(shape):
            await retried(client, body)
        assert await all_of(client) == wanted
        client.close()
        store._database._db.cancel_all_background(True)
        shutil.copytree(folder / "data", folder / "killed")
    for left in ("data", "killed"):
        again = await opened(folder / left, Faults())
        assert not again.read_only
        async with serving_on(again, f"durability={durability}") as gateway:
            client = await Client.connect(gateway)
            assert await all_of(client) == wanted, left
            for body in bodies(shape):
                await retried(client, body)
            assert await all_of(client) == wanted, left
            client.close()
    return seen


@pytest.mark.parametrize("shape", list(SIZES))
@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_a_client_that_tries_again_neither_loses_nor_doubles(
    folder: Path, durability: str, shape: str
) -> None:
    (folder / "plain").mkdir()
    steps = asyncio.run(run(folder / "plain", durability, shape, None, ""))
    assert steps.count("batch") == 2, "two groups"
    assert ("wal" in steps) == (durability == "fsync")
    assert ("sync" in steps) == (durability == "fsync" and shape == "large")
    for number, step in enumerate(steps):
        for mode in MODES[step]:
            # the cut back of what was written fails too
            for broken in ("", "truncate") if step in ("write", "sync", "sync_folder") else ("",):
                place = folder / f"{number}-{mode}-{broken}"
                place.mkdir()
                try:
                    asyncio.run(run(place, durability, shape, (number, mode), broken))
                except BaseException as error:
                    error.add_note(f"failure at step {number} ({step}) of {steps}, mode {mode} {broken}")
                    raise
                shutil.rmtree(place)
